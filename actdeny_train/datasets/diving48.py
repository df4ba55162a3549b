"""Diving48 V2: presence clips of competitive dives, named by take-off, somersaults, twists and position."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actdeny_train.actions.labels import LabelSet, load_diving48
from actdeny_train.datasets.annotations import (
    check_label_list,
    find_file,
    missing_file,
    read_json_entries,
    row_error,
    take_string,
    take_whole_number,
)
from actdeny_train.datasets.base import ClipDataModule, Published
from actdeny_train.datasets.layouts import VideoIndex
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import DataError
from actdeny_train.types import Clip, ClipKind

SIZES = {"train": 15_027, "test": 1_970}
"""Clips of V2. The noisy V1 circulates under the same file names with other numbers."""
WHERE_TO_GET = "Set `annotations` to the folder of Diving48_V2_train.json and Diving48_V2_test.json."
_NAME = re.compile(r"(?P<source>[A-Za-z0-9_-]{11})_[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Row:
    """One clip: its name, its action, and the YouTube id of the competition it was cut from."""

    name: str
    action: str
    source: str


class Diving48(ClipDataModule):
    """The clips of splits ``"train"`` and ``"test"``; 47 of the 48 classes have any (class 30, a straight forward dive, has none).

    ``annotations`` is the folder of the JSON files: ``root``, ``root/annotations`` or ``root/labels`` unless given. Videos may lie
    anywhere below ``root`` as ``<vid_name>.mp4``. A source is a competition's video: the first 11 characters of the name.
    With ``official_sizes``, files that do not hold exactly V2's clips are refused.
    """

    def __init__(
        self,
        root: str,
        annotations: str | None = None,
        official_sizes: bool = True,
        screening: Screening | None = None,
    ) -> None:
        super().__init__(root, screening)
        self.official_sizes = official_sizes
        self.folders = (
            [Path(annotations)] if annotations else [self.root, self.root / "annotations", self.root / "labels"]
        )

    @property
    def labels(self) -> LabelSet:
        return load_diving48()

    def published(self) -> dict[str, Published]:
        note = "V2; files of another size are V1, whose labels are noisy, under the same name"
        return {"train": Published((15_027,), note), "test": Published((1_970,), note)}

    def read_clips(self) -> Iterator[Clip]:
        """Yield train, then test clips in the order of the files. Raises DataError at the first malformed entry, or on V1's files."""
        if (vocabulary := find_file(["Diving48_vocab.json"], self.folders)) is not None:
            check_label_list(vocabulary, self.labels)
        index = VideoIndex(self.root)
        for split, size in SIZES.items():
            names = [f"Diving48_V2_{split}.json", f"Diving48_{split}.json"]
            path = find_file(names, self.folders)
            if path is None:
                raise missing_file("Diving48", names, self.folders, WHERE_TO_GET)
            rows = list(read_rows(path, self.labels))
            if self.official_sizes and len(rows) != size:
                raise DataError(
                    f"{path} has {len(rows)} clips, but V2's list of split {split!r} has {size}. V1, whose labels are noisy, goes by "
                    "the same file names. Get the files of V2, or set `official_sizes: false` for a selection of your own."
                )
            for row in rows:
                yield Clip(
                    id=row.name,
                    path=index.find(f"rgb/{row.name}.mp4", folders=("rgb", split)),
                    action=row.action,
                    kind=ClipKind.PRESENCE,
                    split=split,
                    source=row.source,
                )


def read_rows(path: Path, labels: LabelSet) -> Iterator[Row]:
    """Yield the entries of a JSON file. Frame numbers are checked but not used: the decoded video says how long a clip is."""
    for where, entry in read_json_entries(path):
        name = take_string(entry, "vid_name", where)
        match = _NAME.fullmatch(name)
        if match is None:
            raise row_error(where, name, "a vid_name of a YouTube id of 11 characters, _ and a number")
        label = take_whole_number(entry.get("label"), range(len(labels.actions)), "label", where)
        start = take_whole_number(entry.get("start_frame", 0), range(10**6), "start_frame", where)
        take_whole_number(entry.get("end_frame", start), range(start, 10**6), "end_frame", where)
        yield Row(name, labels.actions[label], match["source"])
