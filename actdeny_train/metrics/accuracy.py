"""Accuracy of setups in which nothing is denied: over all questions, or one estimate per label of a question."""

from collections.abc import Callable, Sequence

from actdeny_train.metrics.bootstrap import NUM_DRAWS, add_intervals
from actdeny_train.metrics.counts import Counts, Rates, count_by_source, divide
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import Prediction


def accuracy(predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> Estimate:
    """Return the share of right predictions with its percentile 95 % interval over resampled sources."""
    everything = accuracy_by(predictions, lambda _: "all", num_draws=num_draws, seed=seed)
    return everything.get("all", Estimate(None, None, None, 0, "no questions"))


def accuracy_by(
    predictions: Sequence[Prediction], label: Callable[[Prediction], str], *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> dict[str, Estimate]:
    """Return the accuracy of the predictions of each label, labels in alphabetical order.

    Intervals are over resampled sources, as in ``metrics.bootstrap``.
    """
    labels = sorted({label(p) for p in predictions})
    counts = count_by_source(predictions, labels, lambda p: [(label(p), p.is_right)])

    def rates(counts: Counts) -> dict[str, Rates]:
        return {name: divide(counts[..., r, :]) for r, name in enumerate(labels)}

    estimates = {
        name: Estimate(float(rate), None, None, int(trials))
        for (name, rate), trials in zip(rates(counts.sum(axis=0)).items(), counts.sum(axis=0)[:, 1], strict=True)
    }
    return add_intervals(estimates, counts, rates, num_draws=num_draws, seed=seed)
