"""What is answered on each side, against values worked out on paper and laws."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.metrics.answers import ANSWERS, CHOICES, AnswersBySide, answers_by_side
from actdeny_train.metrics.denial import STATUSES, denial_accuracy
from actdeny_train.types import ParseStatus, Prediction


def test_twelve_predictions_worked_out_on_paper(twelve: list[Prediction]) -> None:
    found = answers_by_side(twelve)
    assert {name: e.value for name, e in found["denial"].items() if e.value} == {
        "none": 3 / 7,
        "primary_distractor": 2 / 7,
        "other_action": 1 / 7,
        "unparsed": 1 / 7,
    }
    assert {name: e.value for name, e in found["presence"].items() if e.value} == {
        "target_action": 3 / 5,
        "none": 1 / 5,
        "other_action": 1 / 5,
    }
    assert {e.n for e in found["denial"].values()} == {7} and {e.n for e in found["presence"].values()} == {5}
    none = found["denial"]["none"]
    assert none.low is not None and none.high is not None and none.low < 3 / 7 < none.high


@pytest.mark.parametrize("status", [s for s in ParseStatus if s is not ParseStatus.OK])
def test_each_status_is_an_answer(predict: Callable[..., Prediction], status: ParseStatus) -> None:
    found = answers_by_side([predict("denial", None, status=status), predict("denial", 3)])["denial"]
    assert {name: e.value for name, e in found.items() if e.value} == {status.value: 0.5, "none": 0.5}


def test_without_a_none_choice_the_kinds_of_choice_are_undefined(twelve_yes_no: list[Prediction]) -> None:
    found = answers_by_side([p for p in twelve_yes_no if p.setup == "yes_no_primary"])
    for side, unparsed in (("denial", 0.0), ("presence", 1 / 5)):
        assert {found[side][name].reason for name in CHOICES} == {"no none choice"}
        assert found[side]["unparsed"].value == unparsed
        assert {found[side][name].value for name in STATUSES if name != "unparsed"} == {0.0}


def test_sides_without_clips(predict: Callable[..., Prediction]) -> None:
    found = answers_by_side([predict("context_only", 3)])["presence"]
    assert {(e.value, e.n, e.reason) for e in found.values()} == {(None, 0, "no presence clips")}


@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(0, 20))
@settings(deadline=None, max_examples=40)
def test_laws(
    at_random: Callable[..., list[Prediction]], without_intervals: Callable[[Any], Any], seed: int, n: int, cut: int
) -> None:
    predictions = [p for p in at_random(seed, n) if not p.setup.startswith("yes_no")]
    found = answers_by_side(predictions, num_draws=5)
    accuracy = denial_accuracy(predictions)
    for shares in found.values():
        assert tuple(shares) == ANSWERS
        if shares["none"].n:
            assert sum(e.value or 0.0 for e in shares.values()) == pytest.approx(1)
    assert found["denial"]["none"].value == accuracy["overall_ad"].value
    assert found["presence"]["target_action"].value == accuracy["ap"].value
    assert found["presence"]["none"].value == accuracy["false_denial"].value
    metric = AnswersBySide()
    metric.update(predictions[:cut])
    metric.update(predictions[cut:])
    whole = {side: {name: e.to_json() for name, e in shares.items()} for side, shares in found.items()}
    assert metric.compute() == without_intervals(whole)
