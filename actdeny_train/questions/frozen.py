"""Questions frozen to a file: JSON lines that ask the same questions anywhere, whatever this package draws by then."""

import dataclasses
import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from actdeny_train.actions.labels import LabelSet
from actdeny_train.errors import DataError, near_misses
from actdeny_train.types import Clip, Question

TUPLES = ("clip_ids", "choices", "answers", "permutation", "clip_places")
NUMBERS = ("permutation", "clip_places")
"""Those of ``TUPLES`` that hold whole numbers, the others hold strings."""

FIELDS = tuple(field.name for field in dataclasses.fields(Question))


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Write one JSON line a question, after one line for each text that many questions of a prompt begin with.

    The CausalAct prompt has 6 KB, and is in every second question. The same questions give the same bytes.
    """
    asked = list(questions)
    openings: dict[str, str] = {}
    for prompt in dict.fromkeys((q.setup, q.prompt) for q in asked):
        texts = [q.text for q in asked if (q.setup, q.prompt) == prompt]
        opening = _common_lines(texts) if len(texts) > 1 else ""
        if opening:
            openings[f"{prompt[0]}|{prompt[1]}"] = opening
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_name(path.name + ".partial")
    with work.open("w", encoding="utf-8", newline="\n") as file:
        for name, text in openings.items():
            file.write(json.dumps({"opening": name, "text": text}, ensure_ascii=False) + "\n")
        for q in asked:
            name = f"{q.setup}|{q.prompt}"
            values = dataclasses.asdict(q)
            row = {k: v for k, v in values.items() if v is not None and (v or k != "clip_places")}
            if name in openings:
                row |= {"opening": name, "text": q.text.removeprefix(openings[name])}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    work.replace(path)


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a file, in its order. Raises DataError naming file and line for anything that is not one."""
    if not path.is_file():
        raise DataError(
            f"There is no file of questions at {str(path)!r}. Write one with `tools/evaluate.py CONFIG --freeze FILE`, or correct the path."
        )
    openings: dict[str, str] = {}
    questions: dict[str, Question] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}:{number}"
            try:
                row = json.loads(line.decode())
                if "id" not in row:
                    openings[row["opening"]] = row["text"]
                    continue
                question = _question(row, openings)
            except (ValueError, TypeError, KeyError, AttributeError, AssertionError) as error:
                raise DataError(
                    f"{where} is not a question ({' '.join(str(error).split())[:200] or type(error).__name__}). Each line must be a JSON "
                    f"object with the fields of a question ({', '.join(FIELDS)}). Restore the file, or freeze it anew."
                ) from None
            if question.id in questions:
                raise DataError(f"{where} has the id {question.id!r} of an earlier question. Remove one of the two.")
            questions[question.id] = question
    return list(questions.values())


@dataclasses.dataclass(frozen=True)
class FrozenQuestions:
    """Asks what a file says, nothing else: the ``index``-th of its questions about a clip in one setup and prompt.

    ``file`` was written by ``tools/evaluate.py CONFIG --freeze FILE``. The seed does not matter.
    """

    file: str
    name: str = "standard"
    """Setup of the questions."""
    prompt_name: str = "plain"
    """Prompt of the questions."""

    @property
    def setup(self) -> str:
        return self.name

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return the question. Raises DataError where the file has none about the clip, setup and prompt, or too few."""
        path = Path(self.file)
        asked = _by_clip(path).get((clip.id, self.name, self.prompt_name), ())
        if index >= len(asked):
            cells = sorted({f"{setup} / {prompt}" for _, setup, prompt in _by_clip(path)})
            wanted = f"{self.name} / {self.prompt_name}"
            raise DataError(
                f"{path} has {len(asked)} questions about clip {clip.id!r} in setup / prompt {wanted!r}, but number {index + 1} is asked "
                f"for. The file has: {', '.join(cells) or 'nothing'}.{near_misses(wanted, cells)} Freeze the questions of all these clips, "
                "or name another setup and prompt."
            )
        return asked[index]


@functools.cache
def _by_clip(path: Path) -> dict[tuple[str, str, str], tuple[Question, ...]]:
    found: dict[tuple[str, str, str], tuple[Question, ...]] = {}
    for q in read_questions(path):
        for clip_id in q.clip_ids:
            key = clip_id, q.setup, q.prompt
            found[key] = (*found.get(key, ()), q)
    return found


def _question(row: dict[str, Any], openings: dict[str, str]) -> Question:
    values: dict[str, Any] = {
        key: tuple(value) if key in TUPLES else value for key, value in row.items() if key != "opening"
    }
    if "opening" in row:
        values["text"] = openings[row["opening"]] + row["text"]
    for key in TUPLES:
        kind = int if key in NUMBERS else str
        if not all(isinstance(item, kind) for item in values.get(key, ())):
            raise ValueError(f"{key} must hold {kind.__name__} values alone")
    for key in ("id", "setup", "prompt", "text", "kind", "group", "rotation_of"):
        if not isinstance(values.get(key, ""), str):
            raise ValueError(f"{key} must be a string")
    return Question(**values)


def _common_lines(texts: list[str]) -> str:
    """Return the whole lines that all texts begin with."""
    first, last = min(texts), max(texts)
    n = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:n].rpartition("\n")[0] + "\n" if "\n" in first[:n] else ""
