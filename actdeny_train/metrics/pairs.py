"""Pair accuracy: of a class, are a presence clip and a denial clip both right? Always denying gives 0, never denying too."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from actdeny_train.metrics.accumulators import CountAccumulator
from actdeny_train.metrics.bootstrap import NUM_DRAWS, add_intervals
from actdeny_train.metrics.classes import check_class
from actdeny_train.metrics.counts import Counts, Rates, count_by_source, divide
from actdeny_train.metrics.denial import clip_kind
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import Prediction

SIDES = ("presence", "denial")


def pair_accuracy(predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> Estimate:
    """Return the chance that a random presence clip and a random denial clip of a class are both right, mean over classes.

    Of a class it is the product of its two accuracies. ``n`` counts the classes, those with presence and denial clips. The
    interval is over resampled sources, the products are taken per draw; a class that a draw leaves without presence or
    without denial clips is left out of that draw's mean. Raises DataError on a prediction whose kind is no kind of clip.
    """
    actions = sorted({p.action for p in predictions})
    counts = count_by_source(predictions, _rows(actions), _marks)
    estimates = {"pair": _estimate(counts.sum(axis=0))}
    return add_intervals(estimates, counts, _statistic, num_draws=num_draws, seed=seed)["pair"]


def _rows(actions: Sequence[str]) -> list[tuple[str, str]]:
    return [(action, side) for action in actions for side in SIDES]


def _marks(prediction: Prediction) -> Iterator[tuple[tuple[str, str], bool]]:
    side = "denial" if clip_kind(prediction).is_denial else "presence"
    yield (prediction.action, side), prediction.is_right


def _statistic(counts: Counts) -> dict[str, Rates]:
    """Return the mean over classes of counts (..., 2 classes, 2), NaN where no class has both sides."""
    rates = divide(counts)
    products = rates[..., 0::2] * rates[..., 1::2]
    defined = ~np.isnan(products)
    num_classes = defined.sum(axis=-1)
    total = np.where(defined, products, 0.0).sum(axis=-1)
    return {"pair": np.divide(total, num_classes, out=np.full(total.shape, np.nan), where=num_classes > 0)}


def _estimate(counts: Counts) -> Estimate:
    trials = counts[:, 1]
    presence, denial = trials[0::2], trials[1::2]
    num_classes = int(((presence > 0) & (denial > 0)).sum())
    if num_classes:
        return Estimate(float(_statistic(counts)["pair"]), None, None, num_classes)
    missing = [f"no {side} clips" for side, n in (("denial", denial), ("presence", presence)) if not n.any()]
    return Estimate(None, None, None, 0, " and ".join(missing) or "no class has both presence and denial clips")


class PairAccuracy(CountAccumulator[tuple[str, str]]):
    """Accumulate ``pair_accuracy`` over batches and processes. ``actions`` are all classes that may come."""

    def __init__(self, actions: Sequence[str]) -> None:
        self.actions = tuple(sorted(actions))
        super().__init__(_rows(self.actions))

    def marks(self, prediction: Prediction) -> Iterator[tuple[tuple[str, str], bool]]:
        """Give one trial of the class and side. Raises DataError on a class that was not announced."""
        check_class(prediction, self.actions)
        return _marks(prediction)

    def compute(self) -> dict[str, Any]:
        """Return pair accuracy as ``Estimate.to_json`` gives it."""
        return _estimate(self.summed()).to_json()
