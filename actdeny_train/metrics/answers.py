"""What is answered on denial and on presence clips: an action, which one, the none choice, or nothing that is a choice."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from actdeny_train.metrics.accumulators import CountAccumulator
from actdeny_train.metrics.bootstrap import NUM_DRAWS, add_intervals
from actdeny_train.metrics.counts import Counts, Rates, count_by_source, ratio
from actdeny_train.metrics.denial import STATUSES, clip_kind
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import ParseStatus, Prediction

CHOICES = ("target_action", "primary_distractor", "other_action", "none")
"""What a choice can be. The target action is the right answer on presence clips; denial clips have none."""

ANSWERS = (*CHOICES, *STATUSES)
SIDES = ("denial", "presence")

_OFFERED = "none choice offered"
_ROWS = [(side, row) for side in SIDES for row in (*ANSWERS, _OFFERED)]


def answers_by_side(
    predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> dict[str, dict[str, Estimate]]:
    """Return, for "denial" and "presence" clips, the share of each of ``ANSWERS`` among all questions of that side.

    The shares of a side sum to 1. Those of ``CHOICES`` are undefined on a side where no question offers a none choice, such as
    that of yes/no questions. Intervals are over resampled sources. Raises DataError on a prediction whose kind is no kind of
    clip.
    """
    counts = count_by_source(predictions, _ROWS, _marks)
    flat = {
        f"{side} {name}": e for side, shares in _estimates(counts.sum(axis=0)).items() for name, e in shares.items()
    }
    added = add_intervals(flat, counts, _statistic, num_draws=num_draws, seed=seed)
    return {side: {name: added[f"{side} {name}"] for name in ANSWERS} for side in SIDES}


def answer_of(prediction: Prediction) -> str:
    """Return which of ``ANSWERS`` a prediction is."""
    if prediction.status is not ParseStatus.OK:
        return prediction.status.value
    if prediction.choice == prediction.none_choice:
        return "none"
    if prediction.choice == prediction.primary_distractor:
        return "primary_distractor"
    return "target_action" if prediction.is_right else "other_action"


def _marks(prediction: Prediction) -> Iterator[tuple[tuple[str, str], bool]]:
    side = "denial" if clip_kind(prediction).is_denial else "presence"
    yield (side, answer_of(prediction)), True
    if prediction.none_choice is not None:
        yield (side, _OFFERED), True


def _shares(counts: Counts) -> Rates:
    """Return the shares (..., sides, answers) of counts (..., R, 2)."""
    answered = _by_side(counts)[..., : len(ANSWERS)]
    return ratio(answered, np.broadcast_to(answered.sum(axis=-1, keepdims=True), answered.shape))


def _by_side(counts: Counts) -> Counts:
    return counts[..., 1].reshape(*counts.shape[:-2], len(SIDES), len(ANSWERS) + 1)


def _statistic(counts: Counts) -> dict[str, Rates]:
    shares = _shares(counts)
    return {f"{side} {name}": shares[..., s, a] for s, side in enumerate(SIDES) for a, name in enumerate(ANSWERS)}


def _estimates(counts: Counts) -> dict[str, dict[str, Estimate]]:
    shares, by_side = _shares(counts), _by_side(counts)
    found = {}
    for s, side in enumerate(SIDES):
        n, offered = int(by_side[s, :-1].sum()), int(by_side[s, -1])
        reasons = {
            name: f"no {side} clips" if not n else "no none choice" if name in CHOICES and not offered else ""
            for name in ANSWERS
        }
        found[side] = {
            name: Estimate(None, None, None, n, reasons[name])
            if reasons[name]
            else Estimate(float(shares[s, a]), None, None, n)
            for a, name in enumerate(ANSWERS)
        }
    return found


class AnswersBySide(CountAccumulator[tuple[str, str]]):
    """Accumulate ``answers_by_side`` over batches and processes."""

    def __init__(self) -> None:
        super().__init__(_ROWS)

    def marks(self, prediction: Prediction) -> Iterator[tuple[tuple[str, str], bool]]:
        """Give one trial of the side and answer."""
        return _marks(prediction)

    def compute(self) -> dict[str, Any]:
        """Return the shares by side and answer, as ``Estimate.to_json`` gives them."""
        shares = _estimates(self.summed())
        return {side: {name: estimate.to_json() for name, estimate in shares[side].items()} for side in SIDES}
