"""An open question: what is happening? Its answers are whole descriptions instead of numbers."""

from dataclasses import dataclass

from actdeny_train.actions.labels import LabelSet
from actdeny_train.draw import Draw
from actdeny_train.errors import DataError
from actdeny_train.questions.mcq import draw_distractors
from actdeny_train.types import Clip, Question

PHRASINGS = (
    "What is happening in the video?",
    "Describe what is happening in the video in one sentence.",
    "What are the people in the video doing?",
    "Which action does the video show?",
    "In one sentence: what does the person or group of people do here?",
)
MAX_ACTIONS = 20
"""Label sets up to this size offer all their actions as answers."""
NUM_DRAWN = 11
"""Answers where the label set is larger: as many as the standard question has choices."""


@dataclass(frozen=True)
class Caption:
    """Asks for the description of a presence clip. No choices are shown; the answers are descriptions of candidate actions."""

    @property
    def setup(self) -> str:
        return "caption"

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return the question. Raises DataError on a denial clip: no description of the set is right about it."""
        if clip.kind.is_denial:
            raise DataError(
                f"A caption question was asked about clip {clip.id!r}, which is a denial clip (kind {clip.kind.value!r}); the description "
                f"of its action {clip.action!r} would be wrong. Ask caption questions about presence clips only, or use another source."
            )
        draw = Draw(seed, clip.id, self.setup, index)
        num_answers = len(set(labels.descriptions.values()))
        if num_answers > MAX_ACTIONS:
            num_answers = NUM_DRAWN
        others = draw_distractors(clip, labels, max(num_answers, 2) - 1, draw)
        captions = tuple(
            labels.description(action) for action in labels.actions if action == clip.action or action in others
        )
        return Question(
            id=f"{clip.id}|{self.setup}|plain|{index}",
            clip_ids=(clip.id,),
            setup=self.setup,
            prompt="plain",
            text=draw.choice(PHRASINGS),
            choices=captions,
            answers=captions,
            target=captions.index(labels.description(clip.action)),
            kind=clip.kind.value,
            group=clip.source,
        )
