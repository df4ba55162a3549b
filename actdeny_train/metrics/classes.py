"""Denial metrics of each class, and accuracy of each source, without intervals: where a score comes from."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from actdeny_train.errors import DataError, near_misses
from actdeny_train.metrics.accumulators import CountAccumulator
from actdeny_train.metrics.counts import count_by_source, sources_of
from actdeny_train.metrics.denial import ROWS, denial_accuracy, denial_marks, estimates_of_counts
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import Prediction

METRICS = ("t1", "t2", "overall_ad", "ap", "hm")
"""Names of the metrics of a class, as in ``metrics.denial``."""


def denial_by_class(predictions: Iterable[Prediction]) -> dict[str, dict[str, Estimate]]:
    """Return the metrics of each action, actions in alphabetical order. Raises DataError as ``denial_accuracy`` does."""
    classes = defaultdict(list)
    for prediction in predictions:
        classes[prediction.action].append(prediction)
    return {action: _of_class(denial_accuracy(classes[action])) for action in sorted(classes)}


def accuracy_by_source(predictions: Sequence[Prediction]) -> dict[str, Estimate]:
    """Return the share of right predictions of each source, sources in alphabetical order."""
    counts = count_by_source(predictions, ("right",), lambda p: [("right", p.is_right)])[:, 0]
    return {
        source: Estimate(hits / trials, None, None, trials)
        for source, (hits, trials) in zip(sources_of(predictions), counts.tolist(), strict=True)
    }


def check_class(prediction: Prediction, actions: Sequence[str]) -> None:
    """Raise DataError if the prediction's action is not among those that an accumulator was made for."""
    if prediction.action not in actions:
        raise DataError(
            f"Prediction {prediction.question_id!r} is about action {prediction.action!r}, which is none of the {len(actions)} that this "
            f"metric was made for.{near_misses(prediction.action, actions)} Give it the actions of the whole label set."
        )


def _of_class(estimates: dict[str, Estimate]) -> dict[str, Estimate]:
    return {name: estimates[name] for name in METRICS}


class ClassAccuracy(CountAccumulator[tuple[str, str]]):
    """Accumulate ``denial_by_class`` over batches and processes. ``actions`` are all classes that may come."""

    def __init__(self, actions: Sequence[str]) -> None:
        self.actions = tuple(sorted(actions))
        super().__init__([(action, row) for action in self.actions for row in ROWS])

    def marks(self, prediction: Prediction) -> Iterator[tuple[tuple[str, str], bool]]:
        """Give the trials of ``denial_marks`` in the prediction's class. Raises DataError on a class that was not announced."""
        check_class(prediction, self.actions)
        for row, hit in denial_marks(prediction):
            yield (prediction.action, row), hit

    def compute(self) -> dict[str, Any]:
        """Return the metrics, as ``Estimate.to_json`` gives them, of each action that came."""
        counts = self.summed().reshape(len(self.actions), len(ROWS), 2)
        found = {}
        for action, of_rows in zip(self.actions, counts, strict=True):
            if of_rows[:, 1].any():
                estimates = _of_class(estimates_of_counts(of_rows))
                found[action] = {name: estimate.to_json() for name, estimate in estimates.items()}
        return found
