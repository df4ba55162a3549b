"""A dataset given by a manifest, one clip a row with the fields of ``Clip``: JSONL, a JSON list, or CSV with a header."""

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from actdeny_train.actions.labels import LABEL_SETS, LabelSet, load_label_set, load_named
from actdeny_train.datasets.annotations import read_table, read_text
from actdeny_train.datasets.base import ClipDataModule, check_path, check_text
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import DataError, near_misses
from actdeny_train.types import Clip, ClipKind, Components

REQUIRED = ("id", "path", "action", "kind", "split", "source")
OPTIONAL = ("start_s", "end_s", "components")
MAX_S = 1e9
"""Largest time of a clip in seconds: 30 years."""
COMPONENTS = tuple(field.name for field in dataclasses.fields(Components))


def write_manifest(path: Path, clips: Iterable[Clip]) -> None:
    """Write one JSON line a clip; fields that are None are left out."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for clip in clips:
            row = {key: value for key, value in dataclasses.asdict(clip).items() if value is not None}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_manifest(path: Path) -> Iterator[Clip]:
    """Yield the clips of a manifest. Raises DataError, naming file and line, at the first malformed row."""
    for _, clip in _rows(path):
        yield clip


class Manifest(ClipDataModule):
    """Clips listed in a file.

    ``file`` is the manifest, absolute or relative to the working directory: ``.csv`` with the fields as header (those of components
    among them, an empty value is none), ``.json`` with a list of objects, or one JSON object a line under any other name. ``labels``
    is the name of one of the package's label sets or the path of a YAML file (see ``find_labels``). ``splits`` are the split names
    that rows may have. ``root`` and ``screening`` as in ``ClipDataModule``.
    """

    def __init__(
        self,
        root: str,
        file: str,
        labels: str = "ucf101",
        splits: tuple[str, ...] = ("train", "val", "test"),
        screening: Screening | None = None,
    ) -> None:
        super().__init__(root, screening)
        self.file = Path(file)
        self.splits = tuple(splits)
        self._labels = find_labels(labels)

    @property
    def labels(self) -> LabelSet:
        return self._labels

    def read_clips(self) -> Iterator[Clip]:
        """Yield the clips in the order of the file. Raises DataError at a row with an unknown action or split."""
        for where, clip in _rows(self.file):
            self._labels.check(clip.action, where)
            if clip.split not in self.splits:
                raise _field_error(where, "split", clip.split, f"one of {', '.join(self.splits)}", self.splits)
            yield clip


def find_labels(labels: str) -> LabelSet:
    """Return the package's label set of that name ("ucf101", "hmdb51", ...), or that of a YAML file (see ``read_labels``).

    A folder is a label set with close actions and actions that may be true of one clip: ``descriptions.yaml``, ``close.yaml`` and,
    optionally, ``also_true.yaml`` and ``minimal_pairs.yaml``, as those of the package have them.
    """
    if labels not in LABEL_SETS and Path(labels).is_dir():
        return load_label_set(Path(labels), Path(labels).name, has_components=False)
    is_file = Path(labels).suffix in (".yaml", ".yml") or Path(labels).is_file()
    return read_labels(Path(labels)) if is_file else load_named(labels)


def read_labels(path: Path) -> LabelSet:
    """Return a label set from a YAML file that maps action names to descriptions, one sentence each.

    Nothing is known of its actions' components, and none counts as close to another. Raises DataError on a missing or
    malformed file.
    """
    if not path.is_file():
        raise DataError(
            f"The label set {str(path)!r} does not exist. Set `labels` to the path of a YAML file that maps action names to descriptions, "
            f"or to one of {', '.join(LABEL_SETS)}."
        )
    try:
        descriptions = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        raise DataError(f"{path} is not valid YAML: {' '.join(str(error).split())}. Mend the file.") from None
    if not isinstance(descriptions, dict) or not descriptions:
        raise DataError(
            f"{path} holds a {type(descriptions).__name__}, but must map action names to descriptions, one 'Name: \"sentence\"' a line."
        )
    for action, description in descriptions.items():
        if not isinstance(action, str) or not isinstance(description, str) or not description:
            raise DataError(
                f"{path}: action {action!r} has the description {description!r}, but both must be non-empty strings. Quote them: "
                "YAML reads numbers and words such as yes as other types."
            )
    first: dict[str, str] = {}
    for action, description in descriptions.items():
        if first.setdefault(description, action) != action:
            raise DataError(
                f"{path}: actions {first[description]!r} and {action!r} have the same description {description!r}, so a question could "
                "offer it twice. Tell them apart."
            )
    return LabelSet(
        name=path.stem,
        descriptions=descriptions,
        components={},
        close=dict.fromkeys(descriptions, ()),
        without_object=frozenset(),
    )


def _rows(path: Path) -> Iterator[tuple[str, Clip]]:
    """Yield where each row stands, and its clip; blank lines are skipped."""
    if not path.is_file():
        raise DataError(
            f"The manifest {str(path)!r} (resolved: {path.resolve()}) does not exist. It must be a JSONL, JSON or CSV file with one clip a "
            f"row (fields {', '.join(REQUIRED)}). Correct the path, or make the file first."
        )
    read = {".csv": _csv_rows, ".json": _json_rows}.get(path.suffix.lower(), _jsonl_rows)
    for where, row in read(path):
        yield where, _clip(row, where)


def _jsonl_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"{path}:{number}", _json_object(line, f"{path}:{number}")


def _json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        rows = json.loads(read_text(path), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not valid JSON ({error}). It must be a list with one object a clip. Mend the file, or call it .jsonl if it has "
            "one object a line."
        ) from None
    if not isinstance(rows, list):
        raise DataError(f"{path} holds a JSON {type(rows).__name__}, but must be a list with one object a clip.")
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(
                f"{path}, entry {i} is a JSON {type(row).__name__}, but must be an object with the fields of a clip."
            )
        yield f"{path}, entry {i}", row


def _csv_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    header: list[str] = []
    for where, values in read_table(path):
        if not header:
            header = values
            if repeated := [name for name in header if header.count(name) > 1]:
                raise DataError(
                    f"{where}: the header names the field {repeated[0]!r} twice. Remove one of the columns."
                )
            if missing := [name for name in REQUIRED if name not in header]:
                raise DataError(
                    f"{where}: the header lacks the field {missing[0]!r}.{near_misses(missing[0], header)} The first row must name the "
                    f"fields: {', '.join(REQUIRED)} and, optionally, start_s, end_s, {', '.join(COMPONENTS)}."
                )
            continue
        if len(values) != len(header):
            raise DataError(
                f"{where} has {len(values)} values, but the header names {len(header)} fields: {', '.join(header)}. Correct the row; a "
                "value with a comma must stand in double quotes."
            )
        row: dict[str, Any] = {key: value for key, value in zip(header, values, strict=True) if value}
        for key in ("start_s", "end_s"):
            with contextlib.suppress(KeyError, ValueError):  # what is no number is told as such by the checks of a row
                row[key] = float(row[key])
        parts = {key: row.pop(key) for key in COMPONENTS if key in row}
        yield where, row | ({"components": parts} if parts else {})


def _json_object(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where} is not valid JSON in UTF-8 ({error}): {line.strip()[:80]!r}. Each line must be one complete JSON object. Mend or "
            "remove the line."
        ) from None
    if not isinstance(row, dict):
        raise DataError(
            f"{where} holds a JSON {type(row).__name__}, but each line must be a JSON object with the fields of a clip."
        )
    return row


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"repeated key {next(key for key in keys if keys.count(key) > 1)!r}")
    return row


def _clip(row: dict[str, Any], where: str) -> Clip:
    for key in row:
        if key not in REQUIRED + OPTIONAL:
            raise DataError(
                f"{where} has an unknown field {key!r}. Allowed: {', '.join(REQUIRED)} and, optionally, {', '.join(OPTIONAL)}."
                f"{near_misses(key, REQUIRED + OPTIONAL)} Rename or remove the field."
            )
    for key in REQUIRED:
        if key not in row:
            raise DataError(
                f"{where} lacks the field {key!r}. Every clip needs {', '.join(REQUIRED)}. Add it to the row."
            )
        if not isinstance(row[key], str) or not row[key]:
            raise _field_error(where, key, row[key], "a non-empty string")
        check_text(row[key], f"field {key!r} of {where}")
    kinds = [kind.value for kind in ClipKind]
    if row["kind"] not in kinds:
        raise _field_error(where, "kind", row["kind"], f"one of {', '.join(kinds)}", kinds)
    check_path(row["path"], where)
    start_s, end_s = (_seconds(row, key, where) for key in ("start_s", "end_s"))
    if end_s is not None and end_s <= (start_s or 0.0):
        raise _field_error(where, "end_s", end_s, f"more than start_s = {start_s or 0.0}")
    return Clip(
        **{key: row[key] for key in REQUIRED if key != "kind"},
        kind=ClipKind(row["kind"]),
        start_s=start_s,
        end_s=end_s,
        components=_components(row, where),
    )


def _seconds(row: dict[str, Any], key: str, where: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_S:
        raise _field_error(
            where, key, value, f"seconds from the first frame, a number of at least 0 and at most {MAX_S:g}"
        )
    return float(value)


def _components(row: dict[str, Any], where: str) -> Components | None:
    phrases = row.get("components")
    if phrases is None:
        return None
    if (
        not isinstance(phrases, dict)
        or set(phrases) != set(COMPONENTS)
        or not all(isinstance(phrase, str) and phrase for phrase in phrases.values())
    ):
        raise _field_error(
            where, "components", phrases, f"an object with a non-empty phrase for each of {', '.join(COMPONENTS)}"
        )
    for name, phrase in phrases.items():
        check_text(phrase, f"component {name!r} of {where}")
    return Components(**phrases)


def _field_error(where: str, key: str, got: object, allowed: str, names: Iterable[str] = ()) -> DataError:
    hint = near_misses(got, names) if isinstance(got, str) else ""
    return DataError(f"{where}: field {key!r} is {got!r}, but must be {allowed}.{hint} Correct the row.")
