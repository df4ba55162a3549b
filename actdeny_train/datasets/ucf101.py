"""UCF101: presence clips by one of its three official splits into train and test."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actdeny_train.actions.labels import LabelSet, load_ucf101
from actdeny_train.datasets.annotations import (
    by_canonical,
    canonical,
    check_label_list,
    find_file,
    missing_file,
    read_lines,
    row_error,
    take_whole_number,
)
from actdeny_train.datasets.base import ClipDataModule, Published
from actdeny_train.datasets.layouts import VideoIndex
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import ConfigError, near_misses
from actdeny_train.types import Clip, ClipKind

WHERE_TO_GET = "Set `annotations` to the folder of the official lists (UCF101TrainTestSplits-RecognitionTask.zip, folder ucfTrainTestlist)."
_NAME = re.compile(
    r"(?:.*/)?(?P<action>[^/]+)/(?P<stem>v_[A-Za-z]+_g(?P<group>[0-9]{1,3})_c[0-9]{1,3})\.(?:avi|mp4|mkv|webm)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One clip of a list: its action, its file name without suffix, and its group, e.g. "g01"."""

    action: str
    stem: str
    group: str


class UCF101(ClipDataModule):
    """The 13,320 clips in split ``fold`` (1, 2 or 3): splits ``"train"`` and ``"test"``.

    ``annotations`` is the folder of ``trainlist0k.txt`` and ``testlist0k.txt``: ``root/ucfTrainTestlist``, ``root/annotations`` or
    ``root`` unless given. Videos may lie anywhere below ``root``, in class folders (``HandstandPushups`` in either casing) or not. A source
    is a group of clips cut from one long video: ``Archery/g01``.
    """

    def __init__(
        self, root: str, annotations: str | None = None, fold: int = 1, screening: Screening | None = None
    ) -> None:
        super().__init__(root, screening)
        if fold not in (1, 2, 3):
            raise ConfigError(
                f"UCF101: fold is {fold!r}, but there are the official splits 1, 2 and 3. Set `fold` to one of them."
            )
        self.fold = fold
        self.folders = (
            [Path(annotations)]
            if annotations
            else [self.root / "ucfTrainTestlist", self.root / "annotations", self.root]
        )

    @property
    def labels(self) -> LabelSet:
        return load_ucf101()

    def published(self) -> dict[str, Published]:
        train = {1: 9_537, 2: 9_586, 3: 9_624}[self.fold]
        return {"train": Published((train,)), "test": Published((13_320 - train,))}

    def read_clips(self) -> Iterator[Clip]:
        """Yield train clips, then test clips, in the order of the lists. Raises DataError at the first malformed row."""
        lists = {split: f"{split}list{self.fold:02d}.txt" for split in ("train", "test")}
        found = {split: find_file([name], self.folders) for split, name in lists.items()}
        classes = find_file(["classInd.txt"], self.folders)
        if classes is not None:
            check_label_list(classes, self.labels)
        index = VideoIndex(self.root, str.lower)
        for split, path in found.items():
            if path is None:
                raise missing_file("UCF101", [lists[split]], self.folders, WHERE_TO_GET)
            for row in read_list(path, self.labels):
                yield Clip(
                    id=f"{row.action}/{row.stem}",
                    path=index.find(f"{row.action}/{row.stem}.avi", folders=(row.action, split)),
                    action=row.action,
                    kind=ClipKind.PRESENCE,
                    split=split,
                    source=f"{row.action}/{row.group}",
                )


def read_list(path: Path, labels: LabelSet) -> Iterator[Row]:
    """Yield the rows of a train or test list: ``Class/v_Class_gNN_cNN.avi``, with or without the class number after it.

    The folder gives the class, whatever its casing: files of HandstandPushups are called v_HandStandPushups. A class number, counted
    from 0 or 1 (after a space or a comma), must agree with it.
    """
    actions = by_canonical(labels)
    for where, line in read_lines(path):
        name, *number = re.split(r"[\s,]+", line, maxsplit=1)
        match = _NAME.fullmatch(name.replace("\\", "/"))
        if match is None:
            raise row_error(where, line, "Class/v_Class_gNN_cNN.avi, optionally followed by the number of the class")
        action = actions.get(canonical(match["action"]))
        if action is None:
            raise row_error(
                where, match["action"], "one of UCF101's 101 classes", near_misses(match["action"], labels.actions)
            )
        if number:
            place = labels.actions.index(action)
            take_whole_number(number[0], range(place, place + 2), f"number of class {action}", where)
        yield Row(action, match["stem"], f"g{int(match['group']):02d}")
