"""Something-Something V2: presence clips of 174 templates, with the nouns that fill each clip's template."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actdeny_train.actions.labels import LabelSet, load_something_v2
from actdeny_train.actions.templates import fill
from actdeny_train.datasets.annotations import (
    check_label_list,
    find_file,
    missing_file,
    read_json_entries,
    read_lines,
    row_error,
    take_string,
)
from actdeny_train.datasets.base import ClipDataModule, Published, check_text
from actdeny_train.datasets.layouts import VideoIndex
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import near_misses
from actdeny_train.types import Clip, ClipKind

FILES = {
    "train": ("something-something-v2-train.json", "train.json"),
    "val": ("something-something-v2-validation.json", "validation.json", "val.json"),
    "test": ("something-something-v2-test.json", "test.json"),
}
"""Files of each split: the first publisher's names, then those of the Qualcomm package."""
LABEL_FILES = ("something-something-v2-labels.json", "labels.json")
ANSWERS = ("test-answers.csv", "something-something-v2-test-answers.csv")
WHERE_TO_GET = "Set `annotations` to the folder of the JSON files (folder labels/ of the Qualcomm package)."


@dataclass(frozen=True, slots=True)
class Row:
    """One clip: its id, its template as an action (None in the test file), and the nouns of its brackets, () where not told."""

    id: str
    action: str | None
    nouns: tuple[str, ...]


class SomethingV2(ClipDataModule):
    """Clips in splits ``"train"`` (168,913), ``"val"`` (24,777) and ``"test"`` (27,157), as far as ``annotations`` has their files.

    ``annotations`` is a folder: ``root``, ``root/labels`` or ``root/annotations`` unless given. Test clips get their labels from
    ``test-answers.csv``; without one they are left out. Videos may lie anywhere below ``root`` as ``<id>.webm`` (or another suffix).
    Who filmed a clip was not published, so each clip is its own source. A question's choices are the templates with "something":
    nouns in one choice alone would tell it from the others. ``sentence`` gives a clip's own sentence.
    """

    def __init__(self, root: str, annotations: str | None = None, screening: Screening | None = None) -> None:
        super().__init__(root, screening)
        self.folders = (
            [Path(annotations)] if annotations else [self.root, self.root / "labels", self.root / "annotations"]
        )
        self._nouns: dict[str, tuple[str, ...]] = {}

    @property
    def labels(self) -> LabelSet:
        return load_something_v2()

    def published(self) -> dict[str, Published]:
        return {
            "train": Published((168_913,)),
            "val": Published((24_777,)),
            "test": Published((27_157,), "left out without test-answers.csv"),
        }

    def read_clips(self) -> Iterator[Clip]:
        """Yield train, val and test clips in the order of the files. Raises DataError without any file, or at a malformed entry."""
        files = {split: find_file(names, self.folders) for split, names in FILES.items()}
        if not any(files.values()):
            raise missing_file("Something-Something V2", [FILES["val"][0], FILES["val"][1]], self.folders, WHERE_TO_GET)
        if (labels := find_file(LABEL_FILES, self.folders)) is not None:
            check_label_list(labels, self.labels)
        answers_file = find_file(ANSWERS, self.folders)
        answers = read_answers(answers_file, self.labels) if answers_file and files["test"] else {}
        index = VideoIndex(self.root)
        for split, path in files.items():
            rows = list(read_rows(path, self.labels)) if path else []
            unlabelled = 0
            for row in rows:
                action = row.action or answers.get(row.id)
                if action is None:
                    unlabelled += 1
                    continue
                self._nouns[row.id] = row.nouns
                yield Clip(
                    id=row.id,
                    path=index.find(
                        f"20bn-something-something-v2/{row.id}.webm", folders=("20bn-something-something-v2", split)
                    ),
                    action=action,
                    kind=ClipKind.PRESENCE,
                    split=split,
                    source=row.id,
                )
            if unlabelled:
                print(f"{path}: {unlabelled} of {len(rows)} clips have no label and are left out", flush=True)

    def sentence(self, clip: Clip) -> str:
        """Return the clip's description with its own nouns, where the annotation file tells them: "... is putting a cup behind a box."."""
        nouns = self._nouns.get(clip.id)
        return fill(clip.action, nouns, f"clip {clip.id!r}") if nouns else self.labels.description(clip.action)


def read_rows(path: Path, labels: LabelSet) -> Iterator[Row]:
    """Yield the entries of a JSON file: ``id`` with ``template`` and ``placeholders``, or ``id`` alone as in the test file."""
    actions = {action.lower(): action for action in labels.actions}
    for where, entry in read_json_entries(path):
        id = _id(entry.get("id"), where)
        if "template" not in entry:
            if "label" in entry or "placeholders" in entry:
                raise row_error(where, str(sorted(entry)), "an entry with a template", near_misses("template", entry))
            yield Row(id, None, ())
            continue
        template = take_string(entry, "template", where)
        action = _action(template, actions, where)
        nouns = _nouns(entry, where)
        if nouns is not None:
            num_brackets = template.count("[")
            if len(nouns) != num_brackets:
                raise row_error(
                    where, f"{len(nouns)} placeholders", f"{num_brackets}: one for each bracket of {template!r}"
                )
            fill(action, nouns, where)
        yield Row(id, action, nouns or ())


def read_answers(path: Path, labels: LabelSet) -> dict[str, str]:
    """Return the action of each test clip from rows ``id;label``. Labels hold commas and quotes, so only the first ``;`` parts."""
    actions = {action.lower(): action for action in labels.actions}
    answers: dict[str, str] = {}
    for where, line in read_lines(path):
        id, _, label = line.partition(";")
        if not answers and (id.strip().lower(), label.strip().lower()) in (("id", "label"), ("id", "template")):
            continue
        id, label = _id(id.strip(), where), label.strip()
        if len(label) >= 2 and label[0] == label[-1] == '"':
            label = label[1:-1].replace('""', '"')
        if id in answers:
            raise row_error(where, id, "a clip that is listed once")
        answers[id] = _action(label, actions, where)
    return answers


def _id(value: Any, where: str) -> str:
    """Return an id: digits, given as a string or a number."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not re.fullmatch("[0-9]{1,9}", text):
        raise row_error(where, f"id {value!r}", "an id of up to 9 digits")
    return text


def _action(template: str, actions: dict[str, str], where: str) -> str:
    """Return the label of a template: the same words without brackets. What stands in brackets varies ("[part]"), so it stays."""
    name = template.replace("[", "").replace("]", "")
    action = actions.get(name.lower())
    if action is None:
        hint = near_misses(name, actions.values())
        raise row_error(where, template, "one of the 174 templates", hint)
    return action


def _nouns(entry: dict[str, Any], where: str) -> tuple[str, ...] | None:
    nouns = entry.get("placeholders")
    if nouns is None:
        return None
    if not isinstance(nouns, list) or not all(isinstance(noun, str) for noun in nouns):
        raise row_error(where, f"placeholders {nouns!r}", "a list of strings as placeholders")
    return tuple(check_text(noun, f"placeholder of {where}") for noun in nouns)
