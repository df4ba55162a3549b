"""Intervals that respect sources: clips cut from one long video are alike, so whole sources are resampled, not clips."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from actdeny_train.draw import Draw
from actdeny_train.metrics.counts import Counts, Rates
from actdeny_train.metrics.estimates import Estimate

LEVEL = 0.95
NUM_DRAWS = 2000
ONE_SOURCE = "no interval: it needs clips from at least 2 sources"

Statistic = Callable[[Counts], Mapping[str, Rates]]
"""Maps counts (..., R, 2) to named values (...), NaN where undefined."""


def resample(num_clusters: int, num_draws: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield ``num_draws`` arrays of ``num_clusters`` indices in [0, num_clusters), drawn with replacement.

    They depend on the arguments alone, on every machine and NumPy: the raw words of a bit generator are stable across
    releases, the integers that ``numpy.random.Generator`` makes of them are not.
    """
    words = np.random.PCG64(Draw("cluster bootstrap", seed).integer(1 << 64))
    for _ in range(num_draws):
        uniform = (words.random_raw(num_clusters) >> np.uint64(11)) * 2.0**-53
        yield (uniform * num_clusters).astype(np.int64)


def cluster_bootstrap(
    clusters: Counts, statistic: Statistic, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> dict[str, tuple[float, float] | None]:
    """Return the percentile 95 % interval of each value of ``statistic`` over resampled clusters.

    ``clusters`` (C, R, 2) are the counts of each cluster; all rows of a cluster are drawn together, and the statistic is
    taken of the summed counts of a draw (so a harmonic mean is computed per draw). A value that rests on fewer than two
    clusters (it is undefined without one of them) has no interval: None. Draws that leave a value undefined are left out
    of its percentiles. Values of 0 or 1 have an interval of width 0: the percentile bootstrap cannot see beyond its data.
    """
    left_out = statistic(clusters.sum(axis=0) - clusters)
    sums = np.stack([clusters[indices].sum(axis=0) for indices in resample(len(clusters), num_draws, seed)])
    tail = (1 - LEVEL) / 2
    intervals: dict[str, tuple[float, float] | None] = {}
    for name, values in statistic(sums).items():
        if len(clusters) == 0 or np.isnan(left_out[name]).any():
            intervals[name] = None
        else:
            low, high = np.nanquantile(values, (tail, 1 - tail))
            intervals[name] = (float(low), float(high))
    return intervals


def add_intervals(
    estimates: Mapping[str, Estimate], clusters: Counts, statistic: Statistic, *, num_draws: int, seed: int
) -> dict[str, Estimate]:
    """Return ``estimates`` with the intervals of ``cluster_bootstrap``, or with the reason why there is none."""
    intervals = cluster_bootstrap(clusters, statistic, num_draws=num_draws, seed=seed)
    added = {}
    for name, estimate in estimates.items():
        interval = intervals[name]
        if estimate.value is None:
            added[name] = estimate
        elif interval is None:
            added[name] = dataclasses.replace(estimate, reason=ONE_SOURCE)
        else:
            added[name] = dataclasses.replace(estimate, low=interval[0], high=interval[1])
    return added
