"""Places: which place of the list is chosen, where the right answer stands, and how often it is chosen there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from actdeny_train.errors import DataError
from actdeny_train.metrics.accumulators import CountAccumulator
from actdeny_train.metrics.bootstrap import NUM_DRAWS, add_intervals
from actdeny_train.metrics.counts import Counts, Rates, count_by_source, divide, ratio
from actdeny_train.metrics.denial import clip_kind
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import ParseStatus, Prediction

Row = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One place, 0-based.

    ``chosen``: share of all questions whose choice stands there. ``target``: share of all questions whose right answer stands
    there. ``right``: accuracy where it does.
    """

    position: int
    chosen: Estimate
    target: Estimate
    right: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, estimates as ``Estimate.to_json`` gives them."""
        return {"position": self.position, **{name: getattr(self, name).to_json() for name in _NAMES}}


_NAMES = ("chosen", "target", "right")


def positions(predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> list[Position]:
    """Return each place that some question has, with intervals over resampled sources."""
    num_places = max((p.num_choices for p in predictions), default=0)
    counts = count_by_source(predictions, _rows(num_places), _marks)
    estimates = add_intervals(_estimates(counts.sum(axis=0)), counts, _statistic, num_draws=num_draws, seed=seed)
    return _positions(estimates)


def none_positions(predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> list[Position]:
    """Return each place over the denial clips that offer a none choice, which is right there: does denying depend on its place?

    No places if there is no such clip. Raises DataError on a prediction whose kind is no kind of clip.
    """
    return positions([p for p in predictions if _offers_none(p)], num_draws=num_draws, seed=seed)


def _offers_none(prediction: Prediction) -> bool:
    return clip_kind(prediction).is_denial and prediction.none_choice is not None


def _rows(num_places: int) -> list[Row]:
    return [("questions", 0), *((name, i) for name in ("chosen", "target") for i in range(num_places))]


def _marks(prediction: Prediction) -> Iterator[tuple[Row, bool]]:
    yield ("questions", 0), True
    yield ("target", prediction.target), prediction.is_right
    if prediction.status is ParseStatus.OK and prediction.choice is not None:
        yield ("chosen", prediction.choice), True


def _split(counts: Counts) -> tuple[Counts, Counts, Counts]:
    """Return the questions (..., 1), the chosen (..., places) and the targets (..., places, 2) of counts (..., R, 2)."""
    num_places = counts.shape[-2] // 2
    return counts[..., :1, 1], counts[..., 1 : 1 + num_places, 1], counts[..., 1 + num_places :, :]


def _statistic(counts: Counts) -> dict[str, Rates]:
    questions, chosen, targets = _split(counts)
    num_questions = questions + 0 * chosen
    rates = (ratio(chosen, num_questions), ratio(targets[..., 1], num_questions), divide(targets))
    return {
        f"{name} {i}": rate[..., i] for name, rate in zip(_NAMES, rates, strict=True) for i in range(rate.shape[-1])
    }


def _estimates(counts: Counts) -> dict[str, Estimate]:
    """Return the estimates of counts (R, 2) by name and place."""
    questions, _, targets = _split(counts)
    found = {}
    for key, rate in _statistic(counts).items():
        name, place = key.split()
        n = int(targets[int(place), 1]) if name == "right" else int(questions[0])
        if n:
            found[key] = Estimate(float(rate), None, None, n)
        else:
            found[key] = Estimate(None, None, None, 0, "the right answer never stands there")
    return found


def _positions(estimates: dict[str, Estimate]) -> list[Position]:
    return [
        Position(position=i, **{name: estimates[f"{name} {i}"] for name in _NAMES}) for i in range(len(estimates) // 3)
    ]


class Positions(CountAccumulator[Row]):
    """Accumulate ``positions`` over batches and processes; ``only_none`` accumulates ``none_positions``.

    ``num_places`` is the largest number of choices that may come; all its places are told.
    """

    def __init__(self, num_places: int, *, only_none: bool = False) -> None:
        super().__init__(_rows(num_places))
        self.num_places, self.only_none = num_places, only_none

    def marks(self, prediction: Prediction) -> Iterator[tuple[Row, bool]]:
        """Give the trials of the places. Raises DataError on a question with more choices than announced."""
        if prediction.num_choices > self.num_places:
            raise DataError(
                f"Prediction {prediction.question_id!r} has {prediction.num_choices} choices, but this metric was made for at most "
                f"{self.num_places}. Give it the largest number of choices that is asked."
            )
        if not self.only_none or _offers_none(prediction):
            yield from _marks(prediction)

    def compute(self) -> list[dict[str, Any]]:
        """Return the places as ``Position.to_json`` gives them; none if no question came."""
        counts = self.summed()
        return [position.to_json() for position in _positions(_estimates(counts))] if counts.any() else []
