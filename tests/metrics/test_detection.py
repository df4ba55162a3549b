"""Signal detection against values worked out on paper, the standard library's normal distribution and scikit-learn."""

import dataclasses
import itertools
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from actdeny_train.metrics.bootstrap import ONE_SOURCE
from actdeny_train.metrics.detection import METRICS, Detection, detection
from actdeny_train.types import Prediction

Predict = Callable[..., Prediction]
z = NormalDist().inv_cdf


@pytest.fixture(scope="module")
def yes_no(predict: Predict) -> Callable[..., Prediction]:
    def make(kind: str, choice: int | None, **values: Any) -> Prediction:
        common = {"setup": "yes_no_primary", "none_choice": None, "primary_distractor": None, "num_choices": 2}
        return predict(kind, choice, **{**common, "target": int(kind != "presence"), **values})

    return make


def test_twelve_predictions_worked_out_on_paper(twelve_yes_no: list[Prediction]) -> None:
    # Yes on 3 of 5 presence clips and on 4 of 7 denial clips. Log odds rise with p(action) / p(none):
    # denial 1/6 5/3 1 1/7 1/16 1/6 3, presence 7 18 8/5 3/5 3. Pairs won by the presence clips: 7 wins all 7, 18 too,
    # 8/5 all but 5/3 and 3, 3/5 those over 1/6 1/7 1/16 1/6, 3 (clip 11) all but the tie with 3: 7 + 7 + 5 + 4 + 6.5 of 35.
    found = detection(twelve_yes_no)
    hit, alarm = z((3 + 0.5) / (5 + 1)), z((4 + 0.5) / (7 + 1))
    expected = {
        "hit_rate": (3 / 5, 5),
        "false_alarm_rate": (4 / 7, 7),
        "d_prime": (hit - alarm, 12),
        "criterion": (-(hit + alarm) / 2, 12),
        "auroc": (29.5 / 35, 12),
    }
    assert tuple(found) == METRICS
    for name, (value, n) in expected.items():
        assert found[name].value == pytest.approx(value, abs=1e-12), name
        assert (found[name].n, found[name].reason) == (n, ""), name
    assert found["criterion"].value < 0


def test_always_yes_is_bias_without_sensitivity(yes_no: Predict) -> None:
    found = detection([yes_no(kind, 0, source=f"s{i}") for kind in ("presence", "denial") for i in range(9)])
    assert (found["hit_rate"].value, found["false_alarm_rate"].value, found["d_prime"].value) == (1.0, 1.0, 0.0)
    assert found["criterion"].value == pytest.approx(-z(9.5 / 10))
    assert (found["d_prime"].low, found["d_prime"].high) == (0.0, 0.0)


def test_interval_equals_enumeration(yes_no: Predict) -> None:
    rows = {"a": ("01", "00"), "b": ("00", "11"), "c": ("10", "101"), "d": ("0", "01")}
    sources = [
        [
            yes_no(kind, int(choice), source=source)
            for kind, choices in (("presence", presence), ("denial", denial))
            for choice in choices
        ]
        for source, (presence, denial) in rows.items()
    ]
    exact = []
    for drawn in itertools.product(sources, repeat=4):
        answers = [p for source in drawn for p in source]
        rates = []
        for kind in ("presence", "denial"):
            yes = [p.choice == 0 for p in answers if p.kind == kind]
            rates.append((sum(yes) + 0.5) / (len(yes) + 1))
        exact.append(z(rates[0]) - z(rates[1]))
    found = detection([p for source in sources for p in source], num_draws=20_000)["d_prime"]
    assert found.low is not None and found.high is not None
    for bound, level in ((found.low, 0.025), (found.high, 0.975)):
        assert np.quantile(exact, level - 0.01) - 1e-9 <= bound <= np.quantile(exact, level + 0.01) + 1e-9


@given(st.integers(0, 10**6), st.integers(0, 15), st.integers(0, 60))
@settings(deadline=None, max_examples=40)
def test_agreement_with_scikit_learn_and_accumulator(
    at_random: Callable[..., list[Prediction]], without_intervals: Callable[[Any], Any], seed: int, n: int, cut: int
) -> None:
    predictions = at_random(seed, n)
    found = detection(predictions, num_draws=5)
    scored = [p for p in predictions if p.setup == "yes_no_primary" and p.logprobs]
    presence = [p.kind == "presence" for p in scored]
    assert found["auroc"].n == len(scored)
    if len(set(presence)) == 2:
        expected = roc_auc_score(presence, [p.logprobs[0] - p.logprobs[1] for p in scored])
        assert found["auroc"].value == pytest.approx(expected)
    else:
        assert found["auroc"].value is None
    metric = Detection()
    metric.update(predictions[:cut])
    metric.update(predictions[cut:])
    assert metric.compute() == without_intervals({name: e.to_json() for name, e in found.items()})


def test_undefined_is_none_with_a_reason(yes_no: Predict, twelve_yes_no: list[Prediction]) -> None:
    nothing = detection([])
    assert {name: (e.value, e.n, e.reason) for name, e in nothing.items()} == {
        "hit_rate": (None, 0, "no presence clips"),
        "false_alarm_rate": (None, 0, "no denial clips"),
        **dict.fromkeys(("d_prime", "criterion", "auroc"), (None, 0, "no denial clips and no presence clips")),
    }
    presence = detection([yes_no("presence", 0, logprobs=(-1.0, -2.0))])
    assert presence["hit_rate"].value == 1.0 and presence["hit_rate"].reason == ONE_SOURCE
    assert {presence[name].reason for name in ("false_alarm_rate", "d_prime", "criterion", "auroc")} == {
        "no denial clips"
    }
    generated = detection([dataclasses.replace(p, logprobs=()) for p in twelve_yes_no])
    assert generated["d_prime"].value is not None
    assert (generated["auroc"].value, generated["auroc"].n) == (None, 0)
    assert generated["auroc"].reason == "12 of 12 predictions have no log-probabilities"
    some = detection([dataclasses.replace(p, logprobs=()) if i == 0 else p for i, p in enumerate(twelve_yes_no)])
    assert (some["auroc"].n, some["auroc"].reason) == (11, "1 of 12 predictions have no log-probabilities")
