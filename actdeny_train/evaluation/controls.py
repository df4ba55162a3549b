"""Controls: models without weights that answer by a fixed rule. What they score is what a score is worth nothing below.

They stand in a config in the place of a model, answer in words, and go through the parser like any other.
"""

import abc
import hashlib
from dataclasses import dataclass

from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.yes_no import ANSWERS, NO, YES
from actdeny_train.types import Clip, Question


@dataclass(frozen=True)
class Control(abc.ABC):
    """Replies to questions without looking at a video."""

    def fingerprint(self) -> str:
        """Return a short hash of the rule's name and settings, in the place of the weights'."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    @abc.abstractmethod
    def choose(self, question: Question, clip: Clip) -> int:
        """Return the index of the choice that the rule takes. ``clip`` is the first where a question is about several."""

    def reply(self, question: Question, clip: Clip) -> str:
        """Return the response: the label of the choice."""
        return question.answers[self.choose(question, clip)]


@dataclass(frozen=True)
class RandomChoice(Control):
    """Takes any choice, each equally likely; the same one at every run with this seed."""

    seed: int = 0

    def choose(self, question: Question, clip: Clip) -> int:
        return Draw(self.seed, question.id, "random choice").integer(len(question.choices))


@dataclass(frozen=True)
class AlwaysNone(Control):
    """Denies everything: the none choice, "no" to yes/no questions, else the last choice."""

    def choose(self, question: Question, clip: Clip) -> int:
        if question.none_choice is not None:
            return question.none_choice
        return NO if question.answers == ANSWERS else len(question.choices) - 1


@dataclass(frozen=True)
class AlwaysPrimaryDistractor(Control):
    """Believes that the context's action happens in every clip: that action where it is offered, else the none choice.

    Yes/no questions: "yes" about the clip's own action, "no" about another. Other questions: the first choice.
    """

    def choose(self, question: Question, clip: Clip) -> int:
        if question.answers == ANSWERS:
            return YES if question.setup == "yes_no_primary" else NO
        if question.primary_distractor is not None:
            return question.primary_distractor
        if question.kind == "presence" and question.none_choice is not None:
            return question.target  # on a presence clip, the context's action is the right one
        return question.none_choice or 0


@dataclass(frozen=True)
class AlwaysYes(AlwaysPrimaryDistractor):
    """Agrees with everything: "yes" to yes/no questions, else the context's action."""

    def choose(self, question: Question, clip: Clip) -> int:
        return YES if question.answers == ANSWERS else super().choose(question, clip)


@dataclass(frozen=True)
class AlwaysPosition(Control):
    """Takes the choice at one place of the list, whatever it says: what a model scores that only prefers a place."""

    position: int
    """Which place, counted from 1 as prompts do."""

    def __post_init__(self) -> None:
        if self.position < 1:
            raise ConfigError(
                f"position of AlwaysPosition is {self.position}, but counts from 1. Give the place of a choice."
            )

    def choose(self, question: Question, clip: Clip) -> int:
        """Return the place. Raises DataError about a question with fewer choices."""
        if self.position > len(question.choices):
            raise DataError(
                f"AlwaysPosition takes choice {self.position}, but question {question.id!r} has {len(question.choices)} choices. Choose a "
                "smaller position, or ask questions with more choices."
            )
        return self.position - 1
