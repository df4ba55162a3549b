"""Annotation files as they circulate: any line ending, byte order marks, blank lines, class lists in several forms.

Every reader raises DataError alone, with the file and the line or entry.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from actdeny_train.actions.labels import LabelSet
from actdeny_train.datasets.base import check_text
from actdeny_train.errors import DataError, near_misses

_SHOWN = 80
"""Characters of a malformed row that an error quotes."""


def find_file(names: Sequence[str], folders: Sequence[Path]) -> Path | None:
    """Return the first of ``folders`` x ``names`` that is a file, trying all names in a folder before the next folder."""
    return next((path for folder in folders for name in names if (path := folder / name).is_file()), None)


def missing_file(dataset: str, names: Sequence[str], folders: Sequence[Path], what_next: str) -> DataError:
    """Return the error for an annotation file that is nowhere."""
    near = sorted({path.name for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file()})
    return DataError(
        f"{dataset}: none of {', '.join(names)} lies in {', '.join(repr(str(folder)) for folder in folders)}."
        f"{near_misses(names[0], near)} {what_next}"
    )


def read_text(path: Path) -> str:
    """Return a file's text, without a byte order mark."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(
            f"The annotation file {str(path)!r} cannot be read ({error.strerror}). Correct the path, or restore the file."
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8 ({error}). Get the file anew.") from None


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield ``("file:line", line)`` without the spaces round it; blank lines are skipped."""
    # str.splitlines would also split at characters that may stand inside a name.
    for number, line in enumerate(re.split(r"\r\n|\r|\n", read_text(path)), start=1):
        if line.strip():
            yield f"{path}:{number}", line.strip()


def read_table(path: Path, delimiter: str = ",") -> Iterator[tuple[str, list[str]]]:
    """Yield ``("file:line", values)`` of a CSV file, spaces round the values left out; blank rows are skipped."""
    for where, line in read_lines(path):
        # One row a line: a quote left open would otherwise swallow the rows that follow.
        try:
            (values,) = csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True)
        except (csv.Error, ValueError) as error:
            raise DataError(
                f"{where} is not a CSV row ({error}): {line[:_SHOWN]!r}. A value with a comma or a quote must stand in double quotes, a "
                "quote inside them doubled. Correct the row."
            ) from None
        yield where, [value.strip() for value in values]


def read_json_entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``("file, entry i", entry)`` of a JSON list of objects, i counted from 0."""
    content = read_json(path)
    if not isinstance(content, list):
        raise DataError(
            f"{path} holds a JSON {type(content).__name__}, but must be a list with one object a clip. Get the file anew."
        )
    for i, entry in enumerate(content):
        where = f"{path}, entry {i}"
        if not isinstance(entry, dict):
            raise row_error(where, json.dumps(entry), "a JSON object with the fields of a clip")
        yield where, entry


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON ({error}). Get the file anew.") from None


def row_error(where: str, got: str, allowed: str, hint: str = "") -> DataError:
    """Return the error for a malformed row."""
    return DataError(f"{where}: got {got[:_SHOWN]!a}, but must be {allowed}.{hint} Correct or remove the row.")


def take_string(entry: dict[str, Any], key: str, where: str) -> str:
    """Return a field that must be a non-empty string."""
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        missing = key not in entry
        got = f"no field {key}" if missing else f"{key} = {value!r}"
        raise row_error(
            where, got, f"a row with a non-empty string under {key!r}", near_misses(key, entry) if missing else ""
        )
    return check_text(value.strip(), f"{key!r} of {where}")


def take_whole_number(text: object, allowed: range, what: str, where: str) -> int:
    """Return a whole number, given as such or in digits, that lies in ``allowed``."""
    is_number = isinstance(text, int) and not isinstance(text, bool)
    digits = str(text) if is_number or isinstance(text, str) else ""
    # More digits than any label has; int() refuses thousands of them with another error.
    if not re.fullmatch(r"-?[0-9]{1,9}", digits) or int(digits) not in allowed:
        raise row_error(where, f"{what} {text!r}", f"a whole number from {allowed[0]} to {allowed[-1]} as {what}")
    return int(digits)


def canonical(name: str) -> str:
    """Return a name's letters and digits in lower case: ways to write one class as a folder differ in the rest alone."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def by_canonical(labels: LabelSet) -> dict[str, str]:
    """Return a label set's actions by ``canonical`` name. Raises DataError if two of them are the same but for punctuation."""
    actions: dict[str, str] = {}
    for action in labels.actions:
        other = actions.setdefault(canonical(action), action)
        if other != action or not canonical(action):
            raise DataError(
                f"Label set {labels.name!r}: the actions {other!r} and {action!r} have the same letters and digits (or none), so a folder "
                "cannot tell which is meant. Rename one."
            )
    return actions


def read_label_list(path: Path) -> list[str]:
    """Return the class names of a list, in the order of their class index.

    Forms: one name a line; ``index name`` a line, counted from 0 or 1; CSV with the header ``id,name``; a JSON object from name to
    index; a JSON list of names, or of lists of their parts (joined by ``_``). Raises DataError where indices are not in sequence.
    """
    if path.suffix == ".json":
        return _json_labels(path)
    rows = list(read_lines(path))
    if not rows:
        raise DataError(f"{path} is empty, but must list the names of the classes. Get the file anew.")
    if rows[0][1].replace(" ", "").lower() == "id,name":
        table = list(read_table(path))[1:]
        if wide := [where for where, values in table if len(values) != 2]:
            raise row_error(wide[0], "another number of values", "a row 'id,name'")
        return _in_sequence([(where, values[0], values[1]) for where, values in table], path)
    split = [(where, *line.split(None, 1)) for where, line in rows]
    if all(len(row) == 3 and row[1].isdecimal() for row in split):
        return _in_sequence([(row[0], row[1], row[2]) for row in split], path)
    return [line for _, line in rows]


def check_label_list(path: Path, labels: LabelSet) -> None:
    """Raise DataError where a class list names other classes than ``labels``, or the same in another order."""
    names = read_label_list(path)
    for i, (name, action) in enumerate(zip(names, labels.actions, strict=False)):
        if canonical(name) != canonical(action):
            raise DataError(
                f"{path}: class {i} (counted from 0) is {name!r}, but is {action!r} in label set {labels.name!r}. In another order, class "
                "numbers would name other actions. Get the official list, or move this one away."
            )
    if len(names) != len(labels.actions):
        raise DataError(
            f"{path} lists {len(names)} classes, but label set {labels.name!r} has {len(labels.actions)}. Get the official list, or "
            "move this one away."
        )


def _json_labels(path: Path) -> list[str]:
    content = read_json(path)
    if isinstance(content, dict):
        rows = [(f"{path}, {name!r}", str(index), name) for name, index in content.items()]
        if wrong := [row for row in rows if not re.fullmatch("[0-9]{1,9}", row[1])]:
            raise row_error(wrong[0][0], wrong[0][1], "a class index")
        return _in_sequence(sorted(rows, key=lambda row: int(row[1])), path)
    if not isinstance(content, list):
        raise DataError(
            f"{path} holds a JSON {type(content).__name__}, but must be an object or a list of classes. Get the file anew."
        )
    names = []
    for i, parts in enumerate(content):
        parts = [parts] if isinstance(parts, str) else parts
        if not isinstance(parts, list) or not parts or not all(isinstance(part, str) and part for part in parts):
            raise row_error(f"{path}, entry {i}", json.dumps(parts), "a name, or a list of the parts of one")
        names.append("_".join(parts))
    return names


def _in_sequence(rows: Iterable[tuple[str, str, str]], path: Path) -> list[str]:
    """Return the names of rows (where, index, name) whose indices count up from 0 or 1."""
    rows = list(rows)
    if not rows:
        raise DataError(f"{path} lists no class. Get the file anew.")
    first = 1 if rows[0][1] == "1" else 0
    for index, (where, got, _) in enumerate(rows, start=first):
        if got != str(index):
            raise row_error(where, got, f"the class index {index}: indices count up from 0 or 1")
    return [name for *_, name in rows]
