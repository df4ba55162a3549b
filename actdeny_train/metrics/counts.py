"""Hits and trials: the integers that every rate is made of, per source so that sources can be resampled.

Shapes: C sources, R rows (what is counted), D draws; the last axis is always (hits, trials).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from actdeny_train.types import ParseStatus, Prediction

Counts = npt.NDArray[np.int64]
Rates = npt.NDArray[np.float64]
Row = TypeVar("Row", bound=Hashable)


def count_by_source(
    predictions: Sequence[Prediction],
    rows: Sequence[Row],
    marks: Callable[[Prediction], Iterable[tuple[Row, bool]]],
) -> Counts:
    """Return counts (C, R, 2), sources in alphabetical order.

    ``marks`` gives (row, hit) for each row in which a prediction is a trial.
    """
    return count_marks(
        ((p.source, row, hit) for p in predictions for row, hit in marks(p)), sources_of(predictions), rows
    )


def count_marks(marks: Iterable[tuple[str, Row, bool]], sources: Sequence[str], rows: Sequence[Row]) -> Counts:
    """Return counts (C, R, 2) of (source, row, hit) marks, in the order of ``sources`` and ``rows``."""
    clusters = {source: c for c, source in enumerate(sources)}
    places = {row: r for r, row in enumerate(rows)}
    flat = np.array(
        [2 * (clusters[source] * len(rows) + places[row]) + bool(hit) for source, row, hit in marks], dtype=np.int64
    )
    misses_and_hits = np.bincount(flat, minlength=2 * len(sources) * len(rows)).reshape(len(sources), len(rows), 2)
    hits = misses_and_hits[..., 1]
    return np.stack([hits, misses_and_hits.sum(axis=-1)], axis=-1).astype(np.int64)


def sources_of(predictions: Iterable[Prediction]) -> list[str]:
    """Return the sources in the order of counts: alphabetical."""
    return sorted({p.source for p in predictions})


def divide(counts: Counts) -> Rates:
    """Return hits / trials of counts (..., 2); NaN where there is no trial. NaN stays inside: estimates hold None instead."""
    return ratio(counts[..., 0], counts[..., 1])


def ratio(part: Counts | Rates, whole: Counts | Rates) -> Rates:
    """Return part / whole of arrays of one shape; NaN where the whole is 0."""
    return np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)


def count_statuses(predictions: Iterable[Prediction]) -> dict[str, int]:
    """Return how many predictions carry no choice, by status. All of them count as not right and stay in n."""
    counted = Counter(p.status for p in predictions)
    return {status.value: counted[status] for status in ParseStatus if status is not ParseStatus.OK}
