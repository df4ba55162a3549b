"""Metrics of each class and source against those of the predictions alone, and of the accumulator."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from actdeny_train.metrics.classes import METRICS, ClassAccuracy, accuracy_by_source, denial_by_class
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import Prediction


def test_twelve_predictions_worked_out_on_paper(twelve_scored: list[Prediction]) -> None:
    # Archery: context-only 1 of 4, different-motion 2 of 2, presence 2 of 2; HM 2 * 1/2 * 1 / (1/2 + 1) = 2/3.
    # Fencing: different-motion 0 of 1, presence 1 of 3.
    found = denial_by_class(twelve_scored)
    assert {action: {name: (e.value, e.n) for name, e in of.items()} for action, of in found.items()} == {
        "Archery": {
            "t1": (1 / 4, 4),
            "t2": (1.0, 2),
            "overall_ad": (1 / 2, 6),
            "ap": (1.0, 2),
            "hm": (pytest.approx(2 / 3), 8),
        },
        "Fencing": {"t1": (None, 0), "t2": (0.0, 1), "overall_ad": (0.0, 1), "ap": (1 / 3, 3), "hm": (0.0, 4)},
    }
    assert found["Fencing"]["t1"].reason == "no context-only clips"
    # Source a: right 0, 4 and 7 of 0, 1, 4, 7. Source b: right 5 and 8 of 2, 3, 5, 8. Source c: right 9 of 6, 9, 10, 11.
    assert accuracy_by_source(twelve_scored) == {
        "a": Estimate(3 / 4, None, None, 4),
        "b": Estimate(2 / 4, None, None, 4),
        "c": Estimate(1 / 4, None, None, 4),
    }


@given(st.integers(0, 10**6), st.integers(0, 12))
@settings(deadline=None, max_examples=30)
def test_sources_agree_with_scikit_learn(at_random: Callable[..., list[Prediction]], seed: int, n: int) -> None:
    predictions = at_random(seed, n)
    found = accuracy_by_source(predictions)
    assert list(found) == sorted({p.source for p in predictions})
    for source, estimate in found.items():
        inside = [p for p in predictions if p.source == source]
        chosen = [-1 if p.choice is None else p.choice for p in inside]
        assert estimate.value == pytest.approx(accuracy_score([p.target for p in inside], chosen))
        assert estimate.n == len(inside)


@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(0, 20), st.booleans())
@settings(deadline=None, max_examples=30)
def test_accumulator_equals_the_pure_function(
    at_random: Callable[..., list[Prediction]], seed: int, n: int, cut: int, unknown: bool
) -> None:
    predictions = at_random(seed, n, unknown=unknown)
    metric = ClassAccuracy(["Action2", "Action1", "Action0", "Never"])
    metric.update(predictions[:cut])
    metric.update(predictions[cut:])
    expected = {
        action: {name: estimate.to_json() for name, estimate in of.items()}
        for action, of in denial_by_class(predictions).items()
    }
    assert metric.compute() == expected
    assert all(tuple(of) == METRICS for of in expected.values())
