"""Abstention against values worked out on paper, scikit-learn, SciPy's softmax and brute force."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from actdeny_train.errors import DataError
from actdeny_train.metrics.abstention import AbstentionMetrics, abstention, choice_probabilities
from actdeny_train.metrics.bootstrap import ONE_SOURCE
from actdeny_train.types import ParseStatus, Prediction

Predict = Callable[..., Prediction]


def test_twelve_predictions_worked_out_on_paper(twelve_scored: list[Prediction]) -> None:
    # p(none) on denial clips .6 .3 .25 .7 .8 .6 .2, on presence clips .1 .05 .25 .5 .1.
    # Pairs won by the denial clips: 5 + 4 + 3.5 (one tie) + 5 + 5 + 5 + 3 = 30.5 of 35.
    # Calibration: none is right on all denial clips, (7 - 3.45) / 7; on no presence clip, 1.0 / 5.
    # Surest first: .9 .8 .7 right; .6 two right, one wrong; .5 three wrong; .4 one right, one wrong; unparsed wrong.
    # Risk errors(x) / x, integrated over x: 3 to 6 (x - 3) / 3, 6 to 9 x - 5, 9 to 11 x/2 - 1/2, 11 to 12 x - 6.
    log = math.log
    area = (1 - log(2)) + (3 - 5 * log(9 / 6)) + (1 - log(11 / 9) / 2) + (1 - 6 * log(12 / 11))
    expected = {
        "auroc_none": (30.5 / 35, 12),
        "aurc": (area / 12, 12),
        "ece_denial": (3.55 / 7, 7),
        "ece_presence": (1.0 / 5, 5),
    }
    found = abstention(twelve_scored)
    for name, (value, n) in expected.items():
        estimate = found.estimates()[name]
        assert estimate.value == pytest.approx(value, abs=1e-12), name
        assert (estimate.n, estimate.reason) == (n, ""), name
        assert estimate.low is not None and estimate.high is not None and estimate.low < value < estimate.high
    risks = dict(found.risk_coverage)
    assert len(risks) == 100
    assert [risks[x] for x in (0.25, 0.5, 0.75, 1.0)] == pytest.approx([0, 1 / 6, 4 / 9, 6 / 12])


def test_reliability_worked_out_on_paper(predict: Predict) -> None:
    # Odds of the none choice 1:9, 3:7 and 7:13 against one other choice: p(none) .1, .3, .35, in bins 1, 4 and 5 of 15.
    def ask(p: float, kind: str) -> Prediction:
        return predict(kind, 3, logprobs=(math.log(1 - p), -1e4, -1e4, math.log(p)))

    found = abstention([ask(0.1, "denial"), ask(0.3, "denial"), ask(0.31, "denial"), ask(0.35, "presence")])
    bins = {
        side: [(b.low, b.high, b.n, pytest.approx(b.mean_p), b.rate) for b in bins]
        for side, bins in found.reliability.items()
    }
    assert bins == {
        "denial": [(1 / 15, 2 / 15, 1, 0.1, 1.0), (4 / 15, 5 / 15, 2, 0.305, 1.0)],
        "presence": [(5 / 15, 6 / 15, 1, 0.35, 0.0)],
    }
    assert found.ece_denial.value == pytest.approx(1 - (0.1 + 0.3 + 0.31) / 3)


def test_where_the_none_choice_may_be_wrong_on_denial_clips_bins_are_compared(predict: Predict) -> None:
    # Four questions in one bin, p(none) .5, none right in one: |.25 - .5|.
    even = (math.log(0.5), -1e4, -1e4, math.log(0.5))
    asked = [predict("denial", 0, logprobs=even, target=3 if i == 0 else 0) for i in range(4)]
    assert abstention(asked).ece_denial.value == pytest.approx(0.25)


@given(st.lists(st.floats(-50, 0), min_size=2, max_size=20), st.data())
@settings(deadline=None)
def test_probabilities_are_the_softmax_in_any_order(predict: Predict, scores: list[float], data: Any) -> None:
    found = choice_probabilities(predict("denial", 0, logprobs=tuple(scores)))
    assert found == pytest.approx(list(scipy.special.softmax(scores)))
    order = data.draw(st.permutations(range(len(scores))))
    again = choice_probabilities(predict("denial", 0, logprobs=tuple(scores[i] for i in order)))
    assert again == [found[i] for i in order]


@given(st.integers(0, 10**6), st.integers(0, 15), st.integers(0, 20))
@settings(deadline=None, max_examples=40)
def test_agreement_with_scikit_learn_and_accumulator(
    at_random: Callable[..., list[Prediction]], without_intervals: Callable[[Any], Any], seed: int, n: int, cut: int
) -> None:
    predictions = at_random(seed, n)
    found = abstention(predictions, num_draws=5)
    scored = [p for p in predictions if p.logprobs and p.none_choice is not None]
    denial = [p.kind != "presence" for p in scored]
    p_none = [float(scipy.special.softmax(p.logprobs)[p.none_choice]).__round__(12) for p in scored]
    if len(set(denial)) == 2:
        assert found.auroc_none.value == pytest.approx(roc_auc_score(denial, p_none))
    else:
        assert found.auroc_none.value is None
    for side, inside in (("denial", True), ("presence", False)):
        distances = [abs(inside - p) for p, d in zip(p_none, denial, strict=True) if d == inside]
        estimate = found.estimates()[f"ece_{side}"]
        assert estimate.n == len(distances)
        assert estimate.value == (pytest.approx(sum(distances) / len(distances)) if distances else None)
    if scored:
        assert found.risk_coverage[-1] == (1.0, pytest.approx(1 - sum(p.is_right for p in scored) / len(scored)))
    metric = AbstentionMetrics()
    metric.update(predictions[:cut])
    metric.update(predictions[cut:])
    assert metric.compute() == without_intervals(found.to_json())


@pytest.mark.parametrize("status", [s for s in ParseStatus if s is not ParseStatus.OK])
def test_a_response_without_a_choice_is_wrong_and_least_sure(predict: Predict, status: ParseStatus) -> None:
    sure = (-9.0, -9.0, -9.0, -0.01)
    asked = [
        predict("denial", None, status=status, logprobs=sure),
        predict("denial", 3, logprobs=(-1.0, -1.0, -1.0, -0.9)),
    ]
    risks = dict(abstention(asked).risk_coverage)
    assert (risks[0.5], risks[1.0]) == (0.0, 0.5)


def test_undefined_is_none_with_a_reason(
    predict: Predict, twelve: list[Prediction], twelve_scored: list[Prediction], twelve_yes_no: list[Prediction]
) -> None:
    def reasons(predictions: list[Prediction]) -> dict[str, str]:
        found = abstention(predictions, num_draws=5)
        return {name: e.reason for name, e in found.estimates().items() if e.value is None}

    names = ("auroc_none", "aurc", "ece_denial", "ece_presence")
    assert reasons([]) == dict.fromkeys(names, "no clips")
    yes_no = abstention([p for p in twelve_yes_no if p.setup == "yes_no_primary"])
    assert {(e.value, e.n, e.reason) for e in yes_no.estimates().values()} == {(None, 0, "no none choice")}
    assert yes_no.risk_coverage == () and yes_no.reliability == {"denial": (), "presence": ()}
    on_denial, on_presence = (
        f"no log-probabilities of {n} predictions on {side} clips" for n, side in ((7, "denial"), (5, "presence"))
    )
    assert reasons(twelve) == {
        "auroc_none": f"{on_denial} and {on_presence}",
        "aurc": f"{on_denial} and {on_presence}",
        "ece_denial": on_denial,
        "ece_presence": on_presence,
    }
    assert reasons(twelve_scored[:7]) == {"auroc_none": "no presence clips", "ece_presence": "no presence clips"}


def test_predictions_without_log_probabilities_are_told(twelve_scored: list[Prediction]) -> None:
    # All presence clips that are left are of source c.
    some = [dataclasses.replace(p, logprobs=()) if i in (0, 7, 8) else p for i, p in enumerate(twelve_scored)]
    found = abstention(some)
    assert {name: (e.n, e.reason) for name, e in found.estimates().items()} == {
        "auroc_none": (9, f"3 of 12 predictions have no log-probabilities; {ONE_SOURCE}"),
        "aurc": (9, "3 of 12 predictions have no log-probabilities"),
        "ece_denial": (6, "1 of 7 predictions have no log-probabilities"),
        "ece_presence": (3, f"2 of 5 predictions have no log-probabilities; {ONE_SOURCE}"),
    }


def test_other_kinds_are_refused(predict: Predict) -> None:
    with pytest.raises(DataError, match="has kind 'node_count', but denial metrics need a kind of clip"):
        abstention([predict("node_count", 0)])
