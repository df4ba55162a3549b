"""Responses beside log-probabilities: do they name the same choice, and how accurate are the log-probabilities alone?"""

from collections.abc import Iterator, Sequence
from typing import Any

from actdeny_train.metrics.accumulators import CountAccumulator
from actdeny_train.metrics.bootstrap import NUM_DRAWS, add_intervals
from actdeny_train.metrics.counts import Counts, Rates, count_by_source, divide
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import ParseStatus, Prediction

ROWS = ("agreement", "score_accuracy")
REASONS = {
    "agreement": "no prediction has both a response and log-probabilities",
    "score_accuracy": "no prediction has log-probabilities",
}


def agreement(predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> dict[str, Estimate]:
    """Return ``agreement`` and ``score_accuracy`` with intervals over resampled sources.

    ``agreement``: of the predictions with a response and log-probabilities, the share whose parsed choice is the likeliest one;
    a response without a choice does not agree. ``score_accuracy``: of the predictions with log-probabilities, the share whose
    likeliest choice is right. Of equally likely choices the first one counts, as in an evaluation by scores.
    """
    counts = count_by_source(predictions, ROWS, _marks)
    return add_intervals(_estimates(counts.sum(axis=0)), counts, _statistic, num_draws=num_draws, seed=seed)


def likeliest(prediction: Prediction) -> int:
    """Return the choice with the highest log-probability, the first of equals."""
    return max(range(len(prediction.logprobs)), key=lambda i: prediction.logprobs[i])


def _marks(prediction: Prediction) -> Iterator[tuple[str, bool]]:
    if not prediction.logprobs:
        return
    best = likeliest(prediction)
    yield "score_accuracy", best == prediction.target
    if prediction.text is not None:
        yield "agreement", prediction.status is ParseStatus.OK and prediction.choice == best


def _statistic(counts: Counts) -> dict[str, Rates]:
    return {name: divide(counts[..., r, :]) for r, name in enumerate(ROWS)}


def _estimates(counts: Counts) -> dict[str, Estimate]:
    trials = dict(zip(ROWS, counts[:, 1].tolist(), strict=True))
    return {
        name: Estimate(float(rate), None, None, trials[name])
        if trials[name]
        else Estimate(None, None, None, 0, REASONS[name])
        for name, rate in _statistic(counts).items()
    }


class Agreement(CountAccumulator[str]):
    """Accumulate ``agreement`` over batches and processes."""

    def __init__(self) -> None:
        super().__init__(ROWS)

    def marks(self, prediction: Prediction) -> Iterator[tuple[str, bool]]:
        """Give one trial for each of ``ROWS`` that the prediction has the data for."""
        return _marks(prediction)

    def compute(self) -> dict[str, Any]:
        """Return the metrics as ``Estimate.to_json`` gives them."""
        return {name: estimate.to_json() for name, estimate in _estimates(self.summed()).items()}
