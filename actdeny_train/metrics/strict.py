"""Strict parsing beside the lenient one: only a response that is an answer and nothing else counts as an answer."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actdeny_train.metrics.accumulators import CountAccumulator
from actdeny_train.metrics.bootstrap import NUM_DRAWS, add_intervals
from actdeny_train.metrics.counts import Counts, Rates, count_by_source, divide
from actdeny_train.metrics.denial import ROWS as DENIAL_ROWS
from actdeny_train.metrics.denial import denial_marks, denial_rates, estimates_of_counts
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import ParseStatus, Prediction

NAMES = ("bare", "t1", "t2", "overall_ad", "ap", "hm")
ROWS = (*DENIAL_ROWS, "bare")
NOTHING = "no prediction has a response of which it is known whether it is an answer and nothing else"


def strict_denial(
    predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> dict[str, Estimate]:
    """Return ``bare``, ``t1``, ``t2``, ``overall_ad``, ``ap`` and ``hm`` under strict parsing, with intervals over resampled sources.

    ``bare``: share of the responses that are an answer and nothing else (``Prediction.bare``). Any other response counts as none:
    not right, and in n. Predictions without a response are left out. Raises DataError on a prediction whose kind is no kind of clip.
    """
    counts = count_by_source([p for p in predictions if p.bare is not None], ROWS, _marks)
    return add_intervals(_estimates(counts.sum(axis=0)), counts, _statistic, num_draws=num_draws, seed=seed)


def _marks(prediction: Prediction) -> Iterator[tuple[str, bool]]:
    if prediction.bare is None:
        return
    yield "bare", prediction.bare
    read = prediction
    if not prediction.bare:
        read = dataclasses.replace(prediction, choice=None, status=ParseStatus.UNPARSED)
    yield from denial_marks(read)


def _statistic(counts: Counts) -> Mapping[str, Rates]:
    rates = {**denial_rates(counts[..., :-1, :]), "bare": divide(counts[..., -1, :])}
    return {name: rates[name] for name in NAMES}


def _estimates(counts: Counts) -> dict[str, Estimate]:
    trials = int(counts[-1, 1])
    if not trials:
        return {name: Estimate(None, None, None, 0, NOTHING) for name in NAMES}
    found = {**estimates_of_counts(counts[:-1]), "bare": Estimate(float(divide(counts[-1])), None, None, trials)}
    return {name: found[name] for name in NAMES}


class StrictDenial(CountAccumulator[str]):
    """Accumulate ``strict_denial`` over batches and processes."""

    def __init__(self) -> None:
        super().__init__(ROWS)

    def marks(self, prediction: Prediction) -> Iterator[tuple[str, bool]]:
        """Give one trial for each of ``ROWS`` that the prediction counts in. Raises DataError as ``strict_denial`` does."""
        return _marks(prediction)

    def compute(self) -> dict[str, Any]:
        """Return the metrics as ``Estimate.to_json`` gives them."""
        return {name: estimate.to_json() for name, estimate in _estimates(self.summed()).items()}
