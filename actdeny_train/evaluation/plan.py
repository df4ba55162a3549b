"""Which questions an evaluation asks about a clip: drawn by its sources, or read from a file of frozen ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from actdeny_train.actions.labels import LabelSet
from actdeny_train.errors import DataError
from actdeny_train.evaluation.run import Ask
from actdeny_train.questions.frozen import read_questions
from actdeny_train.questions.source import clip_kinds_of
from actdeny_train.questions.transfer import fits
from actdeny_train.types import Clip, ClipKind, Question


@dataclass(frozen=True, eq=False)
class Questions:
    """The questions of an evaluation. ``frozen`` has those of a file by clip id; None draws them. Pickles into data workers."""

    ask: tuple[Ask, ...]
    labels: LabelSet
    seed: int
    frozen: dict[str, list[Question]] | None = field(default=None)

    @classmethod
    def read(cls, path: Path, labels: LabelSet) -> "Questions":
        """Return the questions of a frozen file. Raises DataError where it cannot be read, or asks about several clips at once."""
        by_clip: dict[str, list[Question]] = {}
        for question in read_questions(path):
            if len(question.clip_ids) != 1:
                raise DataError(
                    f"{path}: question {question.id!r} is about {len(question.clip_ids)} clips, but an evaluation asks about one at a "
                    "time. Remove it."
                )
            by_clip.setdefault(question.clip_ids[0], []).append(question)
        return cls((), labels, 0, by_clip)

    def about(self, clip: Clip) -> list[Question]:
        """Return all questions about one clip. Raises DataError if two have one id, or a frozen one is not about such a clip."""
        if self.frozen is not None:
            return [_checked(question, clip) for question in self.frozen.get(clip.id, ())]
        questions = [
            one.source.ask(clip, self.labels, seed=self.seed, index=index)
            for one in self.ask
            if clip.kind in (one.kinds or clip_kinds_of(one.source))
            for index in range(one.count)
        ]
        ids = [question.id for question in questions]
        for repeated in (i for i in ids if ids.count(i) > 1):
            raise DataError(f"Two questions have the id {repeated!r}. Remove the source that stands twice under ask.")
        return questions

    def unused(self, clips: Sequence[Clip]) -> list[str]:
        """Return the ids of frozen questions about none of ``clips``."""
        known = {clip.id for clip in clips}
        return [q.id for clip_id, asked in (self.frozen or {}).items() if clip_id not in known for q in asked]


def _checked(question: Question, clip: Clip) -> Question:
    if question.kind in set(ClipKind) and not fits(question, clip):
        raise DataError(
            f"Frozen question {question.id!r} was made for a clip of kind {question.kind!r}, but clip {clip.id!r} is of kind "
            f"{clip.kind.value!r} now, where another choice may be right. Freeze the questions anew, or restore the clips' kinds."
        )
    return question
