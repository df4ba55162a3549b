"""Areas and calibration errors against scikit-learn, torchmetrics, numerical integration and copies of items."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torchmetrics.functional.classification import binary_calibration_error

from actdeny_train.metrics.areas import NUM_BINS, aurc, auroc, bin_sums, calibration_error, risk_at
from actdeny_train.metrics.counts import Rates

ITEMS = st.lists(
    st.tuples(st.integers(0, 5).map(lambda i: i / 5), st.booleans(), st.integers(0, 3)), min_size=1, max_size=25
)
WEIGHTS = st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=3)

Items = list[tuple[float, bool, int]]


def columns(items: Items) -> tuple[Rates, np.ndarray, np.ndarray]:
    scores, flags, clusters = zip(*items, strict=True)
    return np.array(scores), np.array(flags), np.array(clusters)


def copies(items: Items, weights: list[int]) -> Items:
    """Return each item as often as its cluster counts."""
    return [item for item in items for _ in range(weights[item[2]])]


@given(ITEMS, WEIGHTS)
@settings(deadline=None)
def test_auroc_is_that_of_scikit_learn_on_copies(items: Items, weights: list[list[int]]) -> None:
    found = auroc(*columns(items), np.array(weights, dtype=float))
    for value, drawn in zip(found, weights, strict=True):
        resampled = copies(items, drawn)
        if len({positive for _, positive, _ in resampled}) == 2:
            scores, positive, _ = columns(resampled)
            assert value == pytest.approx(roc_auc_score(positive, scores))
        else:
            assert np.isnan(value)


def brute_aurc(items: Items) -> float:
    """Integrate the risk, errors of a tie spread evenly, by the midpoint rule on a fine grid."""
    confidence, right, _ = columns(items)
    grid = (np.arange(200_000) + 0.5) / 200_000 * len(items)
    errors = np.zeros_like(grid)
    for level in set(confidence.tolist()):
        above, tied = (confidence > level).sum(), confidence == level
        share = np.clip((grid - above) / tied.sum(), 0, 1)
        errors += share * (~right[tied]).sum()
    return float((errors / grid).mean())


@given(ITEMS, WEIGHTS)
@settings(deadline=None, max_examples=30)
def test_aurc_is_the_integral_of_risk_over_copies(items: Items, weights: list[list[int]]) -> None:
    found = aurc(*columns(items), np.array(weights, dtype=float))
    for value, drawn in zip(found, weights, strict=True):
        resampled = copies(items, drawn)
        if resampled:
            assert value == pytest.approx(brute_aurc(resampled), abs=1e-4)
        else:
            assert np.isnan(value)


def mean_of_risks(confidence: Rates, right: np.ndarray) -> float:
    """Return the usual AURC: the mean of the risks at coverages 1/n ... 1, without ties."""
    wrong = ~right[np.argsort(-confidence)]
    return float((np.cumsum(wrong) / np.arange(1, len(wrong) + 1)).mean())


def test_aurc_is_close_to_the_mean_of_risks() -> None:
    draw = np.random.default_rng(0)
    confidence = draw.random(4000)
    right = draw.random(4000) < confidence
    found = aurc(confidence, right, np.zeros(4000, dtype=np.int64), np.ones((1, 1)))[0]
    assert found == pytest.approx(mean_of_risks(confidence, right), abs=1 / 4000)


def test_aurc_of_constant_confidence_is_the_error_rate_and_of_perfect_order_below() -> None:
    zeros, one = np.zeros(4, dtype=np.int64), np.ones((1, 1))
    right = np.array([True, False, True, False])
    assert aurc(np.full(4, 0.3), right, zeros, one)[0] == pytest.approx(0.5)
    # Right ones first: the integral of (x - 1/2) / x from 1/2 to 1.
    assert aurc(right.astype(float), right, zeros, one)[0] == pytest.approx(0.5 - 0.5 * np.log(2))


@given(ITEMS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_changes_nothing_at_all(items: Items, random: object) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    weights = np.array([[1.0, 2.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    for area in (auroc, aurc):
        np.testing.assert_array_equal(area(*columns(items), weights), area(*columns(shuffled), weights))


def test_risk_worked_out_on_paper() -> None:
    # Surest first: right; wrong and right tied; wrong. Half of the tie's error stands at its middle.
    confidence, right = np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, False, True, False])
    found = risk_at(confidence, right, np.array([0.25, 0.5, 0.75, 1.0]))
    assert found == pytest.approx([0, 0.5 / 2, 1 / 3, 2 / 4])


@given(st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans(), st.integers(0, 2)), min_size=1, max_size=60))
@settings(deadline=None)
def test_calibration_error_is_that_of_torchmetrics(items: Items) -> None:
    # Neighbours of a border may fall to either side of it there.
    items = [item for item in items if abs(item[0] * NUM_BINS - round(item[0] * NUM_BINS)) > 1e-4]
    if not items:
        return
    p, true, clusters = columns(items)
    sums = bin_sums(p, true, clusters, 3)
    assert sums[..., 0].sum(axis=1).tolist() == [int((clusters == c).sum()) for c in range(3)]
    reference = binary_calibration_error(torch.tensor(p), torch.tensor(true).int(), n_bins=NUM_BINS, norm="l1")
    assert calibration_error(sums.sum(axis=0)) == pytest.approx(float(reference), abs=1e-6)


def test_the_last_bin_contains_one() -> None:
    sums = bin_sums(np.array([0.0, 1.0]), np.array([False, True]), np.zeros(2, dtype=np.int64), 1)[0]
    assert sums[0].tolist() == [1, 0, 0] and sums[NUM_BINS - 1].tolist() == [1, 1, 1]
    assert np.isnan(calibration_error(np.zeros((NUM_BINS, 3))))
