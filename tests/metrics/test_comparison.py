"""Comparison of two runs against enumeration, SciPy, the closed test that Holm's correction is, and laws."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.errors import DataError
from actdeny_train.metrics.bootstrap import ONE_SOURCE
from actdeny_train.metrics.comparison import METRICS, CellComparison, compare, correct_holm
from actdeny_train.metrics.denial import denial_accuracy
from actdeny_train.types import Prediction

Predict = Callable[..., Prediction]
SOURCES: dict[str, list[tuple[str, bool, bool]]] = {
    # kind, right in a, right in b
    "s1": [("context_only", False, True), ("presence", True, True), ("context_only", False, True)],
    "s2": [("context_only", True, True), ("presence", True, False), ("presence", True, True)],
    "s3": [("context_only", False, False), ("presence", False, False), ("context_only", True, False)],
    "s4": [("context_only", False, True), ("presence", True, True)],
}


def runs(
    predict: Predict, sources: dict[str, list[tuple[str, bool, bool]]]
) -> tuple[list[Prediction], list[Prediction]]:
    made: tuple[list[Prediction], list[Prediction]] = ([], [])
    for source, answers in sources.items():
        for i, (kind, *right) in enumerate(answers):
            for run, is_right in zip(made, right, strict=True):
                target = 0 if kind == "presence" else 3
                run.append(predict(kind, target if is_right else 1, source=source, question_id=f"{source}.{i}"))
    return made


def only_cell(a: list[Prediction], b: list[Prediction], num_draws: int = 2000) -> CellComparison:
    (cell,) = compare(a, b, num_draws=num_draws).cells
    return cell


def test_four_sources_equal_enumeration(predict: Predict) -> None:
    exact: dict[str, list[float]] = {"overall_ad": [], "ap": [], "hm": []}
    for chosen in itertools.product(SOURCES.values(), repeat=4):
        answers = [answer for source in chosen for answer in source]
        denial = [a for a in answers if a[0] != "presence"]
        presence = [a for a in answers if a[0] == "presence"]
        ad = [sum(a[run] for a in denial) / len(denial) for run in (1, 2)]
        ap = [sum(a[run] for a in presence) / len(presence) for run in (1, 2)]
        hm = [2 * x * y / (x + y) if x + y else 0.0 for x, y in zip(ad, ap, strict=True)]
        for name, (before, after) in zip(exact, (ad, ap, hm), strict=True):
            exact[name].append(after - before)
    cell = only_cell(*runs(predict, SOURCES), num_draws=20_000)
    for name, values in exact.items():
        change = cell.changes[name]
        assert change.difference.low is not None and change.difference.high is not None and change.p is not None
        for bound, level in ((change.difference.low, 0.025), (change.difference.high, 0.975)):
            # The exact distribution has steps: the sampled quantiles must lie between its neighbouring ones.
            assert np.quantile(values, level - 0.005) - 1e-12 <= bound <= np.quantile(values, level + 0.005) + 1e-12
        below, above = (np.mean(np.array(values) <= 1e-15), np.mean(np.array(values) >= -1e-15))
        # Of the four sources, three have other hits on denial clips (s1, s3, s4) and one on presence clips (s2).
        least = {"overall_ad": 1 / 4, "ap": 1.0, "hm": 1 / 8}[name]
        assert change.p == pytest.approx(min(1.0, max(least, 2 * min(below, above))), abs=0.02), name


def test_values_worked_out_on_paper(predict: Predict) -> None:
    # Denial: 6 questions, right in a 2, in b 4. Presence: 5 questions, right in a 4, in b 3.
    # HM: a 2 * 1/3 * 4/5 / (1/3 + 4/5) = 8/17, b 2 * 2/3 * 3/5 / (2/3 + 3/5) = 12/19.
    cell = only_cell(*runs(predict, SOURCES))
    expected = {"t1": 2 / 6, "overall_ad": 2 / 6, "ap": -1 / 5, "hm": 12 / 19 - 8 / 17}
    for name, difference in expected.items():
        assert cell.changes[name].difference.value == pytest.approx(difference, abs=1e-12)
    assert cell.changes["hm"].difference.n == cell.num_questions == 11
    t2 = cell.changes["t2"]
    assert (t2.difference.value, t2.difference.reason, t2.p, t2.p_holm) == (
        None,
        "no different-motion clips",
        None,
        None,
    )
    # Discordant on denial clips: three right in b alone, one in a alone; on presence clips one in a alone.
    denial, presence = cell.mcnemar["denial"], cell.mcnemar["presence"]
    assert (denial.n, denial.only_a, denial.only_b, denial.p) == (6, 1, 3, pytest.approx(2 * (1 + 4) / 16))
    assert (presence.n, presence.only_a, presence.only_b, presence.p) == (5, 1, 0, 1.0)


def test_paired_differences_of_single_clips_agree_with_scipy(predict: Predict) -> None:
    draw = np.random.default_rng(0)
    right = {f"s{i}": [("context_only", bool(draw.random() < 0.4), bool(draw.random() < 0.6))] for i in range(150)}
    cell = only_cell(*runs(predict, right), num_draws=10_000)
    before, after = (np.array([float(answers[0][run]) for answers in right.values()]) for run in (1, 2))
    reference = scipy.stats.bootstrap(
        (after - before,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    difference = cell.changes["overall_ad"].difference
    assert (difference.low, difference.high) == pytest.approx((reference.low, reference.high), abs=0.015)
    # Beyond about 100 sources the bootstrap p comes near the test that takes the mean as normal.
    z = (after - before).mean() / ((after - before).std() / math.sqrt(len(right)))
    assert cell.changes["overall_ad"].p == pytest.approx(2 * scipy.stats.norm.sf(abs(z)), abs=0.01)


def test_few_sources_cannot_be_significant(predict: Predict) -> None:
    # Every draw of three sources that all changed for the better shows a difference of 1.
    three = {f"s{i}": [("context_only", False, True), ("context_only", False, True)] for i in range(3)}
    change = only_cell(*runs(predict, three)).changes["overall_ad"]
    assert (change.difference.low, change.difference.high, change.p) == (1.0, 1.0, 2 / 2**3)
    # A source whose gains and losses cancel does not count: swapping its runs changes nothing.
    cancelling = {**three, "s3": [("context_only", False, True), ("context_only", True, False)]}
    assert only_cell(*runs(predict, cancelling)).changes["overall_ad"].p == 2 / 2**3


@given(only_a=st.integers(0, 9), only_b=st.integers(0, 9), both=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_mcnemar_equals_enumeration_of_coins(predict: Predict, only_a: int, only_b: int, both: int) -> None:
    answers = [(True, False)] * only_a + [(False, True)] * only_b + [(True, True)] * both
    sources = {f"s{i}": [("context_only", *answer)] for i, answer in enumerate(answers)}
    if not sources:
        return
    test = only_cell(*runs(predict, sources), num_draws=10).mcnemar["denial"]
    n = only_a + only_b
    # Every outcome of n fair coins at least as far from n / 2 as the one seen.
    extreme = sum(math.comb(n, k) for k in range(n + 1) if abs(2 * k - n) >= abs(only_a - only_b))
    assert test.p == pytest.approx(extreme / 2**n)
    assert (test.n, test.only_a, test.only_b) == (n + both, only_a, only_b)


@given(p=st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=6))
def test_holm_is_the_closed_test(p: list[float | None]) -> None:
    tests = [i for i, value in enumerate(p) if value is not None]
    expected: list[float | None] = [None] * len(p)
    for i in tests:
        families = (f for size in range(1, len(tests) + 1) for f in itertools.combinations(tests, size) if i in f)
        expected[i] = max(min(1.0, len(f) * min(value for j in f if (value := p[j]) is not None)) for f in families)
    assert correct_holm(p) == pytest.approx(expected)


def test_holm_worked_out_on_paper() -> None:
    assert correct_holm([0.01, None, 0.04, 0.03, 0.005]) == pytest.approx([0.03, None, 0.06, 0.06, 0.02])


def test_holm_runs_over_the_setups_within_a_metric(predict: Predict) -> None:
    a, b = runs(predict, SOURCES)
    other_a, other_b = (
        [replace(p, setup="explicit_denial", question_id=f"e{p.question_id}") for p in run] for run in (a, b)
    )
    alone = only_cell(a, b)
    both = compare([*other_a, *a], [*other_b, *b])
    assert [(cell.setup, cell.prompt) for cell in both.cells] == [("explicit_denial", "plain"), ("standard", "plain")]
    for cell in both.cells:
        for name in METRICS:
            p = alone.changes[name].p
            assert cell.changes[name].p == p
            assert cell.changes[name].p_holm == (None if p is None else min(1.0, 2 * p))
            assert alone.changes[name].p_holm == p
        assert cell.mcnemar["denial"].p_holm == 1.0


RIGHT = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from(["presence", "context_only", "denial"]), st.booleans(), st.booleans()
    ),
    min_size=1,
    max_size=20,
)


@given(answers=RIGHT)
@settings(max_examples=30, deadline=None)
def test_laws(predict: Predict, answers: list[tuple[str, str, bool, bool]]) -> None:
    sources: dict[str, list[tuple[str, bool, bool]]] = {}
    for source, *answer in answers:
        sources.setdefault(source, []).append(tuple(answer))
    a, b = runs(predict, sources)
    there, back, same = only_cell(a, b, 50), only_cell(b, a, 50), only_cell(a, a, 50)
    for name in METRICS:
        change, reverse, none = (cell.changes[name] for cell in (there, back, same))
        assert change.a.value == denial_accuracy(a)[name].value == reverse.b.value
        assert change.p == reverse.p
        if change.difference.value is None:
            assert change.difference.reason and change.p is None
            continue
        assert reverse.difference.value == -change.difference.value
        assert none.difference.value == 0.0 and none.p in (1.0, None)
        if change.difference.low is None or change.difference.high is None:
            assert change.difference.reason == ONE_SOURCE and change.p is None
        else:
            assert reverse.difference.low == pytest.approx(-change.difference.high, abs=1e-12)
            assert 0 < (change.p or 0) <= 1
    shuffled = compare(a[::-1], b, num_draws=50)
    assert shuffled.cells[0].changes == there.changes


def test_setups_of_one_run_alone_are_named_and_other_setups_left_alone(predict: Predict) -> None:
    a, b = runs(predict, SOURCES)
    extra = predict("presence", 0, setup="four_choices", question_id="f")
    caption = predict("presence", 0, setup="caption", none_choice=None, question_id="c")
    found = compare([*a, extra, caption], [*b, replace(caption, choice=1)])
    assert [cell.setup for cell in found.cells] == ["standard"]
    assert (found.only_a, found.only_b) == ((("four_choices", "plain"),), ())


def test_json_has_plain_values(predict: Predict) -> None:
    found = compare(*runs(predict, SOURCES)).to_json()
    (cell,) = found["cells"]
    assert cell["changes"]["t2"]["difference"] == {
        "value": None,
        "low": None,
        "high": None,
        "n": 0,
        "reason": "no different-motion clips",
    }
    assert cell["mcnemar"]["presence"] == {"n": 5, "only_a": 1, "only_b": 0, "p": 1.0, "p_holm": 1.0}
    assert found["only_a"] == found["only_b"] == []


# Errors


def test_other_questions_are_an_error_unless_asked_for(predict: Predict) -> None:
    a, b = runs(predict, SOURCES)
    fingerprints = {"question": "other"}
    b = [replace(b[0], fingerprints=fingerprints), *b[1:-1], replace(b[-1], question_id="new")]
    with pytest.raises(DataError) as error:
        compare(a, b, names=("small", "large"))
    assert str(error.value) == (
        "Runs 'small' and 'large' were not asked the same questions (standard / plain: 9 shared, 1 only in small, 1 only in large, 1 with "
        "the same id but another wording, choices or target). Evaluate both on the same clips with the same questions (--freeze writes "
        "them to a file), or compare the shared questions alone with only_shared=True."
    )
    (cell,) = compare(a, b, only_shared=True).cells
    (expected,) = compare(a[1:-1], b[1:-1]).cells
    assert cell == replace(expected, num_left_out=3)
    assert cell.num_questions == 9


def test_nothing_shared_is_an_error_even_then(predict: Predict) -> None:
    a, b = [predict("presence", 0, question_id="x")], [predict("presence", 0, question_id="y")]
    with pytest.raises(DataError) as error:
        compare(a, b, only_shared=True)
    assert str(error.value) == (
        "Runs 'a' and 'b' were not asked the same questions (standard / plain: 0 shared, 1 only in a, 1 only in b, 0 with the same id but "
        "another wording, choices or target). There is nothing to compare: evaluate both on the same data, split and seed."
    )


def test_no_setup_in_common(predict: Predict) -> None:
    a, b = [predict("presence", 0)], [predict("presence", 0, none_choice=None, setup="caption")]
    with pytest.raises(DataError) as error:
        compare(a, b)
    assert str(error.value) == (
        "Runs 'a' and 'b' have no denial setup / prompt in common. a: standard / plain; b: none. Evaluate both with the same setups and "
        "prompts."
    )


def test_a_question_answered_twice(predict: Predict) -> None:
    a, b = runs(predict, SOURCES)
    with pytest.raises(DataError) as error:
        compare(a, [*b, b[2]], names=("small", "large"))
    assert str(error.value) == (
        "Run 'large' answers question 's1.2' more than once. Remove all lines but one from its predictions."
    )
