"""Responses beside log-probabilities, against values worked out on paper and brute force."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.metrics.agreement import Agreement, agreement
from actdeny_train.types import ParseStatus, Prediction


def test_twelve_predictions_worked_out_on_paper(twelve_scored: list[Prediction]) -> None:
    # Eleven have a response; that of prediction 3 could not be parsed, the others name the likeliest choice.
    # The likeliest choice is right in 0, 3, 4, 5 on denial clips and in 7, 8, 9 on presence clips.
    found = agreement(twelve_scored)
    assert {name: (e.value, e.n) for name, e in found.items()} == {
        "agreement": (10 / 11, 11),
        "score_accuracy": (7 / 12, 12),
    }
    assert found["agreement"].low is not None


def test_undefined_is_none_with_a_reason(twelve: list[Prediction], twelve_scored: list[Prediction]) -> None:
    assert {name: (e.value, e.n, e.reason) for name, e in agreement(twelve).items()} == {
        "agreement": (None, 0, "no prediction has both a response and log-probabilities"),
        "score_accuracy": (None, 0, "no prediction has log-probabilities"),
    }
    scores_alone = agreement(twelve_scored[11:])
    assert scores_alone["agreement"].value is None and scores_alone["score_accuracy"].value == 0.0


def test_of_equally_likely_choices_the_first_counts(predict: Callable[..., Prediction]) -> None:
    tied = (-1.0, -2.0, -3.0, -1.0)
    found = agreement([predict("presence", 3, logprobs=tied, text="4"), predict("denial", 3, logprobs=tied, text="4")])
    assert (found["agreement"].value, found["score_accuracy"].value) == (0.0, 0.5)


@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(0, 20))
@settings(deadline=None, max_examples=30)
def test_brute_force_and_accumulator(
    at_random: Callable[..., list[Prediction]], without_intervals: Callable[[Any], Any], seed: int, n: int, cut: int
) -> None:
    predictions = at_random(seed, n)
    found = agreement(predictions, num_draws=5)
    scored = [p for p in predictions if p.logprobs]
    both = [p for p in scored if p.text]
    named = [p.status is ParseStatus.OK and p.logprobs[p.choice or 0] == max(p.logprobs) for p in both]
    right = [p.logprobs.index(max(p.logprobs)) == p.target for p in scored]
    for name, marks in (("agreement", named), ("score_accuracy", right)):
        assert found[name].value == (pytest.approx(sum(marks) / len(marks)) if marks else None)
        assert found[name].n == len(marks)
    metric = Agreement()
    metric.update(predictions[:cut])
    metric.update(predictions[cut:])
    assert metric.compute() == without_intervals({name: e.to_json() for name, e in found.items()})
