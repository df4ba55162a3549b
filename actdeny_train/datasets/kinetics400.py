"""Kinetics-400: presence clips by its official CSV files, or by the lists that circulate in their place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from actdeny_train.actions.labels import LabelSet, load_kinetics400
from actdeny_train.datasets.annotations import (
    by_canonical,
    canonical,
    check_label_list,
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
from actdeny_train.errors import DataError, near_misses
from actdeny_train.types import Clip, ClipKind

SPLITS = {"train": ("train",), "val": ("val", "validate", "validation"), "test": ("test",)}
"""The names of each split in file names and in the column ``split``."""
COLUMNS = ("label", "youtube_id", "time_start", "time_end", "split", "is_cc")
"""Columns of the official CSV files, in their order; the first of them and the last are missing in the test file."""
NAMES = ("kinetics-400_{}.csv", "kinetics_400_{}.csv", "k400_{}.csv", "kinetics400_{}.csv", "{}.csv")
LISTS = ("kinetics400_{}_list_videos.txt", "{}.txt", "{}.list", "{}_small_videos.list")
REPLACEMENTS = ("replacement", "replacement_for_corrupted_k400")
"""CVDF's folders of sound videos for broken ones."""
WHERE_TO_GET = "Set `annotations` to the folder of the official CSV files (kinetics-400_val.csv; CVDF's copies are called val.csv)."
_ID = re.compile(r"[A-Za-z0-9_-]{11}")
_SECONDS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Row:
    """One clip: its action (None where the file tells none), YouTube id, and its file name without suffix."""

    action: str | None
    youtube_id: str
    stem: str


class Kinetics400(ClipDataModule):
    """Clips of about 10 s in splits ``"train"``, ``"val"`` and ``"test"``, as far as ``annotations`` has a file for them.

    ``annotations`` is a folder: ``root/annotations`` or ``root`` unless given. In it, a CSV file with the official columns goes before
    a list ``path number`` of the same split. A clip without a label (official test file) cannot be asked about and is left out. Videos may
    lie anywhere below ``root``: as ``<id>_<start>_<end>.mp4`` or ``<id>.mp4``, flat or in class folders. They are matched by the
    11 characters of the YouTube id, as CVDF's own tool does; the id is also the source. Clips that YouTube has lost get
    quarantined as missing files.
    """

    def __init__(self, root: str, annotations: str | None = None, screening: Screening | None = None) -> None:
        super().__init__(root, screening)
        self.folders = [Path(annotations)] if annotations else [self.root / "annotations", self.root]

    @property
    def labels(self) -> LabelSet:
        return load_kinetics400()

    def published(self) -> dict[str, Published]:
        return {
            "train": Published((246_534,), "CVDF's copy has 240,258 of these, and 1,392 replacements of broken ones"),
            "val": Published((19_906,), "CVDF's copy has 19,881 of these"),
            "test": Published((38_685, 39_805), "the official list has no labels, without which clips are left out"),
        }

    def read_clips(self) -> Iterator[Clip]:
        """Yield train, val and test clips in the order of the files. Raises DataError without any file, or at a malformed row."""
        files = {split: find_file(_names(split), self.folders) for split in SPLITS}
        if not any(files.values()):
            raise missing_file("Kinetics-400", [NAMES[0].format("val"), NAMES[-1].format("val"), LISTS[1].format("val")], self.folders,
                               WHERE_TO_GET)  # fmt: skip
        if (classes := find_file(["label_map.txt", "kinetics_400_labels.csv"], self.folders)) is not None:
            check_label_list(classes, self.labels)
        index = VideoIndex(self.root, lambda stem: stem[:11])
        for split, path in files.items():
            if path is None:
                continue
            rows = list(read_rows(path, split, self.labels))
            unlabelled = sum(row.action is None for row in rows)
            if unlabelled:
                print(f"{path}: {unlabelled} of {len(rows)} clips have no label and are left out", flush=True)
            for row in rows:
                if row.action is not None:
                    yield Clip(
                        id=row.stem,
                        path=index.find(f"{split}/{row.stem}.mp4", folders=(*REPLACEMENTS, split, row.action)),
                        action=row.action,
                        kind=ClipKind.PRESENCE,
                        split=split,
                        source=row.youtube_id,
                    )


def read_rows(path: Path, split: str, labels: LabelSet) -> Iterator[Row]:
    """Yield the rows of a CSV file or of a list ``path number``."""
    return _read_csv(path, split, labels) if path.suffix == ".csv" else _read_list(path, labels)


def _read_csv(path: Path, split: str, labels: LabelSet) -> Iterator[Row]:
    """Yield the rows of a CSV file, with a header or without one (official order then, the label and is_cc may be missing)."""
    actions = by_canonical(labels)
    columns: list[str] | None = None
    for where, values in read_table(path):
        if columns is None:
            columns, is_header = _columns(values, where)
            if is_header:
                continue
        if len(values) != len(columns):
            raise row_error(where, ",".join(values), f"{len(columns)} values: {', '.join(columns)}")
        row = dict(zip(columns, values, strict=True))
        if not _ID.fullmatch(row["youtube_id"]):
            raise row_error(where, row["youtube_id"], "a YouTube id of 11 letters, digits, - and _")
        start, end = (_seconds(row, key, where) for key in ("time_start", "time_end"))
        if end <= start:
            raise row_error(where, row["time_end"], f"a time_end after time_start = {row['time_start']}")
        if row.get("split", split) not in SPLITS[split]:
            raise row_error(
                where, row["split"], f"{' or '.join(SPLITS[split])}, since this is the file of split {split!r}"
            )
        action = None
        if row.get("label"):
            action = actions.get(canonical(row["label"]))
            if action is None:
                hint = near_misses(row["label"], labels.actions)
                raise row_error(where, row["label"], "one of the 400 labels of Kinetics-400", hint)
        yield Row(action, row["youtube_id"], f"{row['youtube_id']}_{int(start):06d}_{int(end):06d}")


def _columns(values: list[str], where: str) -> tuple[list[str], bool]:
    """Return the columns of a file whose first row is ``values``, and whether that row is a header."""
    names = [value.lower() for value in values]
    if "youtube_id" in names:
        for name in COLUMNS[1:4]:
            if names.count(name) != 1:
                raise row_error(
                    where,
                    ",".join(values),
                    f"a header with {', '.join(COLUMNS[1:4])}, each once",
                    near_misses(name, names),
                )
        return names, True
    for first in (0, 1):
        columns = list(COLUMNS[first:][: len(values)])
        if (
            len(columns) == len(values) >= 4 - first
            and _ID.fullmatch(values[1 - first])
            and _SECONDS.fullmatch(values[2 - first])
        ):
            return columns, False
    raise row_error(where, ",".join(values), f"the header {','.join(COLUMNS)}")


def _seconds(row: dict[str, str], key: str, where: str) -> float:
    if not _SECONDS.fullmatch(row[key]):
        raise row_error(where, f"{key} {row[key]!r}", f"seconds from 0 to 999999 as {key}")
    return float(row[key])


def _read_list(path: Path, labels: LabelSet) -> Iterator[Row]:
    """Yield the rows ``path number`` of a list: the number is the class index from 0, the path ends in ``<id>_<start>_<end>.mp4``
    or ``<id>.mp4``; a class folder must agree with the number.
    """
    actions = by_canonical(labels)
    for where, line in read_lines(path):
        # Folders have spaces in their names, and ids may hold any number of _ and -.
        name, number = [*re.split(r"[\s,](?=[^\s,]*$)", line, maxsplit=1), ""][:2]
        file = PurePosixPath(name.strip().replace("\\", "/"))
        youtube_id, times = file.stem[:11], file.stem[11:]
        if not _ID.fullmatch(youtube_id) or not re.fullmatch(r"(?:_[0-9]{6}_[0-9]{6})?", times):
            raise row_error(
                where, line, "a path that ends in <id>_<start>_<end>.mp4 or <id>.mp4, and the number of the class"
            )
        action = labels.actions[take_whole_number(number, range(len(labels.actions)), "number of the class", where)]
        folder = actions.get(canonical(file.parent.name))
        if folder not in (None, action):
            raise DataError(
                f"{where}: the folder is that of {folder!r}, but class {number} (counted from 0) is {action!r}. The list has classes in "
                "another order: get a list in the order of label_map.txt, or a CSV file with labels."
            )
        yield Row(action, youtube_id, file.stem)


def _names(split: str) -> list[str]:
    return [pattern.format(name) for pattern in (*NAMES, *LISTS) for name in SPLITS[split]]
