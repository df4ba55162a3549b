"""Areas under curves and calibration errors of weighted items, for the values themselves and for all draws of a bootstrap.

Shapes: N items, C clusters, D draws, B bins. ``clusters`` (N,) gives each item's cluster, ``weights`` (D, C) how often each
cluster counts in each draw. Nothing depends on the order of items, ties included. Undefined is NaN.
"""

import numpy as np
import numpy.typing as npt

from actdeny_train.metrics.counts import Rates, ratio

NUM_BINS = 15
"""Bins of equal width over [0, 1]; the last one contains 1."""

Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def auroc(scores: Rates, positive: Flags, clusters: Indices, weights: Rates) -> Rates:
    """Return (D,) the chance that a positive item scores higher than a negative one, ties counting one half."""
    order, starts = _group(scores)
    heavy = weights[:, clusters[order]]
    of_positives = _sum_runs(heavy * positive[order], starts)
    of_negatives = _sum_runs(heavy * ~positive[order], starts)
    below = np.cumsum(of_negatives, axis=1) - of_negatives
    wins = (of_positives * (below + of_negatives / 2)).sum(axis=1)
    return ratio(wins, of_positives.sum(axis=1) * of_negatives.sum(axis=1))


def aurc(confidence: Rates, right: Flags, clusters: Indices, weights: Rates) -> Rates:
    """Return (D,) the area under risk over coverage: 0 is best, the error rate is what a constant confidence gives.

    Risk at coverage x is the error rate of the share x of items with the highest confidence; within a tie, errors are spread
    evenly. The area is the integral over x in (0, 1], the limit for many copies of the items of the mean over the n coverages
    1/n ... 1 (Geifman et al., arXiv 1805.08206), which it equals to about 1/n. So copies of items change nothing, and
    resamples, which have copies, are not shifted against the value.
    """
    order, starts = _group(-confidence)
    heavy = weights[:, clusters[order]]
    size = _sum_runs(heavy, starts)
    errors = _sum_runs(heavy * ~right[order], starts)
    end, total = np.cumsum(size, axis=1), np.cumsum(errors, axis=1)
    start = end - size
    # The integral of (E + errors (x - start) / size) / x over a tie from start to end, E errors before it.
    offset = (total - errors) - errors * np.divide(start, size, out=np.zeros_like(size), where=size > 0)
    growth = np.log(np.divide(end, start, out=np.ones_like(end), where=start > 0))
    return ratio((errors + offset * growth).sum(axis=1), end[:, -1])


def risk_at(confidence: Rates, right: Flags, coverages: Rates) -> Rates:
    """Return the risk, as ``aurc`` defines it, at each of ``coverages`` in (0, 1]."""
    order, starts = _group(-confidence)
    ends = np.append(starts, len(order))
    errors = np.append(0, np.cumsum(~right[order]))
    items = coverages * len(order)
    return np.interp(items, ends, errors[ends]) / items


def bin_sums(probabilities: Rates, true: Flags, clusters: Indices, num_clusters: int) -> Rates:
    """Return (C, B, 3): number of items, sum of probabilities and number of true items in each bin of probability."""
    places = clusters * NUM_BINS + np.minimum((probabilities * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    columns = (None, probabilities, true.astype(np.float64))
    sums = [np.bincount(places, weights=column, minlength=num_clusters * NUM_BINS) for column in columns]
    return np.stack(sums, axis=-1).astype(np.float64).reshape(num_clusters, NUM_BINS, 3)


def calibration_error(sums: Rates) -> Rates:
    """Return (...) the expected calibration error of sums (..., B, 3): the mean over items of |share true - mean probability|."""
    differences = np.abs(sums[..., 2] - sums[..., 1]).sum(axis=-1)
    return ratio(differences, sums[..., 0].sum(axis=-1))


def _group(keys: Rates) -> tuple[Indices, Indices]:
    """Return the order of rising keys, and where in it each run of equal keys starts."""
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    return order, starts


def _sum_runs(values: Rates, starts: Indices) -> Rates:
    """Return the sums (D, runs) of values (D, N) over runs that start at ``starts``."""
    if len(starts) == values.shape[1]:
        return values
    return np.add.reduceat(values, starts, axis=1)
