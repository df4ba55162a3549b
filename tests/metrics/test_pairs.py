"""Pair accuracy against values worked out on paper, enumeration of pairs and of resamples."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.errors import DataError
from actdeny_train.metrics.bootstrap import ONE_SOURCE
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.metrics.pairs import PairAccuracy, pair_accuracy
from actdeny_train.types import Prediction

Predict = Callable[..., Prediction]


def test_twelve_predictions_worked_out_on_paper(twelve_scored: list[Prediction]) -> None:
    # Archery (sources a, b): denial 3 of 6, presence 2 of 2. Fencing (source c): denial 0 of 1, presence 1 of 3.
    found = pair_accuracy(twelve_scored)
    assert (found.value, found.n) == (pytest.approx((3 / 6 * 2 / 2 + 0) / 2), 2)


def brute(predictions: list[Prediction]) -> float | None:
    shares = []
    for action in {p.action for p in predictions}:
        presence = [p for p in predictions if p.action == action and p.kind == "presence"]
        denial = [p for p in predictions if p.action == action and p.kind != "presence"]
        pairs = [a.is_right and b.is_right for a, b in itertools.product(presence, denial)]
        if pairs:
            shares.append(sum(pairs) / len(pairs))
    return sum(shares) / len(shares) if shares else None


@given(st.integers(0, 10**6), st.integers(0, 15), st.booleans())
@settings(deadline=None, max_examples=40)
def test_every_pair_of_clips(
    at_random: Callable[..., list[Prediction]],
    without_intervals: Callable[[Any], Any],
    seed: int,
    n: int,
    unknown: bool,
) -> None:
    predictions = [p for p in at_random(seed, n, unknown=unknown) if p.setup == "standard"]
    expected = brute(predictions)
    assert pair_accuracy(predictions, num_draws=5).value == (None if expected is None else pytest.approx(expected))
    metric = PairAccuracy(["Action0", "Action1", "Action2", "Action3"])
    metric.update(predictions[:4])
    metric.update(predictions[4:])
    assert metric.compute() == without_intervals(pair_accuracy(predictions, num_draws=5).to_json())


def test_interval_equals_enumeration(predict: Predict) -> None:
    # Three sources of two classes; products are taken per draw, of the classes that the draw has both sides of.
    rows = [("a", "X", "110", "10"), ("b", "X", "100", "111"), ("c", "Y", "10", "110")]
    sources = {
        source: [
            predict(kind, target if right == "1" else 1, source=source, action=action)
            for kind, target, marks in (("presence", 0, presence), ("context_only", 3, denial))
            for right in marks
        ]
        for source, action, presence, denial in rows
    }
    exact = [
        value
        for drawn in itertools.product(sources.values(), repeat=3)
        if (value := brute([p for source in drawn for p in source])) is not None
    ]
    found = pair_accuracy([p for source in sources.values() for p in source], num_draws=20_000)
    assert found.low is not None and found.high is not None
    for bound, level in ((found.low, 0.025), (found.high, 0.975)):
        assert np.quantile(exact, level - 0.01) - 1e-12 <= bound <= np.quantile(exact, level + 0.01) + 1e-12


@pytest.mark.parametrize("always", [0, 3])
def test_always_denying_and_never_denying_give_zero(predict: Predict, always: int) -> None:
    assert pair_accuracy([predict("presence", always), predict("denial", always)]).value == 0.0


def test_undefined_is_none_with_a_reason(predict: Predict) -> None:
    presence, denial = predict("presence", 0), predict("denial", 3)
    assert pair_accuracy([]) == Estimate(None, None, None, 0, "no denial clips and no presence clips")
    assert pair_accuracy([denial]).reason == "no presence clips"
    assert pair_accuracy([presence]).reason == "no denial clips"
    apart = [presence, predict("denial", 3, action="Fencing")]
    assert pair_accuracy(apart).reason == "no class has both presence and denial clips"
    assert pair_accuracy([presence, denial]) == Estimate(1.0, None, None, 1, ONE_SOURCE)


def test_classes_that_were_not_announced_are_refused(predict: Predict) -> None:
    with pytest.raises(DataError) as error:
        PairAccuracy(["Archery", "Fencing"]).update([predict("presence", 0, action="Archer")])
    assert str(error.value) == (
        "Prediction 'q' is about action 'Archer', which is none of the 2 that this metric was made for. Did you mean 'Archery'? Give "
        "it the actions of the whole label set."
    )
