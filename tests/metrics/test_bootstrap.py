"""The cluster bootstrap against enumeration of all resamples and against SciPy."""

import itertools

import numpy as np
import pytest
import scipy.stats

from actdeny_train.metrics.bootstrap import (
    ONE_SOURCE,
    ROWS_AT_ONCE,
    cluster_bootstrap,
    draw_weights,
    resample,
    weight_bootstrap,
    with_intervals,
)
from actdeny_train.metrics.counts import Counts, Rates, divide
from actdeny_train.metrics.denial import harmonic_mean
from actdeny_train.metrics.estimates import Estimate

PINNED = [[2, 0, 5, 0, 4, 4], [0, 0, 1, 4, 5, 1], [4, 0, 3, 4, 0, 0]]
"""resample(6, 3, seed=0), from a run of this code with NumPy 2.4: another stream would change published intervals."""


def accuracy(counts: Counts) -> dict[str, Rates]:
    return {"accuracy": divide(counts[..., 0, :])}


def mean_of_two_rows(counts: Counts) -> dict[str, Rates]:
    return {"hm": harmonic_mean(divide(counts[..., 0, :]), divide(counts[..., 1, :]))}


def one_row(hits_and_trials: list[tuple[int, int]]) -> Counts:
    return np.array(hits_and_trials, dtype=np.int64)[:, None, :]


def test_resamples_are_the_same_everywhere() -> None:
    assert [indices.tolist() for indices in resample(6, 3, seed=0)] == PINNED
    assert [indices.tolist() for indices in resample(6, 3, seed=1)] != PINNED


def test_resamples_are_uniform() -> None:
    counts = np.bincount(np.concatenate(list(resample(7, 10_000, seed=3))), minlength=7)
    assert len(counts) == 7
    assert scipy.stats.chisquare(counts).pvalue > 0.001


def test_interval_of_four_clusters_equals_enumeration() -> None:
    clusters = np.array([[[1, 4], [3, 3]], [[2, 3], [1, 4]], [[5, 5], [2, 2]], [[0, 2], [1, 1]]], dtype=np.int64)
    exact = []
    for chosen in itertools.product(range(4), repeat=4):
        (hits_a, n_a), (hits_b, n_b) = clusters[list(chosen)].sum(axis=0).tolist()
        a, b = hits_a / n_a, hits_b / n_b
        exact.append(2 * a * b / (a + b) if a + b else 0.0)
    interval = cluster_bootstrap(clusters, mean_of_two_rows, num_draws=20_000)["hm"]
    # The exact distribution has steps: the sampled quantiles must lie between its neighbouring ones.
    assert interval is not None
    for bound, level in zip(interval, (0.025, 0.975), strict=True):
        assert np.quantile(exact, level - 0.005) <= bound <= np.quantile(exact, level + 0.005)


def test_one_cluster_per_clip_is_the_ordinary_bootstrap() -> None:
    right = np.arange(200) % 10 < 3
    interval = cluster_bootstrap(one_row([(int(r), 1) for r in right]), accuracy, num_draws=10_000)["accuracy"]
    reference = scipy.stats.bootstrap(
        (right.astype(float),), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    assert interval == pytest.approx((reference.low, reference.high), abs=0.011)


def test_alike_clips_of_a_cluster_widen_the_interval() -> None:
    alike = cluster_bootstrap(one_row([(10 * (i % 2), 10) for i in range(40)]), accuracy)["accuracy"]
    apart = cluster_bootstrap(one_row([(i % 2, 1) for i in range(400)]), accuracy)["accuracy"]
    assert alike is not None and apart is not None
    assert (alike[1] - alike[0]) / (apart[1] - apart[0]) == pytest.approx(10**0.5, rel=0.15)


@pytest.mark.parametrize("clusters", [[], [(3, 4)], [(3, 4), (0, 0), (0, 0)]])
def test_fewer_than_two_clusters_have_no_interval(clusters: list[tuple[int, int]]) -> None:
    counts = np.array(clusters, dtype=np.int64).reshape(-1, 1, 2)
    assert cluster_bootstrap(counts, accuracy, num_draws=10) == {"accuracy": None}


def test_draws_that_leave_a_value_undefined_are_left_out() -> None:
    # Two of 40 clusters have trials: in about 13 % of the draws neither is drawn.
    interval = cluster_bootstrap(one_row([(1, 1), (0, 1)] + [(0, 0)] * 38), accuracy)["accuracy"]
    assert interval == (0.0, 1.0)


def test_seed_decides() -> None:
    clusters = one_row([(i % 3, 3) for i in range(50)])
    first, again, other = (cluster_bootstrap(clusters, accuracy, num_draws=30, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_weights_count_the_resamples() -> None:
    weights = draw_weights(6, 3, 0)
    assert weights.tolist() == [[row.count(c) for c in range(6)] for row in PINNED]
    with pytest.raises(ValueError, match="read-only"):
        weights[0, 0] = 1


def test_weights_and_counts_give_the_same_intervals() -> None:
    draw = np.random.default_rng(0)
    trials = draw.integers(0, 6, (30, 2))
    clusters = np.stack([draw.binomial(trials, 0.4), trials], axis=-1)

    def of_weights(weights: Rates) -> dict[str, Rates]:
        assert len(weights) <= ROWS_AT_ONCE
        return mean_of_two_rows(np.einsum("dc,cri->dri", weights, clusters).astype(np.int64))

    expected = cluster_bootstrap(clusters, mean_of_two_rows, num_draws=600, seed=5)
    assert weight_bootstrap(30, of_weights, num_draws=600, seed=5) == expected


def test_reasons_are_kept_beside_the_one_for_no_interval() -> None:
    estimates = {
        "interval": Estimate(0.5, None, None, 4, "2 left out"),
        "none": Estimate(0.5, None, None, 4, "2 left out"),
        "undefined": Estimate(None, None, None, 0, "no clips"),
    }
    assert with_intervals(estimates, {"interval": (0.1, 0.9), "none": None, "undefined": None}) == {
        "interval": Estimate(0.5, 0.1, 0.9, 4, "2 left out"),
        "none": Estimate(0.5, None, None, 4, f"2 left out; {ONE_SOURCE}"),
        "undefined": estimates["undefined"],
    }
