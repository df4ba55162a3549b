"""Several question sources as one, mixed by shares: what a model is trained on."""

from dataclasses import dataclass
from fractions import Fraction

from actdeny_train.actions.labels import LabelSet
from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError
from actdeny_train.questions.source import QuestionSource
from actdeny_train.types import Clip, Question


@dataclass(frozen=True)
class Share:
    """A question source and its weight among the others of a mixture."""

    source: QuestionSource
    share: float = 1.0
    """Weight relative to the other shares; more than 0."""


@dataclass(frozen=True)
class Mixture:
    """Asks each source in proportion to its share.

    Along the indices of one clip every source comes as evenly as its share allows: of two sources, the first one's count
    is always less than one question off its exact share. Where a clip begins in this pattern is drawn from its id, so that
    over many clips each index, the first included, is divided by the shares as well. Every source is asked with its own
    running index, 0, 1, 2, ... without gaps. ``setup`` is ``"mixture"``; each question carries the setup of its source.
    """

    shares: tuple[Share, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(self.shares))
        if not self.shares:
            raise ConfigError(
                "A Mixture needs at least one share, but `shares` is empty. List one or more question sources."
            )
        for i, part in enumerate(self.shares):
            if not 0 < part.share < float("inf"):
                raise ConfigError(
                    f"shares[{i}].share of a Mixture is {part.share}, but must be a number above 0 (shares are relative to their sum). "
                    "Correct it, or remove the source."
                )
            if part.source in [other.source for other in self.shares[:i]]:
                raise ConfigError(
                    f"shares[{i}] of a Mixture repeats the source {part.source}, so the same questions would be asked twice. "
                    "List each source once and add the shares up."
                )

    @property
    def setup(self) -> str:
        return "mixture"

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return question ``index`` of the mixture. Raises what the chosen source raises."""
        source, own_index = self._turn(Draw(seed, clip.id, self.setup), index)
        return source.ask(clip, labels, seed=seed, index=own_index)

    def _turn(self, draw: Draw, index: int) -> tuple[QuestionSource, int]:
        """Return whose turn ``index`` is, and how often that source had its turn before.

        The first source competes with all others together, the second with those after it, and so on. With share p and a
        start u in [0, 1), a source has had ``floor(p * n + u)`` of the first n turns.
        """
        # Exact fractions: with floats, a rounded floor would skip or repeat a question.
        weights = [Fraction(str(part.share)) for part in self.shares]
        for i, part in enumerate(self.shares[:-1]):
            p = weights[i] / sum(weights[i:])
            start = Fraction(draw.integer(1 << 32), 1 << 32)
            turns, turns_after = int(p * index + start), int(p * (index + 1) + start)
            if turns_after > turns:
                return part.source, turns
            index -= turns
        return self.shares[-1].source, index
