"""HMDB51: presence clips by one of its three official splits into train and test."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actdeny_train.actions.labels import LabelSet, load_hmdb51
from actdeny_train.datasets.annotations import missing_file, read_lines, row_error
from actdeny_train.datasets.base import ClipDataModule, Published
from actdeny_train.datasets.layouts import VideoIndex
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import ConfigError
from actdeny_train.types import Clip, ClipKind

SPLITS = {"1": "train", "2": "test", "0": None}
"""What the number behind a clip says; None: the clip is not used."""
FOLDERS = ("", "testTrainMulti_7030_splits", "test_train_splits", "splits", "annotations")
WHERE_TO_GET = (
    "Set `annotations` to the folder of the 153 files of test_train_splits.rar (unrar unpacks it and the videos)."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One clip of a split file: its action, its file name without suffix, the film it was cut from, and its split or None."""

    action: str
    stem: str
    film: str
    split: str | None


class HMDB51(ClipDataModule):
    """The clips of split ``fold`` (1, 2 or 3): 3,570 in ``"train"`` and 1,530 in ``"test"``; the other 1,666 are not used.

    ``annotations`` is the folder of ``<class>_test_split<fold>.txt``: ``root``, or ``testTrainMulti_7030_splits`` or ``annotations`` below
    it, unless given. Videos may lie anywhere below ``root``, in class folders or not. A source is a film within a class:
    ``walk/April_09``. The official splits keep those together; clips of one film in different classes they part (133 of 1,352
    films in split 1).
    """

    def __init__(
        self, root: str, annotations: str | None = None, fold: int = 1, screening: Screening | None = None
    ) -> None:
        super().__init__(root, screening)
        if fold not in (1, 2, 3):
            raise ConfigError(
                f"HMDB51: fold is {fold!r}, but there are the official splits 1, 2 and 3. Set `fold` to one of them."
            )
        self.fold = fold
        self.folders = [Path(annotations)] if annotations else [self.root / name for name in FOLDERS]

    @property
    def labels(self) -> LabelSet:
        return load_hmdb51()

    def published(self) -> dict[str, Published]:
        return {"train": Published((3_570,)), "test": Published((1_530,))}

    def read_clips(self) -> Iterator[Clip]:
        """Yield the clips by class, in the order of the files. Raises DataError where a class has no file, or at a malformed row."""
        index = VideoIndex(self.root)
        for action in self.labels.actions:
            name = f"{action}_test_split{self.fold}.txt"
            path = next((folder / name for folder in self.folders if (folder / name).is_file()), None)
            if path is None:
                raise missing_file("HMDB51", [name], self.folders, WHERE_TO_GET)
            for row in read_split(path, action):
                if row.split is not None:
                    yield Clip(
                        id=f"{action}/{row.stem}",
                        path=index.find(f"{action}/{row.stem}.avi", folders=(action, row.split)),
                        action=action,
                        kind=ClipKind.PRESENCE,
                        split=row.split,
                        source=f"{action}/{row.film}",
                    )


def read_split(path: Path, action: str) -> Iterator[Row]:
    """Yield the rows ``name.avi FLAG`` of a split file; the file's name gives the class, since names of clips nest.

    Names hold brackets, ``#``, ``;``, ``&`` and ``!``, so they are never a pattern, a comment or a shell word.
    """
    # name_class_visible body_camera motion_number of people_direction_quality_number: the film stands before the class.
    name = re.compile(
        rf"(?P<stem>(?P<film>.+)_{re.escape(action)}_[a-z]+_[a-z]+_np[0-9]+_[a-z]+_[a-z]+_[0-9]+)\.(?:avi|mp4)", re.I
    )
    for where, line in read_lines(path):
        file, _, flag = line.replace("\t", " ").rpartition(" ")
        match = name.fullmatch(file.strip())
        if match is None or not set("/\\").isdisjoint(file):
            raise row_error(
                where,
                line,
                f"<film>_{action}_<body>_<motion>_np<people>_<direction>_<quality>_<number>.avi and 0, 1 or 2",
            )
        if flag not in SPLITS:
            raise row_error(where, flag, "0 (not used), 1 (train) or 2 (test) behind the name")
        yield Row(action, match["stem"], match["film"], SPLITS[flag])
