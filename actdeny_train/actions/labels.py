"""Label sets: what actions are called, described as, made of and close to. One loader for the YAML files beside it."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from actdeny_train.errors import DataError, near_misses
from actdeny_train.types import ClipKind, Components

OPENING = "A person or group of people is "
"""How every description of the benchmark begins (paper 1, section 10)."""


@dataclass(frozen=True, eq=False)
class LabelSet:
    """The actions of one dataset, in their official order.

    ``descriptions`` maps an action's name to the sentence that stands as a choice. ``components`` maps an action to its phrases for
    presence, context-only and different-motion clips. ``close`` maps an action to actions that look like it (distractors of
    presence clips). ``without_object`` are the actions of body and place alone (person-only graph).
    """

    name: str
    descriptions: Mapping[str, str]
    components: Mapping[str, Mapping[ClipKind, Components]]
    close: Mapping[str, tuple[str, ...]]
    without_object: frozenset[str]

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of all actions."""
        return tuple(self.descriptions)

    def check(self, action: str, where: str = "") -> str:
        """Return ``action`` if it is in the set; else raise DataError naming near misses."""
        if action not in self.descriptions:
            raise DataError(
                f"Unknown action {action!r}{f' in {where}' if where else ''}: label set {self.name!r} has "
                f"{len(self.descriptions)} actions.{near_misses(action, self.descriptions)}"
            )
        return action

    def description(self, action: str) -> str:
        """Return the sentence of an action, e.g. "A person or group of people is playing a cello."."""
        return self.descriptions[self.check(action)]

    def phrase(self, action: str) -> str:
        """Return the description without its opening and final full stop, e.g. "playing a cello"."""
        return self.description(action).removeprefix(OPENING).removesuffix(".")

    def subset(self, actions: Iterable[str], name: str) -> "LabelSet":
        """Return the same set restricted to ``actions``, in this set's order. Close actions outside it are dropped."""
        kept = {self.check(a) for a in actions}
        return LabelSet(
            name=name,
            descriptions={a: d for a, d in self.descriptions.items() if a in kept},
            components={a: c for a, c in self.components.items() if a in kept},
            close={a: tuple(b for b in bs if b in kept) for a, bs in self.close.items() if a in kept},
            without_object=self.without_object & kept,
        )
