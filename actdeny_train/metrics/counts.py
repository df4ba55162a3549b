"""Hits and trials: the integers that every rate is made of, per source so that sources can be resampled.

Shapes: C sources, R rows (what is counted), D draws; the last axis is always (hits, trials).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from actdeny_train.types import ParseStatus, Prediction

Counts = npt.NDArray[np.int64]
Rates = npt.NDArray[np.float64]
Marks = Iterable[tuple[str, bool]]


def count_by_source(
    predictions: Sequence[Prediction], rows: Sequence[str], marks: Callable[[Prediction], Marks]
) -> Counts:
    """Return counts (C, R, 2), sources in alphabetical order.

    ``marks`` gives (row, hit) for each row in which a prediction is a trial.
    """
    sources = {source: c for c, source in enumerate(sorted({p.source for p in predictions}))}
    places = {row: r for r, row in enumerate(rows)}
    counts = np.zeros((len(sources), len(rows), 2), dtype=np.int64)
    for prediction in predictions:
        for row, hit in marks(prediction):
            counts[sources[prediction.source], places[row]] += (hit, 1)
    return counts


def divide(counts: Counts) -> Rates:
    """Return hits / trials of counts (..., 2); NaN where there is no trial. NaN stays inside: estimates hold None instead."""
    hits, trials = counts[..., 0], counts[..., 1]
    return np.divide(hits, trials, out=np.full(trials.shape, np.nan), where=trials > 0)


def count_statuses(predictions: Iterable[Prediction]) -> dict[str, int]:
    """Return how many predictions carry no choice, by status. All of them count as not right and stay in n."""
    counted = Counter(p.status for p in predictions)
    return {status.value: counted[status] for status in ParseStatus if status is not ParseStatus.OK}
