"""FineGym99: presence clips of single gymnastic elements."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from actdeny_train.actions.labels import LabelSet, load_finegym99
from actdeny_train.datasets.annotations import (
    canonical,
    find_file,
    missing_file,
    read_lines,
    read_table,
    row_error,
    take_whole_number,
)
from actdeny_train.datasets.base import ClipDataModule, Published
from actdeny_train.datasets.layouts import VideoIndex
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import ConfigError, DataError, near_misses
from actdeny_train.types import Clip, ClipKind

FILES = {
    "train": ("gym99_train_element_v1.1.txt", "gym99_train_element_v1.0.txt", "gym99_train_element.txt", "train99.csv"),
    "val": ("gym99_val_element.txt", "val99.csv"),
}
"""Files of each split; the first of them that exists is read."""
CATEGORIES = "gym99_categories.txt"
WHERE_TO_GET = "Set `annotations` to the folder of FineGym's element-level split files."
_ID = re.compile(r"(?P<video>[A-Za-z0-9_-]{11})_E_[0-9]{6}_[0-9]{6}_A_[0-9]{4}_[0-9]{4}")
_CATEGORY = re.compile(
    r"Clabel:\s*(?P<index>[0-9]{1,4})\s*;\s*set:\s*[0-9]{1,4}\s*;\s*Glabel:\s*[0-9]{1,4}\s*;\s*(?P<name>.+)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One clip: its id, its action, and the YouTube id of the competition it was cut from."""

    id: str
    action: str
    source: str


class FineGym99(ClipDataModule):
    """The clips of splits ``"train"`` (26,320 in v1.1, 20,484 in v1.0) and ``"val"`` (8,521), as far as their files exist.

    ``annotations`` is the folder of the split files: ``root/annotations`` or ``root`` unless given. Videos may lie anywhere below
    ``root`` as ``<id>.mp4``. A source is a competition's video, the first 11 characters of the id.

    The official splits share sources: 40 of val's 65 videos, with 5,560 train clips in v1.1. ``shared_videos`` says what becomes
    of those train clips where both files exist: ``"drop"`` leaves them out and says how many; ``"keep"`` keeps the official
    train split, for comparison with published figures, and calls their source ``<video> (train)``.
    """

    def __init__(
        self,
        root: str,
        annotations: str | None = None,
        shared_videos: Literal["drop", "keep"] = "drop",
        screening: Screening | None = None,
    ) -> None:
        super().__init__(root, screening)
        if shared_videos not in ("drop", "keep"):
            raise ConfigError(
                f"FineGym99: shared_videos is {shared_videos!r}, but must be 'drop' or 'keep'."
                f"{near_misses(str(shared_videos), ['drop', 'keep'])} Set it to one of them."
            )
        self.shared_videos = shared_videos
        self.folders = [Path(annotations)] if annotations else [self.root / "annotations", self.root]

    @property
    def labels(self) -> LabelSet:
        return load_finegym99()

    def published(self) -> dict[str, Published]:
        note = "v1.1, v1.0; 5,560 clips of val's videos are dropped from v1.1 (shared_videos), and some videos left YouTube"
        return {"train": Published((26_320, 20_484), note), "val": Published((8_521,), "some videos left YouTube")}

    def read_clips(self) -> Iterator[Clip]:
        """Yield train, then val clips in the order of the files. Raises DataError without any file, or at a malformed row."""
        files = {split: find_file(names, self.folders) for split, names in FILES.items()}
        if not any(files.values()):
            raise missing_file("FineGym99", [FILES["val"][0], FILES["train"][0]], self.folders, WHERE_TO_GET)
        if (categories := find_file([CATEGORIES], self.folders)) is not None:
            check_categories(categories, self.labels)
        rows = {split: list(read_rows(path, self.labels)) if path else [] for split, path in files.items()}
        in_val = {row.source for row in rows["val"]}
        shared = {row.id for row in rows["train"] if row.source in in_val}
        if shared and self.shared_videos == "drop":
            print(
                f"{files['train']}: {len(shared)} of {len(rows['train'])} train clips lie in videos of val and are left out "
                "(`shared_videos: keep` keeps them)",
                flush=True,
            )
            rows["train"] = [row for row in rows["train"] if row.id not in shared]
        index = VideoIndex(self.root)
        for split, found in rows.items():
            for row in found:
                yield Clip(
                    id=row.id,
                    path=index.find(f"{row.id}.mp4", folders=(split,)),
                    action=row.action,
                    kind=ClipKind.PRESENCE,
                    split=split,
                    source=f"{row.source} (train)" if split == "train" and row.id in shared else row.source,
                )


def read_rows(path: Path, labels: LabelSet) -> Iterator[Row]:
    """Yield the rows ``id label`` of a split file, or those of a CSV file with the columns ``full_id`` and ``class``."""
    for where, id, label in _csv_rows(path) if path.suffix == ".csv" else _list_rows(path):
        match = _ID.fullmatch(id)
        if match is None:
            raise row_error(where, id, "an id such as A0xAXXysHUo_E_002184_002237_A_0035_0036")
        place = take_whole_number(label, range(len(labels.actions)), "label", where)
        yield Row(id, labels.actions[place], match["video"])


def _list_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    for where, line in read_lines(path):
        values = line.split()
        if len(values) != 2:
            raise row_error(where, line, "an id and the number of its class")
        yield where, values[0].removesuffix(".mp4"), values[1]


def _csv_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    columns: list[str] = []
    for where, values in read_table(path):
        if not columns:
            columns = values
            if columns.count("full_id") != 1 or columns.count("class") != 1:
                raise row_error(where, ",".join(values), "a header with the columns full_id and class")
            continue
        if len(values) != len(columns):
            raise row_error(where, ",".join(values), f"{len(columns)} values: {', '.join(columns)}")
        yield where, values[columns.index("full_id")], values[columns.index("class")]


def read_categories(path: Path) -> list[str]:
    """Return the names of a category file (Gym99 or Gym288), in the order of their class index, which must count up from 0."""
    names: list[str] = []
    for where, line in read_lines(path):
        match = _CATEGORY.fullmatch(line)
        if match is None or int(match["index"]) != len(names):
            raise row_error(where, line, f"'Clabel: {len(names)}; set: <set>; Glabel: <index in Gym530>; <name>'")
        names.append(match["name"])
    return names


def check_categories(path: Path, labels: LabelSet) -> None:
    """Raise DataError where a category file has other classes than ``labels``; names that say their set in brackets may leave it out."""
    names = read_categories(path)
    official = [action.split(" [")[0] for action in labels.actions]
    if [canonical(name) for name in names] != [canonical(name) for name in official]:
        first = next(
            (
                i
                for i, pair in enumerate(zip(names, official, strict=False))
                if canonical(pair[0]) != canonical(pair[1])
            ),
            None,
        )
        what = (
            f"class {first} is {names[first]!r}, but should be {official[first]!r}"
            if first is not None
            else f"{len(names)} classes"
        )
        raise DataError(
            f"{path} does not list the {len(official)} classes of Gym99: {what}. Get the official gym99_categories.txt, or move it away."
        )
