"""MACID (paper 2): 100 tuples of four captions of pushing actions with their videos, one of which is the intruder.

The file is the published CSV, with commas, semicolons or tabs, or what the Hub dataset ``loregreg/MACID`` holds as Parquet.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from actdeny_train.actions.labels import OPENING, LabelSet
from actdeny_train.datasets.annotations import read_lines, read_table, row_error
from actdeny_train.datasets.base import ClipDataModule, check_path, check_text
from actdeny_train.datasets.layouts import VIDEO_SUFFIXES, VideoIndex
from actdeny_train.datasets.quarantine import Quarantined, Screening
from actdeny_train.errors import ConfigError, DataError, near_misses
from actdeny_train.types import Clip, ClipGroup, ClipKind, IntruderTuple

SPLIT = "test"
NUM_CAPTIONS = 4
CAPTIONS, VIDEOS, VERBS = (tuple(f"{name}{i}" for i in range(1, NUM_CAPTIONS + 1)) for name in ("s", "v", "verb"))
"""Columns of the sentences, of the video ids, and (ours, optional) of the verb of each sentence."""
REQUIRED = ("id", *CAPTIONS, "intruder")
ACTION = "pushing"
"""What all tuples are about. Which action type a clip belongs to is not in the file, so that no model can be told."""

Row = tuple[str, dict[str, str]]
"""``"file:line"`` and the values by column."""

_MOVIE = re.compile(r"(?P<movie>.+)_[0-9.]{9,12}-[0-9.]{9,12}")
"""Names of LSMDC's clips: the film, then begin and end as hours.minutes.seconds.milliseconds."""


class MACID(ClipDataModule):
    """The tuples of a file as split ``"test"``; one question is about the four clips of a tuple.

    ``file`` is the CSV or Parquet file, or a folder that holds one such file. ``root`` is the folder of the videos (LSMDC's, in any
    folders below it); without it, captions alone can be shown (``view: text_only``). ``intruder_base`` says whether ``intruder`` counts
    from 0 or from 1; None finds it: only 0 to 3 has a 0, only 1 to 4 has a 4. ``verbs_file`` is a CSV file with the columns ``id``,
    ``verb1`` to ``verb4``, for accuracy by verb pattern; these columns may stand in ``file`` too.
    """

    def __init__(
        self,
        file: str,
        root: str | None = None,
        intruder_base: Literal[0, 1] | None = None,
        verbs_file: str | None = None,
        screening: Screening | None = None,
    ) -> None:
        super().__init__(root if root is not None else Path(file).parent, screening)
        self.has_videos = root is not None
        self.file = Path(file)
        self.intruder_base = intruder_base
        self.verbs_file = Path(verbs_file) if verbs_file is not None else None
        self._tuples: tuple[IntruderTuple, ...] | None = None

    @property
    def labels(self) -> LabelSet:
        return LabelSet(
            name="macid",
            descriptions={ACTION: f"{OPENING}{ACTION} somebody or something."},
            components={},
            close={ACTION: ()},
            without_object=frozenset(),
        )

    def read_clips(self) -> Iterator[Clip]:
        """Yield each clip once, in the order of the tuples: a clip may be in several."""
        yield from {clip.id: clip for group in self.tuples() for clip in group.clips}.values()

    def tuples(self) -> tuple[IntruderTuple, ...]:
        """Return all tuples in the order of the file, whether their videos can be decoded or not. Says how ``intruder`` was read."""
        if self._tuples is None:
            self._tuples = tuple(self._read())
        return self._tuples

    def usable(self, split: str) -> list[Clip]:
        """Return the clips whose videos decode; all of them where there is no ``root``."""
        return super().usable(split) if self.has_videos else self.clips(split)

    def quarantine(self, split: str) -> list[Quarantined]:
        return super().quarantine(split) if self.has_videos else []

    def all_groups(self, split: str) -> Sequence[ClipGroup]:
        self.clips(split)
        return self.tuples()

    def _read(self) -> Iterator[IntruderTuple]:
        rows = _check_rows(list(read_rows(self.file)), self.file)
        base = _find_base([(where, row["intruder"]) for where, row in rows], self.intruder_base, self.file)
        verbs = self._read_verbs(rows)
        has_clips = all(name in rows[0][1] for name in VIDEOS)
        if self.has_videos and not has_clips:
            raise DataError(
                f"{self.file} has no columns {', '.join(VIDEOS)}, so nothing says which videos belong to the captions. Use the published "
                "CSV, which has them, or leave `root` out and show the captions alone (view: text_only)."
            )
        paths = VideoPaths(self.root) if self.has_videos else None
        seen: dict[tuple[str, ...], str] = {}
        for where, row in rows:
            clips = tuple(_clip(where, row, i, has_clips, paths) for i in range(NUM_CAPTIONS))
            other = seen.setdefault(tuple(sorted(clip.id for clip in clips)), row["id"])
            if other != row["id"]:
                raise DataError(
                    f"{where}: tuple {row['id']!r} has the same four videos as tuple {other!r}, so it would count twice. Remove one of "
                    "the two rows."
                )
            yield IntruderTuple(
                id=row["id"],
                clips=clips,
                action=ACTION,
                source=row["id"],
                captions=tuple(row[name] for name in CAPTIONS),
                intruder=int(row["intruder"]) - base,
                verbs=verbs.get(row["id"], ()),
            )

    def _read_verbs(self, rows: Sequence[Row]) -> dict[str, tuple[str, ...]]:
        """Return the verbs by tuple id, of tuples whose verbs are all known."""
        table = list(rows)
        if self.verbs_file is not None:
            table = list(read_rows(self.verbs_file))
            known = {row["id"] for _, row in rows}
            for where, row in table:
                if missing := [name for name in ("id", *VERBS) if name not in row]:
                    raise DataError(
                        f"{where}: the file of verbs lacks the column {missing[0]!r}. It must have id, {', '.join(VERBS)}."
                    )
                if row["id"] not in known:
                    raise row_error(
                        where, row["id"], f"the id of a tuple of {self.file}", near_misses(row["id"], known)
                    )
        found: dict[str, tuple[str, ...]] = {}
        for where, row in table:
            verbs = tuple(row.get(name, "").casefold() for name in VERBS)
            if any(verbs) and not all(verbs):
                raise row_error(where, ", ".join(verbs), f"a verb for each of {', '.join(VERBS)}, or none")
            if found.setdefault(row["id"], verbs) != verbs:
                raise row_error(where, ", ".join(verbs), f"the verbs that an earlier row gives for tuple {row['id']!r}")
        return {name: verbs for name, verbs in found.items() if all(verbs)}


class VideoPaths:
    """Where the videos of ids lie below ``root``, in any folders and with any suffix."""

    def __init__(self, root: Path) -> None:
        self._index = VideoIndex(root)

    def find(self, video: str) -> str:
        """Return the path of a video; where there is none, one with LSMDC's suffix. A file in a folder is a path already."""
        if PurePosixPath(video).suffix.lower() not in VIDEO_SUFFIXES:
            return self._index.find(f"{video}.avi")
        return video if "/" in video else self._index.find(video)


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a CSV or Parquet file, or of the only such file below a folder. Raises DataError where there is none."""
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in (".csv", ".parquet"))
        if len(found) != 1:
            raise DataError(
                f"The folder {str(path)!r} holds {len(found)} CSV or Parquet files, but MACID is one file. Name it as `file`."
            )
        path = found[0]
    yield from _parquet_rows(path) if path.suffix.lower() == ".parquet" else _csv_rows(path)


def _csv_rows(path: Path) -> Iterator[Row]:
    where, first = next(read_lines(path), (str(path), ""))
    # The header has no quoted values, so the character that stands in it most often parts its names.
    delimiter = max(",;\t", key=first.count)
    header: list[str] = []
    for where, values in read_table(path, delimiter):
        if not header:
            header = [name.lower() for name in values]
            if repeated := {name for name in header if header.count(name) > 1}:
                raise row_error(where, ", ".join(sorted(repeated)), "a header with each column once")
            continue
        if len(values) != len(header):
            raise row_error(
                where, delimiter.join(values), f"{len(header)} values, as the header has columns; found {len(values)}"
            )
        yield where, dict(zip(header, values, strict=True))


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError:
        raise ConfigError(
            f"Reading {path} needs the package pyarrow: pip install 'actdeny[hub-dataset]'. Or use the published CSV."
        ) from None
    try:
        rows = parquet.read_table(path).to_pylist()
    except (ArrowException, OSError) as error:
        raise DataError(
            f"{path} cannot be read as Parquet ({' '.join(str(error).split())[:120]}). Get the file anew."
        ) from None
    for number, row in enumerate(rows):
        yield (
            f"{path}, row {number}",
            {str(k).lower(): "" if v is None else str(v).strip() for k, v in row.items()},
        )


def _check_rows(rows: list[Row], path: Path) -> list[Row]:
    """Return the rows if they have all columns, no empty value and no id twice. Says which columns are not used."""
    if not rows:
        raise DataError(f"{path} has no row below a header. Get the file anew, or correct `file`.")
    where, first = rows[0]
    if missing := [name for name in REQUIRED if name not in first]:
        raise DataError(
            f"{where}: the file lacks the column {missing[0]!r}; it has {', '.join(first)}.{near_misses(missing[0], first)} MACID has "
            f"{', '.join(REQUIRED)} and, for videos, {', '.join(VIDEOS)}, parted by commas, semicolons or tabs. Correct the header."
        )
    present = [name for name in VIDEOS if name in first]
    if len(present) not in (0, NUM_CAPTIONS):
        raise DataError(
            f"{where}: the file has only {', '.join(present)} of the columns {', '.join(VIDEOS)}. Correct it."
        )
    if unused := [name for name in first if name not in (*REQUIRED, *VIDEOS, *VERBS)]:
        print(f"{where}: the columns {', '.join(map(repr, unused))} are not used", flush=True)
    seen: dict[str, str] = {}
    for where, row in rows:
        for name in (*REQUIRED, *present):
            if not check_text(row[name], f"{name} of {where}"):
                raise row_error(where, f"an empty {name}", f"a row with a value for {', '.join((*REQUIRED, *present))}")
        if row["id"] in seen:
            raise DataError(
                f"{where} has the id {row['id']!r} of {seen[row['id']]}. Answers are kept by id, so each tuple needs its own. Correct it."
            )
        seen[row["id"]] = where
    return rows


def _find_base(values: Sequence[tuple[str, str]], stated: int | None, path: Path) -> int:
    """Return what ``intruder`` counts from, 0 or 1, as stated or as the values (where, text) tell, and say it."""
    numbers = []
    for where, text in values:
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) > NUM_CAPTIONS:
            raise row_error(
                where,
                f"intruder {text}",
                "a whole number as intruder, from 1 to 4 or, where it counts from 0, from 0 to 3",
            )
        numbers.append(int(text))
    least, most = min(numbers), max(numbers)
    first, last = (next(where for (where, _), n in zip(values, numbers, strict=True) if n == x) for x in (least, most))
    if least == 0 and most == NUM_CAPTIONS:
        raise DataError(
            f"{path}: intruder is 0 at {first} and 4 at {last}, but a file counts either from 0 to 3 or from 1 to 4. Correct a row."
        )
    found = 0 if least == 0 else 1 if most == NUM_CAPTIONS else None
    if found is None and stated is None:
        raise DataError(
            f"{path}: the values of intruder run from {least} to {most}, which may count from 0 as well as from 1, so nothing says which "
            "caption is meant. Set `intruder_base` to 0 or 1 in the dataset's configuration, as the file's source says."
        )
    if found is not None and stated is not None and found != stated:
        raise DataError(
            f"{path}: intruder_base is {stated}, but intruder is {most if found else least} at {last if found else first}, which counts "
            f"from {found}. Correct `intruder_base`, or leave it out to have it found."
        )
    base = found if stated is None else stated
    assert base is not None
    why = "as stated" if found is None else "found from its values"
    print(f"{path}: intruder counts from {base} ({why}: {least} to {most} in {len(values)} tuples)", flush=True)
    return base


def _clip(where: str, row: Mapping[str, str], i: int, has_clips: bool, paths: VideoPaths | None) -> Clip:
    """Return clip ``i`` of a tuple; without video ids it is named after its tuple."""
    video = row[VIDEOS[i]] if has_clips else f"{row['id']}/{i + 1}"
    check_path(video, f"{VIDEOS[i]} of {where}")
    name = PurePosixPath(video)
    stem = name.stem if name.suffix.lower() in VIDEO_SUFFIXES else name.name
    movie = _MOVIE.fullmatch(stem)
    return Clip(
        id=video,
        path=paths.find(video) if paths else video,
        action=ACTION,
        kind=ClipKind.PRESENCE,
        split=SPLIT,
        source=movie["movie"] if movie else video,
    )
