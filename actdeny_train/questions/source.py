"""What a question source is: the contract between clips and everything that asks about them."""

from typing import Protocol, runtime_checkable

from actdeny_train.actions.labels import LabelSet
from actdeny_train.errors import DataError
from actdeny_train.types import Clip, ClipGroup, ClipKind, Question


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


@runtime_checkable
class GroupSource(QuestionSource, Protocol):
    """A question source that asks about several clips at once; ``ask_group`` is to a group what ``ask`` is to a clip."""

    def ask_group(self, group: ClipGroup, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return question ``index`` about ``group``. Raises DataError where the group lacks what the source needs."""
        ...


def ask_group(source: QuestionSource, group: ClipGroup, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
    """Return question ``index`` of any source about a group. Raises DataError where there are more clips than the source asks about."""
    if isinstance(source, GroupSource):
        return source.ask_group(group, labels, seed=seed, index=index)
    if len(group.clips) > 1:
        raise DataError(
            f"{type(source).__name__} asks about one clip, but {group.id!r} is a group of {len(group.clips)} clips. Ask about such groups "
            "with a source that knows them, such as actdeny_train.questions.intruder.Intruder."
        )
    return source.ask(group.clips[0], labels, seed=seed, index=index)
