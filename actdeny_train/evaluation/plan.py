"""Which questions an evaluation asks about a clip, or a group of clips: drawn by its sources, or read from a file of frozen ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from actdeny_train.actions.labels import LabelSet
from actdeny_train.errors import DataError
from actdeny_train.evaluation.run import Ask
from actdeny_train.questions.frozen import read_questions
from actdeny_train.questions.source import ask_group, clip_kinds_of
from actdeny_train.questions.transfer import fits
from actdeny_train.types import Clip, ClipGroup, ClipKind, Question


@dataclass(frozen=True, eq=False)
class Questions:
    """The questions of an evaluation. ``frozen`` has those of a file by the ids of their clips, sorted; None draws them. Pickles into
    data workers.
    """

    ask: tuple[Ask, ...]
    labels: LabelSet
    seed: int
    frozen: dict[tuple[str, ...], list[Question]] | None = field(default=None)

    @classmethod
    def read(cls, path: Path, labels: LabelSet) -> "Questions":
        """Return the questions of a frozen file. Raises DataError where it cannot be read."""
        by_clips: dict[tuple[str, ...], list[Question]] = {}
        for question in read_questions(path):
            by_clips.setdefault(tuple(sorted(question.clip_ids)), []).append(question)
        return cls((), labels, 0, by_clips)

    def about(self, asked: Clip | ClipGroup) -> list[Question]:
        """Return all questions about one clip or group. Raises DataError if two have one id, or a frozen one is not about such a clip."""
        group = ClipGroup.of(asked) if isinstance(asked, Clip) else asked
        if self.frozen is not None:
            return [_checked(question, group) for question in self.frozen.get(_key(group), ())]
        questions = [
            ask_group(one.source, group, self.labels, seed=self.seed, index=index)
            for one in self.ask
            if all(clip.kind in (one.kinds or clip_kinds_of(one.source)) for clip in group.clips)
            for index in range(one.count)
        ]
        ids = [question.id for question in questions]
        for repeated in (i for i in ids if ids.count(i) > 1):
            raise DataError(f"Two questions have the id {repeated!r}. Remove the source that stands twice under ask.")
        return questions

    def unused(self, groups: Sequence[ClipGroup]) -> list[str]:
        """Return the ids of frozen questions about none of ``groups``."""
        known = set(map(_key, groups))
        return [q.id for key, asked in (self.frozen or {}).items() if key not in known for q in asked]


def _key(group: ClipGroup) -> tuple[str, ...]:
    return tuple(sorted(clip.id for clip in group.clips))


def _checked(question: Question, group: ClipGroup) -> Question:
    clip = group.clips[0]
    if question.kind in set(ClipKind) and not fits(question, clip):
        raise DataError(
            f"Frozen question {question.id!r} was made for a clip of kind {question.kind!r}, but clip {clip.id!r} is of kind "
            f"{clip.kind.value!r} now, where another choice may be right. Freeze the questions anew, or restore the clips' kinds."
        )
    return question
