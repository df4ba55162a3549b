"""Rows of a data file of a Hub dataset repository: parquet by row groups, CSV and JSON lines; videos stand in it or are named by path.

pyarrow alone reads what the `datasets` package writes. That package would copy everything to a cache of its own and decode videos in
another way than the rest of this one.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actdeny_train.datasets.annotations import read_lines, read_table
from actdeny_train.errors import ConfigError, DataError, near_misses

SUFFIXES = (".parquet", ".csv", ".jsonl")
BATCH_ROWS = 8
"""Embedded videos in memory at a time."""
BUFFER_BYTES = 1 << 20
"""Bytes read at a time of a column; without a limit, a row group's column is read whole."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns that are read; ``video`` None finds it, ``source`` None reads none."""

    video: str | None = None
    label: str = "label"
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row: where it stands, its place in the file from 0, the path it names, whether the video stands in it, its label and source."""

    where: str
    index: int
    path: str | None
    is_embedded: bool
    label: str | int | None
    source: str | None


def read_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Yield the rows of a data file; embedded videos are not read. Raises DataError at a malformed row or a missing column."""
    read = {".parquet": _parquet_rows, ".csv": _csv_rows, ".jsonl": _jsonl_rows}[path.suffix.lower()]
    yield from read(path, columns)


def class_names(path: Path, label: str) -> list[str]:
    """Return the names of a parquet file's class numbers, as the `datasets` package keeps them in its schema; empty without any."""
    if path.suffix.lower() != ".parquet":
        return []
    names = _features(_open(path)).get(label, {}).get("names")
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def extract(path: Path, column: str | None, targets: Mapping[int, Path]) -> None:
    """Write the embedded videos of some rows to files, a few at a time; each appears when it is complete."""
    file = _open(path)
    video = _find_video(path, file.schema_arrow.names, Columns(column), _features(file))
    is_struct = _video_form(path, file, video) == "struct"
    first = 0
    for group in range(file.num_row_groups):
        end = first + file.metadata.row_group(group).num_rows
        if any(first <= index < end for index in targets):
            for values in _batches(path, file, group, [f"{video}.bytes" if is_struct else video]):
                videos = values.column(0).field("bytes") if is_struct else values.column(0)
                for offset in range(len(videos)):
                    if (first + offset) in targets and videos[offset].is_valid:
                        _write(targets[first + offset], videos[offset].as_buffer())
                first += len(videos)
        first = end


def _parquet_rows(path: Path, columns: Columns) -> Iterator[Row]:
    file = _open(path)
    names = file.schema_arrow.names
    video = _find_video(path, names, columns, _features(file))
    others = [name for name in (columns.label, columns.source) if name is not None]
    for name in others:
        _check_column(path, name, names)
    form = _video_form(path, file, video)
    read = [*others, *{"struct": [f"{video}.path"], "path": [video], "bytes": []}[form]]
    index = 0
    for group in range(file.num_row_groups):
        embedded = iter(_embedded(path, file, group, video, form))
        for batch in _batches(path, file, group, read, 1024):
            for values in batch.to_pylist():
                found = values.get(video)
                named = (found or {}).get("path") if form == "struct" else found
                yield _row(f"{path}, row {index}", index, named, next(embedded), values, columns)
                index += 1


def _csv_rows(path: Path, columns: Columns) -> Iterator[Row]:
    header: list[str] = []
    index = 0
    for where, values in read_table(path):
        if not header:
            header = values
            continue
        if len(values) != len(header):
            raise DataError(f"{where} has {len(values)} values, but the header names {len(header)}. Correct the row.")
        yield _text_row(path, where, index, dict(zip(header, values, strict=True)), columns)
        index += 1


def _jsonl_rows(path: Path, columns: Columns) -> Iterator[Row]:
    for index, (where, line) in enumerate(read_lines(path)):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not valid JSON ({error}). Mend or remove the line.") from None
        if not isinstance(values, dict):
            raise DataError(f"{where} holds a JSON {type(values).__name__}, but must be an object. Mend the line.")
        yield _text_row(path, where, index, values, columns)


def _text_row(path: Path, where: str, index: int, values: dict[str, Any], columns: Columns) -> Row:
    video = _find_video(path, list(values), columns, {})
    for name in (columns.label, columns.source):
        if name is not None:
            _check_column(path, name, list(values))
    return _row(where, index, values[video], False, values, columns)


def _row(where: str, index: int, named: Any, is_embedded: bool, values: Mapping[str, Any], columns: Columns) -> Row:
    label = values[columns.label]
    source = values[columns.source] if columns.source is not None else None
    if not (label is None or isinstance(label, str) or (isinstance(label, int) and not isinstance(label, bool))):
        raise DataError(
            f"{where}: column {columns.label!r} is {label!r}, but a label must be a name or the number of a class. Name another column as "
            "`label`."
        )
    if named is not None and not isinstance(named, str):
        raise DataError(f"{where}: the video is {named!r:.80}, but must be a path. Name another column as `video`.")
    if columns.source is not None and not (isinstance(source, str | int) and str(source)):
        raise DataError(
            f"{where}: column {columns.source!r} is {source!r}, but must tell the long video of each clip. Correct the row, or leave "
            "`source` out."
        )
    if not is_embedded and not named:
        raise DataError(f"{where} has no video: neither its bytes nor a path. Correct or remove the row.")
    return Row(where, index, named or None, is_embedded, label, None if source is None else str(source))


def _find_video(path: Path, names: list[str], columns: Columns, features: Mapping[str, Any]) -> str:
    if columns.video is not None:
        return _check_column(path, columns.video, names)
    typed = [name for name in names if features.get(name, {}).get("_type") == "Video"]
    found = typed or [name for name in ("video", "file_name") if name in names]
    if len(found) != 1:
        what = (
            f"has several columns of videos ({', '.join(found)})" if found else "has no column 'video' or 'file_name'"
        )
        raise DataError(f"{path} {what}; its columns are {', '.join(names)}. Name the one to read as `video`.")
    return found[0]


def _check_column(path: Path, name: str, names: list[str]) -> str:
    if name not in names:
        raise DataError(
            f"{path} has no column {name!r}; its columns are {', '.join(names)}.{near_misses(name, names)} Set `video`, `label` and "
            "`source` to columns that it has."
        )
    return name


def _open(path: Path) -> Any:
    arrow, parquet = _import_arrow()
    try:
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES)
    except (arrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError(
            "Reading parquet files needs pyarrow, which is not installed. Install it with `pip install 'actdeny[hub-dataset]'`."
        ) from None
    return pyarrow, pyarrow.parquet


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read as parquet ({' '.join(str(error).split())[:200]}). Download it anew.")


def _features(file: Any) -> dict[str, dict[str, Any]]:
    """Return what the schema tells of its columns, as the `datasets` package writes it; empty if it does not."""
    try:
        features = json.loads((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, LookupError, TypeError):
        return {}
    return (
        {name: told for name, told in features.items() if isinstance(told, dict)} if isinstance(features, dict) else {}
    )


def _video_form(path: Path, file: Any, video: str) -> str:
    """Return how the column holds videos: a "struct" of bytes and path, "bytes", or a "path"."""
    arrow, _ = _import_arrow()
    kind = file.schema_arrow.field(video).type
    if arrow.types.is_dictionary(kind):
        kind = kind.value_type
    if arrow.types.is_struct(kind) and {"bytes", "path"} <= {kind.field(i).name for i in range(kind.num_fields)}:
        return "struct"
    if arrow.types.is_binary(kind) or arrow.types.is_large_binary(kind):
        return "bytes"
    if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
        return "path"
    raise DataError(
        f"{path}: column {video!r} has type {kind}, but a video is a path, its bytes, or a struct of bytes and path. Name another column "
        "as `video`."
    )


def _embedded(path: Path, file: Any, group: int, video: str, form: str) -> list[bool]:
    """Return for each row of a group whether the video stands in it; by the file's statistics where they tell."""
    about = file.metadata.row_group(group)
    if form == "path":
        return [False] * about.num_rows
    name = f"{video}.bytes" if form == "struct" else video
    columns = [about.column(i) for i in range(about.num_columns)]
    (told,) = [column.statistics for column in columns if column.path_in_schema == name]
    if told is not None and told.has_null_count and told.null_count in (0, about.num_rows):
        return [told.null_count == 0] * about.num_rows
    found = []
    for batch in _batches(path, file, group, [name]):
        videos = batch.column(0).field("bytes") if form == "struct" else batch.column(0)
        found += videos.is_valid().to_pylist()
    return found


def _batches(path: Path, file: Any, group: int, columns: list[str], rows: int = BATCH_ROWS) -> Iterator[Any]:
    arrow, _ = _import_arrow()
    try:
        yield from file.iter_batches(batch_size=rows, row_groups=[group], columns=columns, use_threads=False)
    except (arrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def _write(target: Path, video: Any) -> None:
    work = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work.write_bytes(video)
        work.replace(target)
    except OSError as error:
        work.unlink(missing_ok=True)
        raise DataError(
            f"The embedded video {str(target)!r} cannot be written ({error.strerror}). Make room and grant access there, or copy the "
            "dataset to a folder that can be written to."
        ) from None
