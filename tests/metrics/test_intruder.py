"""Find the intruder: twelve answers worked out on paper, and the exact interval against its definition."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from scipy import stats

from actdeny_train.metrics.intruder import compare_intruder, exact_accuracy, intruder
from actdeny_train.metrics.summary import summarise
from actdeny_train.types import ParseStatus, Prediction


@pytest.fixture
def answers(predict: Callable[..., Prediction]) -> list[Prediction]:
    """Return 12 answers: (verb pattern, place of the intruder, choice or None), each to a tuple of its own."""
    rows: list[tuple[str, int, int | None]] = [
        ("1_1_1_1", 0, 0), ("1_1_1_1", 1, 0), ("1_1_1_1", 2, 0),
        ("3_1", 0, 0), ("3_1", 1, 1), ("3_1", 2, 2), ("3_1", 3, 0), ("3_1", 3, None),
        ("4", 0, 2), ("4", 1, 0),
        ("unknown", 2, 2), ("unknown", 3, 3),
    ]  # fmt: skip
    shared: dict[str, Any] = {"none_choice": None, "primary_distractor": None, "setup": "intruder", "prompt": "italian"}
    return [
        predict(kind, choice, target=target, source=f"t{i}", question_id=f"q{i}", **shared)
        for i, (kind, target, choice) in enumerate(rows)
    ]


def test_twelve_answers_worked_out_on_paper(answers: list[Prediction]) -> None:
    found = intruder(answers)
    assert (found.accuracy.value, found.accuracy.n) == (6 / 12, 12)
    assert {name: (e.value, e.n) for name, e in found.by_pattern.items()} == {
        "4": (0.0, 2), "3_1": (3 / 5, 5), "1_1_1_1": (1 / 3, 3), "unknown": (1.0, 2)
    }  # fmt: skip
    assert list(found.by_pattern) == ["4", "3_1", "1_1_1_1", "unknown"]
    assert [(p.chosen.value, p.target.value, p.right.value) for p in found.positions] == [
        (6 / 12, 3 / 12, 2 / 3), (1 / 12, 3 / 12, 1 / 3), (3 / 12, 3 / 12, 2 / 3), (1 / 12, 3 / 12, 1 / 3)
    ]  # fmt: skip
    assert found.agreement["agreement"].value is None


def test_exact_interval_by_its_definition(answers: list[Prediction]) -> None:
    """Each bound is the rate at which 6 right answers of 12, or more (fewer), have a probability of 2.5 %."""
    found = exact_accuracy(answers)
    assert found.low is not None and found.high is not None
    assert stats.binom.sf(5, 12, found.low) == pytest.approx(0.025)
    assert stats.binom.cdf(6, 12, found.high) == pytest.approx(0.025)
    wrong = exact_accuracy([p for p in answers if p.kind == "4"])
    assert (wrong.value, wrong.low) == (0.0, 0.0) and wrong.high == pytest.approx(1 - 0.025 ** (1 / 2))


def test_tuples_asked_twice_have_no_exact_interval(answers: list[Prediction]) -> None:
    twice = [*answers, *(dataclasses.replace(p, question_id=p.question_id + "b") for p in answers)]
    found = exact_accuracy(twice)
    assert (found.value, found.low, found.n) == (0.5, None, 24)
    assert found.reason == "no exact interval: tuples were asked about more than once"
    # A tuple that is asked twice alike counts as one: the interval over resampled tuples stays.
    assert intruder(twice).accuracy.low == intruder(answers).accuracy.low
    assert exact_accuracy([]).reason == "no questions"


def test_in_the_summary(answers: list[Prediction]) -> None:
    scored = [dataclasses.replace(p, logprobs=(-1.0, -2.0, -3.0, -4.0), text="1") for p in answers]
    summary = summarise(scored, num_draws=50)
    cell = summary["setups"]["intruder"]["italian"]
    assert (cell["accuracy"]["value"], cell["unparsed"], cell["accuracy_exact"]["n"]) == (0.5, 1, 12)
    assert cell["by_pattern"]["3_1"]["value"] == 0.6
    assert cell["score_accuracy"]["value"] == 3 / 12
    assert (cell["agreement"]["value"], len(cell["positions"])) == (6 / 12, 4)
    assert all(p.status in (ParseStatus.OK, ParseStatus.UNPARSED) for p in scored)


def test_two_runs_on_the_same_questions(answers: list[Prediction]) -> None:
    """The other run has q1 and q2 right besides, and q0 wrong: 6 against 7 of 12, 1 and 2 right in one run alone."""
    choices = {"q0": 3, "q1": 1, "q2": 2}
    other = [dataclasses.replace(p, choice=choices.get(p.question_id, p.choice)) for p in answers]
    found = compare_intruder(answers, other)
    assert found is not None
    assert (found.a.value, found.b.value, found.difference.value, found.difference.n) == (
        0.5,
        7 / 12,
        pytest.approx(1 / 12),
        12,
    )
    assert found.difference.low is not None and found.difference.low < 0 < (found.difference.high or 0)
    assert (found.only_a, found.only_b, found.p) == (1, 2, pytest.approx(stats.binomtest(1, 3).pvalue))
    same = compare_intruder(answers, answers)
    assert same is not None and (same.difference.value, same.difference.low, same.difference.high, same.p) == (
        0,
        0,
        0,
        1,
    )
    reworded = [dataclasses.replace(p, fingerprints={"question": "other"}) for p in answers]
    assert compare_intruder(answers, reworded) is None
    half = compare_intruder(answers[:6], reworded[:3] + answers[3:])
    assert half is not None and half.a.n == 3
