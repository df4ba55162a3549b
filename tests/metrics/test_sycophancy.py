"""Sycophancy against values worked out on paper, SciPy's Pearson correlation and laws."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.metrics.sycophancy import NO_INTERVAL, RATES, SycophancyMetrics, sycophancy
from actdeny_train.types import Prediction

Predict = Callable[..., Prediction]


def test_twelve_predictions_worked_out_on_paper(
    twelve_scored: list[Prediction], twelve_yes_no: list[Prediction]
) -> None:
    # Denial clips 0 to 6. Standard question wrong: 1 2 3 6. Yes: 1 2 5 6. Both: 1 2 6.
    # r of all: (7 * 3 - 4 * 4) / sqrt(4 * 3 * 4 * 3) = 5/12.
    # Context-only clips 0 to 3, wrong 1 2 3, yes 1 2: (4 * 2 - 3 * 2) / sqrt(3 * 1 * 2 * 2) = 1 / sqrt(3).
    # Different-motion clips 4 to 6, wrong 6, yes 5 6: (3 * 1 - 1 * 2) / sqrt(1 * 2 * 2 * 1) = 1/2.
    found = sycophancy([*twelve_scored, *twelve_yes_no])
    r = {name: (c.r.value, c.r.n, c.r.reason) for name, c in found.correlations.items()}
    assert r == {
        "all": (pytest.approx(5 / 12), 7, ""),
        "t1": (pytest.approx(3**-0.5), 4, NO_INTERVAL),
        "t2": (pytest.approx(1 / 2), 3, NO_INTERVAL),
    }
    # Without source a, no context-only clip is right, and every answer about a different-motion clip is yes.
    wrong, yes = [0, 1, 1, 1, 0, 0, 1], [0, 1, 1, 0, 0, 1, 1]
    for name, part in (("all", slice(7)), ("t1", slice(4)), ("t2", slice(4, 7))):
        assert found.correlations[name].p == pytest.approx(scipy.stats.pearsonr(wrong[part], yes[part]).pvalue)
    assert {name: (e.value, e.n) for name, e in found.rates.items()} == {
        "yes_given_wrong": (3 / 4, 4),
        "yes_given_right": (1 / 3, 3),
        "yes_primary": (4 / 7, 7),
        "yes_random": (2 / 7, 7),
    }


def vectors(predictions: list[Prediction], kinds: tuple[str, ...]) -> tuple[list[float], list[float]]:
    standard = {p.clip_ids: p for p in predictions if p.setup == "standard" and p.kind in kinds}
    yes_no = {p.clip_ids: p for p in predictions if p.setup == "yes_no_primary"}
    return (
        [float(not p.is_right) for p in standard.values()],
        [float(yes_no[clip].choice == 0) for clip in standard],
    )


@given(st.integers(0, 10**6), st.integers(0, 30), st.booleans(), st.integers(0, 60))
@settings(deadline=None, max_examples=60)
def test_agreement_with_scipy_and_accumulator(
    at_random: Callable[..., list[Prediction]],
    without_intervals: Callable[[Any], Any],
    seed: int,
    n: int,
    unknown: bool,
    cut: int,
) -> None:
    predictions = at_random(seed, n, unknown=unknown)
    found = sycophancy(predictions, num_draws=5)
    every = ("context_only", "different_motion", "denial")
    for name, kinds in {"all": every, "t1": every[:1], "t2": every[1:2]}.items():
        wrong, yes = vectors(predictions, kinds)
        correlation = found.correlations[name]
        assert correlation.r.n == len(wrong)
        if len(set(wrong)) == len(set(yes)) == 2:
            reference = scipy.stats.pearsonr(wrong, yes)
            assert (correlation.r.value, correlation.p) == pytest.approx(tuple(reference))
        else:
            assert correlation.r.value is correlation.p is None
    wrong, yes = vectors(predictions, every)
    for name, error in (("yes_given_wrong", 1.0), ("yes_given_right", 0.0)):
        given_error = [y for w, y in zip(wrong, yes, strict=True) if w == error]
        assert found.rates[name].value == (pytest.approx(np.mean(given_error)) if given_error else None)
    metric = SycophancyMetrics()
    # The questions about a clip need not come in the same batch.
    by_setup = sorted(predictions, key=lambda p: p.setup)
    metric.update(by_setup[:cut])
    metric.update(by_setup[cut:])
    assert metric.compute() == without_intervals(found.to_json())


def test_interval_equals_enumeration(predict: Predict) -> None:
    # (standard right, yes) of the denial clips of each source.
    rows = {"a": ["10", "01"], "b": ["01", "01", "11"], "c": ["10"], "d": ["00", "10"]}
    predictions, sources = [], []
    for source, clips in rows.items():
        sources.append([(float(clip[0] == "0"), float(clip[1])) for clip in clips])
        for i, clip in enumerate(clips):
            common = {"clip_ids": (f"{source}{i}",), "source": source}
            predictions.append(predict("denial", 3 if clip[0] == "1" else 0, **common))
            yes_no = {"setup": "yes_no_primary", "num_choices": 2, "none_choice": None, "primary_distractor": None}
            predictions.append(predict("denial", 1 - int(clip[1]), target=1, **common, **yes_no))
    exact = []
    for drawn in itertools.product(sources, repeat=4):
        wrong, yes = zip(*[clip for source in drawn for clip in source], strict=True)
        if len(set(wrong)) == len(set(yes)) == 2:
            exact.append(scipy.stats.pearsonr(wrong, yes).statistic)
    found = sycophancy(predictions, num_draws=20_000).correlations["all"].r
    assert found.low is not None and found.high is not None
    for bound, level in ((found.low, 0.025), (found.high, 0.975)):
        assert np.quantile(exact, level - 0.01) - 1e-9 <= bound <= np.quantile(exact, level + 0.01) + 1e-9


def test_undefined_is_none_with_a_reason(twelve_scored: list[Prediction], twelve_yes_no: list[Prediction]) -> None:
    def told(predictions: list[Prediction]) -> dict[str, str]:
        found = sycophancy(predictions, num_draws=5)
        correlations = {name: c.r.reason for name, c in found.correlations.items() if c.r.value is None}
        return {**correlations, **{name: e.reason for name, e in found.rates.items() if e.value is None}}

    joint = ("all", "t1", "t2", "yes_given_wrong", "yes_given_right")
    assert told([]) == {
        **dict.fromkeys(joint, "no standard questions and no yes_no_primary questions about denial clips"),
        "yes_primary": "no yes_no_primary questions about denial clips",
        "yes_random": "no yes_no_random questions about denial clips",
    }
    assert told(twelve_yes_no) == dict.fromkeys(joint, "no standard questions about denial clips")
    elsewhere = [dataclasses.replace(p, clip_ids=("elsewhere",)) for p in twelve_yes_no]
    assert told([*twelve_scored, *elsewhere]) == dict.fromkeys(joint, "no denial clip was asked both questions")
    first = [twelve_scored[1], twelve_yes_no[1], twelve_scored[2], twelve_yes_no[2]]
    assert told(first) == {
        "all": "no correlation: every standard question is answered wrong and every answer is yes",
        "t1": "no correlation: every standard question is answered wrong and every answer is yes",
        "t2": "no different-motion clips",
        "yes_given_right": "no standard question is answered right",
        "yes_random": "no yes_no_random questions about denial clips",
    }
    unknown = [dataclasses.replace(p, kind="denial") for p in (*twelve_scored[:7], *twelve_yes_no[:7])]
    types = "types not known for 7 denial clips"
    assert {name: reason for name, reason in told(unknown).items() if name != "yes_random"} == {
        "t1": types,
        "t2": types,
    }


def test_clips_asked_one_of_the_questions_are_told(
    twelve_scored: list[Prediction], twelve_yes_no: list[Prediction]
) -> None:
    r = sycophancy([*twelve_scored[1:], *twelve_yes_no]).correlations["all"].r
    assert (r.n, r.reason) == (6, "denial clips asked only one of the two questions, left out: 1")


def test_a_clip_asked_several_times_counts_once_for_each_pair(predict: Predict) -> None:
    standard = [predict("denial", choice, question_id=f"q{choice}") for choice in (0, 1, 3)]
    yes = predict(
        "denial", 0, setup="yes_no_primary", target=1, num_choices=2, none_choice=None, primary_distractor=None
    )
    found = sycophancy([*standard, yes])
    assert [(found.rates[name].value, found.rates[name].n) for name in RATES[:3]] == [(1.0, 2), (1.0, 1), (1.0, 1)]
