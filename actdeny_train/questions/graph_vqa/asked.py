"""What the kinds of graph questions share: phrasings, forms of answers, and things that are not in the graph."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from actdeny_train.causal.graph import NODE_NAMES, CausalGraph
from actdeny_train.draw import Draw
from actdeny_train.types import NODES

PHRASINGS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("phrasings.yaml").read_text(encoding="utf-8"))
"""By kind: ``phrasings``, of which one is drawn, and ``answer``, the sentence that says how to answer."""

DISTRACTORS = {
    "V": "Viewpoint and Camera",
    "G": "Lighting",
    "U": "Audio",
    "B": "Background Music",
    "W": "Weather",
    "C": "Colors",
    "R": "Resolution",
    "T": "Time of Day",
    "F": "Frame Rate",
    "X": "Text on Screen",
}
"""Attributes of a video that are in no graph, under letters that no node has."""

NONE = "none"
"""Answer of a listing question where nothing is to be listed."""

MAX_COUNT = 10
"""Counting questions offer "0" to this number, or to the right one where it is larger."""

MAX_WRONG = 4
"""Most wrong answers that an open question offers beside the right one."""


@dataclass(frozen=True)
class Asked:
    """A question's text, the strings that may answer it, and the place of the right one among them (0-based)."""

    text: str
    answers: tuple[str, ...]
    target: int


def named(node: str) -> str:
    """Return a node or distractor as "P (Persons)"."""
    return f"{node} ({(NODE_NAMES | DISTRACTORS)[node]})"


def absentees(graph: CausalGraph) -> tuple[str, ...]:
    """Return the letters that ``graph`` does not have: nodes that a variant leaves out, then the distractors."""
    return tuple(node for node in NODES if node not in graph.nodes) + tuple(DISTRACTORS)


def ask_yes_no(kind: str, truth: bool, draw: Draw, **words: str) -> Asked:
    """Return a question answered "yes" if ``truth``, else "no"."""
    return Asked(_text(kind, draw, (), words), ("yes", "no"), 0 if truth else 1)


def ask_count(kind: str, count: int, draw: Draw, **words: str) -> Asked:
    """Return a question answered by ``count``."""
    answers = tuple(str(n) for n in range(max(MAX_COUNT, count) + 1))
    return Asked(_text(kind, draw, (), words), answers, count)


def ask_open(kind: str, right: str, wrong: Iterable[str], draw: Draw, items: Sequence[str] = (), **words: str) -> Asked:
    """Return a question answered by the string ``right``, with up to ``MAX_WRONG`` drawn of ``wrong``.

    ``items`` are printed under the question, one a line. Answers are sorted, so their order tells nothing.
    """
    others = sorted(set(wrong) - {right})
    answers = sorted([right, *draw.sample(others, min(MAX_WRONG, len(others)))])
    return Asked(_text(kind, draw, items, words), tuple(answers), answers.index(right))


def listed(items: Iterable[str]) -> str:
    """Return items in the order given as one answer, "I, O", or "none"."""
    return ", ".join(items) or NONE


def near_sets(right: Collection[str], pool: Sequence[str]) -> list[str]:
    """Return the answers that miss the set ``right`` by one item of ``pool``: one more, one less, or one for another.

    Each is listed in the order of ``pool``.
    """
    rest = [item for item in pool if item not in right]
    sets = [{*right, item} for item in rest] + [set(right) - {item} for item in right]
    sets += [(set(right) - {old}) | {new} for old, new in product(right, rest)]
    return [listed(item for item in pool if item in near) for near in sets]


def _text(kind: str, draw: Draw, items: Sequence[str], words: dict[str, str]) -> str:
    question = draw.choice(PHRASINGS[kind]["phrasings"]).format(**words)
    answer = PHRASINGS[kind]["answer"]
    return "\n".join([question, *items, answer]) if items else f"{question} {answer}"
