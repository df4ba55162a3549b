"""The questions of one setup under one prompt, each with its clip, as harnesses need them."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actdeny_train.datasets.base import check_ids, check_path, check_text
from actdeny_train.errors import DataError
from actdeny_train.questions.prompts import MAX_CHOICES, Labelled, option_block
from actdeny_train.questions.transfer import fits
from actdeny_train.types import Clip, ClipKind, Question

NUMBER, LETTER = "choice number", "choice letter"
"""What the prompts of this package call a label."""


@dataclass(frozen=True)
class Cell:
    """One setup under one prompt. ``name`` has letters, digits and underscores; ``rows`` are in the order of the questions given."""

    name: str
    setup: str
    prompt: str
    rows: tuple[tuple[Question, Clip], ...]

    @property
    def kinds(self) -> set[ClipKind]:
        """Kinds that the questions count for."""
        return {ClipKind(question.kind) for question, _ in self.rows}


def group(clips: Sequence[Clip], questions: Sequence[Question]) -> list[Cell]:
    """Return the cells in order of their first question.

    Raises DataError for what no export can hold: no questions, repeated ids, a question about several clips, about a clip that
    is not given, or of another kind than its clip; more than 20 choices; paths that leave their root.
    """
    check_ids(clips)
    by_id = {clip.id: clip for clip in clips}
    rows = defaultdict(list)
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise DataError(
                f"Two questions have the id {question.id!r}. Remove the source that stands twice under ask."
            )
        seen.add(question.id)
        rows[question.setup, question.prompt].append((question, _clip_of(question, by_id)))
    if not rows:
        raise DataError("There are no questions to export. Ask at least one of the clips, in at least one setup.")
    cells = [Cell(slug(f"{setup}_{prompt}"), setup, prompt, tuple(found)) for (setup, prompt), found in rows.items()]
    named: dict[str, Cell] = {}
    for cell in cells:
        other = named.setdefault(cell.name, cell)
        if other is not cell:
            raise DataError(
                f"Setup {cell.setup!r} under prompt {cell.prompt!r} and setup {other.setup!r} under prompt {other.prompt!r} would both be "
                f"called {cell.name!r}. Rename the file of one prompt."
            )
    return cells


def record(question: Question, clip: Clip) -> dict[str, Any]:
    """Return what scoring a response needs, as plain JSON values; indices are 0-based."""
    return {
        "id": question.id,
        "clip": clip.id,
        "video": clip.path,
        "action": clip.action,
        "source": clip.source,
        "kind": question.kind,
        "setup": question.setup,
        "prompt": question.prompt,
        "choices": list(question.choices),
        "answers": list(question.answers),
        "target": question.target,
        "none_choice": question.none_choice,
        "primary_distractor": question.primary_distractor,
    }


def require_whole_videos(cells: Sequence[Cell], tool: str) -> None:
    """Raise DataError if a clip is a part of its video: the tool shows whole files."""
    spans = {clip.id: clip for cell in cells for _, clip in cell.rows if (clip.start_s, clip.end_s) != (None, None)}
    if spans:
        first = next(iter(spans.values()))
        raise DataError(
            f"{tool} shows models whole videos, but {len(spans)} clips are parts of one, the first {first.id!r} ({first.path!r} from "
            f"{first.start_s} to {first.end_s} s). Cut them into files of their own, or export as hf, which keeps the times."
        )


def slug(text: str) -> str:
    """Return the text with an underscore for everything but letters and digits."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")


def is_labelled(question: Question) -> bool:
    """Return whether the choices have numbers or letters; yes/no questions do not."""
    return question.answers != question.choices


def before_choices(question: Question) -> str:
    """Return the text up to the first choice, asking for a letter where it asked for a number.

    Raises DataError if the choices do not end the text, or if the text speaks of numbers in words that are not this package's.
    """
    labelled: Labelled = "letters" if question.answers[0] == "A" else "numbers"
    block = option_block(question.choices, labelled)
    if not question.text.endswith(block):
        raise DataError(
            f"The text of question {question.id!r} does not end with its choices, one a line, so they cannot be lettered anew. It ends: "
            f"{question.text[-80:]!r}. Put the choices last, or export to another format."
        )
    text = question.text.removesuffix(block)
    if labelled == "letters" or NUMBER in text:
        return text.replace(NUMBER, LETTER)
    if re.search(r"\bnumber", text, re.IGNORECASE):
        raise DataError(
            f"Prompt {question.prompt!r} speaks of a number, but VLMEvalKit's choices have letters. Write {NUMBER!r} where the prompt says "
            "how to reply, or export another prompt."
        )
    return text


def _clip_of(question: Question, by_id: dict[str, Clip]) -> Clip:
    if len(question.clip_ids) != 1 or question.clip_ids[0] not in by_id:
        raise DataError(
            f"Question {question.id!r} is about the clips {', '.join(question.clip_ids) or 'none'}, but an exported question is about "
            f"exactly one of the {len(by_id)} clips given. Give its clip too, or leave the question out."
        )
    clip = by_id[question.clip_ids[0]]
    if not fits(question, clip):
        raise DataError(
            f"Question {question.id!r} has kind {question.kind!r}, but its clip is of kind {clip.kind.value!r}. Only questions whose kind "
            "is that of their clip measure denial and can be exported: leave graph questions out."
        )
    if len(question.choices) > MAX_CHOICES:
        raise DataError(
            f"Question {question.id!r} has {len(question.choices)} choices, but at most {MAX_CHOICES} can be exported."
        )
    check_path(clip.path, f"clip {clip.id!r}")
    for text in (question.id, question.text, *question.choices, *question.answers, clip.source, clip.action):
        check_text(text, f"text of question {question.id!r}")
        if "\0" in text:
            raise DataError(
                f"Question {question.id!r} has a NUL character in {text!r}, which no table can hold. Remove it."
            )
    return clip
