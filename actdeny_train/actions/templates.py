"""Something-Something V2's templates: phrases with slots for a clip's nouns, and which templates are done and pretended."""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import yaml

from actdeny_train.actions.labels import OPENING, load_something_v2
from actdeny_train.errors import DataError

_FOLDER = Path(__file__).parent / "something_v2"
_SLOT = re.compile(r"\{[^{}]*\}")


@functools.cache
def load_patterns() -> Mapping[str, str]:
    """Return the phrase of every template, with one ``{slot}`` for each bracket of the official template, in its order."""
    patterns = yaml.safe_load((_FOLDER / "patterns.yaml").read_text(encoding="utf-8"))
    return MappingProxyType({action: patterns[action] for action in load_something_v2().actions})


@functools.cache
def load_minimal_pairs() -> tuple[tuple[str, str], ...]:
    """Return pairs of templates: an action done, and the same pretended, tried in vain or stopped short.

    Either is the hardest false choice about a clip of the other; an action may stand in several pairs.
    """
    labels = load_something_v2()
    pairs = yaml.safe_load((_FOLDER / "minimal_pairs.yaml").read_text(encoding="utf-8"))
    return tuple((labels.check(done), labels.check(undone)) for done, undone in pairs)


def count_slots(action: str) -> int:
    """Return how many nouns a clip of the template has."""
    return len(_SLOT.findall(load_patterns()[load_something_v2().check(action)]))


def fill(action: str, nouns: Sequence[str], where: str = "the clip") -> str:
    """Return the sentence of a template with a clip's nouns, e.g. "A person or group of people is pushing a cup so that it spins.".

    Raises DataError if there are more or fewer nouns than slots.
    """
    if len(nouns) != count_slots(action):
        raise DataError(
            f"{where} has {len(nouns)} placeholders, {list(nouns)}, but its template {action!r} has {count_slots(action)} slots. Get "
            "the annotation file anew, or mend the row."
        )
    waiting = iter(nouns)
    return f"{OPENING}{_SLOT.sub(lambda _: next(waiting).strip(), load_patterns()[action])}."
