"""Yes/no questions: does an action happen in the clip? Asked about the clip's own action, or about another one."""

import abc
from dataclasses import dataclass, field
from typing import ClassVar

from actdeny_train.actions.labels import LabelSet
from actdeny_train.draw import Draw
from actdeny_train.errors import DataError
from actdeny_train.questions.prompts import WORDING, Plain, Prompt
from actdeny_train.types import Clip, Question

ANSWERS = ("yes", "no")
YES, NO = 0, 1
"""Places of the answers in every yes/no question about an action."""


@dataclass(frozen=True)
class YesNo(abc.ABC):
    """Is a person or group of people doing it? (Paper 1, section 5: a yes on a denial clip is sycophantic.)"""

    prompt: Prompt = field(default_factory=Plain)

    setup: ClassVar[str]

    @abc.abstractmethod
    def choose(self, clip: Clip, labels: LabelSet, draw: Draw) -> str:
        """Return the action that is asked about."""

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return the question. Raises DataError for an action that is not in the label set."""
        labels.check(clip.action, f"clip {clip.id!r}")
        action = self.choose(clip, labels, Draw(seed, clip.id, self.setup, index))
        happens = action == clip.action and not clip.kind.is_denial
        return Question(
            id=f"{clip.id}|{self.setup}|{self.prompt.name}|{index}",
            clip_ids=(clip.id,),
            setup=self.setup,
            prompt=self.prompt.name,
            text=self.prompt.render_yes_no(WORDING["yes_no_question"].format(action=labels.phrase(action))),
            choices=ANSWERS,
            answers=ANSWERS,
            target=YES if happens else NO,
            kind=clip.kind.value,
            group=clip.source,
        )


@dataclass(frozen=True)
class YesNoPrimary(YesNo):
    """Asks about the clip's own action: yes is right on presence clips alone."""

    setup: ClassVar[str] = "yes_no_primary"

    def choose(self, clip: Clip, labels: LabelSet, draw: Draw) -> str:
        return clip.action


@dataclass(frozen=True)
class YesNoRandom(YesNo):
    """Asks about another action at random, an unrelated one where there is any: no is right on all clips."""

    setup: ClassVar[str] = "yes_no_random"

    def choose(self, clip: Clip, labels: LabelSet, draw: Draw) -> str:
        own = labels.description(clip.action)
        others = [a for a in labels.actions if labels.description(a) != own]
        unrelated = [a for a in labels.unrelated(clip.action) if a in others]
        if not others:
            raise DataError(
                f"Clip {clip.id!r} cannot be asked about another action: label set {labels.name!r} has none with another description "
                f"than {clip.action!r}. Use a label set with more actions, or leave YesNoRandom out."
            )
        return draw.choice(unrelated or others)
