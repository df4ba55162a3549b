"""What a question source is: the contract between clips and everything that asks about them."""

from typing import Protocol

from actdeny_train.actions.labels import LabelSet
from actdeny_train.types import Clip, ClipKind, Question


class QuestionSource(Protocol):
    """Asks an endless, reproducible stream of questions about any clip.

    A source is a frozen dataclass of settings. ``ask(clip, labels, seed=s, index=i)`` depends on its arguments and settings
    alone (through ``Draw``), so any machine, worker and subset of clips gives the same question. Index 0 is the question
    of an evaluation; training walks through the indices. ``setup`` is the name under which results are reported. A source that is
    about some kinds of clip alone names them in an attribute ``clip_kinds``.
    """

    @property
    def setup(self) -> str: ...

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return question ``index`` about ``clip``. Raises DataError where the clip lacks what the source needs."""
        ...


def clip_kinds_of(source: QuestionSource) -> tuple[ClipKind, ...]:
    """Return the kinds of clip that a source is about: those it names, or all."""
    return getattr(source, "clip_kinds", tuple(ClipKind))
