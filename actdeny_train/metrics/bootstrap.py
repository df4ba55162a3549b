"""Intervals that respect sources: clips cut from one long video are alike, so whole sources are resampled, not clips."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from actdeny_train.draw import Draw
from actdeny_train.metrics.counts import Counts, Rates
from actdeny_train.metrics.estimates import Estimate

LEVEL = 0.95
NUM_DRAWS = 2000
ONE_SOURCE = "no interval: it needs clips from at least 2 sources"

ROWS_AT_ONCE = 256
"""Draws that a statistic of weights sees at once: more need memory (draws x predictions x 8 bytes), fewer time."""

Statistic = Callable[[Counts], Mapping[str, Rates]]
"""Maps counts (..., R, 2) to named values (...), NaN where undefined."""

WeightStatistic = Callable[[Rates], Mapping[str, Rates]]
"""Maps weights (D, C), how often each cluster counts in each draw, to named values (D,), NaN where undefined."""

Intervals = dict[str, tuple[float, float] | None]


def resample(num_clusters: int, num_draws: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield ``num_draws`` arrays of ``num_clusters`` indices in [0, num_clusters), drawn with replacement.

    They depend on the arguments alone, on every machine and NumPy: the raw words of a bit generator are stable across
    releases, the integers that ``numpy.random.Generator`` makes of them are not.
    """
    words = np.random.PCG64(Draw("cluster bootstrap", seed).integer(1 << 64))
    for _ in range(num_draws):
        uniform = (words.random_raw(num_clusters) >> np.uint64(11)) * 2.0**-53
        yield (uniform * num_clusters).astype(np.int64)


@functools.lru_cache(maxsize=4)
def draw_weights(num_clusters: int, num_draws: int, seed: int) -> Rates:
    """Return read-only weights (num_draws, num_clusters): how often each cluster is in each draw of ``resample``."""
    weights = np.empty((num_draws, num_clusters))
    for d, indices in enumerate(resample(num_clusters, num_draws, seed)):
        weights[d] = np.bincount(indices, minlength=num_clusters)
    weights.flags.writeable = False
    return weights


def cluster_bootstrap(
    clusters: Counts, statistic: Statistic, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> Intervals:
    """Return the percentile 95 % interval of each value of ``statistic`` over resampled clusters.

    ``clusters`` (C, R, 2) are the counts of each cluster; all rows of a cluster are drawn together, and the statistic is
    taken of the summed counts of a draw (so a harmonic mean is computed per draw). A value that rests on fewer than two
    clusters (it is undefined without one of them) has no interval: None. Draws that leave a value undefined are left out
    of its percentiles. Values of 0 or 1 have an interval of width 0: the percentile bootstrap cannot see beyond its data.
    """
    num_clusters, *shape = clusters.shape
    left_out = statistic(clusters.sum(axis=0) - clusters)
    # Floats hold these integers exactly, and multiply them far faster.
    sums = draw_weights(num_clusters, num_draws, seed) @ clusters.reshape(num_clusters, math.prod(shape)).astype(
        np.float64
    )
    drawn = statistic(sums.astype(np.int64).reshape(num_draws, *shape))
    return _percentiles(num_clusters, left_out, drawn)


def weight_bootstrap(
    num_clusters: int, statistic: WeightStatistic, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> Intervals:
    """Return the intervals of ``cluster_bootstrap`` for a statistic that is no function of summed counts, such as an AUROC."""
    left_out = _in_parts(statistic, np.ones((num_clusters, num_clusters)) - np.eye(num_clusters))
    drawn = _in_parts(statistic, draw_weights(num_clusters, num_draws, seed))
    return _percentiles(num_clusters, left_out, drawn)


def _in_parts(statistic: WeightStatistic, weights: Rates) -> Mapping[str, Rates]:
    parts = [statistic(weights[i : i + ROWS_AT_ONCE]) for i in range(0, max(1, len(weights)), ROWS_AT_ONCE)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _percentiles(num_clusters: int, left_out: Mapping[str, Rates], drawn: Mapping[str, Rates]) -> Intervals:
    tail = (1 - LEVEL) / 2
    intervals: Intervals = {}
    for name, values in drawn.items():
        if num_clusters == 0 or np.isnan(left_out[name]).any():
            intervals[name] = None
        else:
            low, high = np.nanquantile(values, (tail, 1 - tail))
            intervals[name] = (float(low), float(high))
    return intervals


def add_intervals(
    estimates: Mapping[str, Estimate],
    clusters: Counts,
    statistic: Statistic,
    *,
    num_draws: int,
    seed: int,
    missing: str = ONE_SOURCE,
) -> dict[str, Estimate]:
    """Return ``estimates`` with the intervals of ``cluster_bootstrap``, or with the reason ``missing`` where there is none."""
    intervals = cluster_bootstrap(clusters, statistic, num_draws=num_draws, seed=seed)
    return with_intervals(estimates, intervals, missing=missing)


def with_intervals(
    estimates: Mapping[str, Estimate], intervals: Intervals, *, missing: str = ONE_SOURCE
) -> dict[str, Estimate]:
    """Return ``estimates`` with ``intervals``, or with the reason ``missing`` where there is none, after the reason they have."""
    added = {}
    for name, estimate in estimates.items():
        interval = intervals[name]
        if estimate.value is None:
            added[name] = estimate
        elif interval is None:
            reason = "; ".join(filter(None, (estimate.reason, missing)))
            added[name] = dataclasses.replace(estimate, reason=reason)
        else:
            added[name] = dataclasses.replace(estimate, low=interval[0], high=interval[1])
    return added
