"""Denial metrics against values worked out on paper, published rows, scikit-learn, and laws."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, recall_score

from actdeny_train.errors import DataError
from actdeny_train.metrics.bootstrap import ONE_SOURCE
from actdeny_train.metrics.denial import DenialAccuracy, denial_accuracy, denial_estimates, harmonic_mean
from actdeny_train.types import ClipKind, ParseStatus, Prediction

ANSWERS = st.lists(
    st.tuples(st.sampled_from(list(ClipKind)), st.sampled_from([None, 0, 1, 2, 3]), st.sampled_from("abcd")),
    max_size=30,
)


def values(predictions: list[Prediction]) -> dict[str, float | None]:
    return {name: estimate.value for name, estimate in denial_accuracy(predictions).items()}


def test_twelve_predictions_worked_out_on_paper(twelve: list[Prediction]) -> None:
    # Overall-AD (1 + 2) / 7, the same as (4 * T1 + 3 * T2) / 7. Overall (1 + 2 + 3) / 12.
    # HM = 2 * 3/7 * 3/5 / (3/7 + 3/5) = (18/35) / (36/35) = 1/2.
    # Action choices on denial clips: two primary distractors and one other action, of 7 clips.
    expected = {
        "t1": (1 / 4, 4),
        "t2": (2 / 3, 3),
        "overall_ad": (3 / 7, 7),
        "ap": (3 / 5, 5),
        "overall": (6 / 12, 12),
        "hm": (1 / 2, 12),
        "false_denial": (1 / 5, 5),
        "hallucinated_action": (3 / 7, 7),
        "primary_distractor": (2 / 3, 3),
    }
    found = denial_accuracy(twelve)
    assert found.keys() == expected.keys()
    for name, (value, n) in expected.items():
        assert found[name].value == pytest.approx(value, abs=1e-12), name
        assert (found[name].n, found[name].reason) == (n, ""), name


def assert_hm_of_rows(rows: dict[str, list[float]]) -> None:
    for model, (_, _, overall_ad, ap, _, hm) in rows.items():
        found = 100 * float(harmonic_mean(np.float64(overall_ad / 100), np.float64(ap / 100)))
        assert f"{found:.1f}" == f"{hm:.1f}", model


@pytest.mark.shared
def test_hm_of_all_published_rows(shared: Path) -> None:
    rows = yaml.safe_load((shared / "spec" / "paper_results.yaml").read_text())["zero_shot"]
    assert len(rows) == 21
    assert_hm_of_rows(rows)


def test_hm_of_three_published_rows() -> None:
    # Paper 1, table of zero-shot results: type 1, type 2, Overall-AD, presence, Overall, HM in percent.
    assert_hm_of_rows(
        {
            "VideoLLaMA3-7B": [49.4, 53.4, 51.5, 96.0, 58.3, 67.0],
            "Valley-Eagle-7B": [8.8, 13.1, 11.1, 96.4, 24.0, 19.9],
            "ARC-Hunyuan-Video-7B": [12.9, 16.3, 14.7, 58.5, 21.3, 23.5],
        }
    )


def test_hm_is_zero_if_either_side_is(predict: Callable[..., Prediction]) -> None:
    always_none = [predict("presence", 3), predict("context_only", 3)]
    all_wrong = [predict("presence", 1), predict("context_only", 1)]
    assert values(always_none)["hm"] == 0.0
    assert values(all_wrong)["hm"] == 0.0


def test_undefined_is_none_with_a_reason(predict: Callable[..., Prediction]) -> None:
    presence, context_only = predict("presence", 0), predict("context_only", 3)
    reasons = {name: estimate.reason for name, estimate in denial_accuracy([presence]).items()}
    assert reasons == {
        "t1": "no context-only clips",
        "t2": "no different-motion clips",
        "overall_ad": "no denial clips",
        "ap": "",
        "overall": "",
        "hm": "no denial clips",
        "false_denial": "",
        "hallucinated_action": "no denial clips",
        "primary_distractor": "no hallucinated actions where a primary distractor was offered",
    }
    only_denial = denial_accuracy([context_only])
    assert only_denial["ap"].reason == only_denial["hm"].reason == "no presence clips"
    assert only_denial["hm"].value is None
    assert only_denial["overall_ad"].value == only_denial["overall"].value == 1.0


def test_no_predictions_at_all() -> None:
    found = denial_estimates([])
    assert all(estimate.value is None and estimate.n == 0 for estimate in found.values())
    assert found["overall"].reason == "no clips"
    assert found["hm"].reason == "no denial clips and no presence clips"


def test_denial_clips_of_unknown_type_count_in_overall_ad_alone(predict: Callable[..., Prediction]) -> None:
    found = denial_accuracy([predict("denial", 3)] * 3549)
    assert found["t1"].value is found["t2"].value is None
    assert found["t1"].reason == found["t2"].reason == "types not known for 3,549 denial clips"
    assert (found["overall_ad"].value, found["overall_ad"].n) == (1.0, 3549)
    assert denial_accuracy([predict("denial", 3)])["t1"].reason == "types not known for 1 denial clip"


def test_presence_clips_asked_without_their_action_count_as_denial_without_a_type(
    predict: Callable[..., Prediction],
) -> None:
    transfer = {"setup": "transfer_4", "primary_distractor": None}
    asked = [predict("denial", choice, **transfer) for choice in (3, 3, 1, None)]
    asked += [predict("presence", choice, **transfer) for choice in (0, 3)]
    found = denial_accuracy(asked)
    assert [found[name].value for name in ("overall_ad", "ap", "hm")] == [1 / 2, 1 / 2, 1 / 2]
    assert (found["hallucinated_action"].value, found["false_denial"].value) == (1 / 4, 1 / 2)
    assert found["t1"].reason == found["t2"].reason == "no types: the action of presence clips was not offered"
    accumulated = DenialAccuracy()
    accumulated.update(asked)
    assert accumulated.compute()["t1"]["reason"] == found["t1"].reason
    # Where real denial clips of unknown type are among them, those are what lacks a type.
    mixed = denial_accuracy([*asked, predict("denial", 3), predict("denial", 3)])
    assert mixed["t1"].reason == "types not known for 2 denial clips"


@pytest.mark.parametrize("status", [s for s in ParseStatus if s is not ParseStatus.OK])
def test_predictions_without_a_choice_are_not_right_and_stay_in_n(
    predict: Callable[..., Prediction], status: ParseStatus
) -> None:
    found = denial_accuracy([predict("presence", None, status=status), predict("presence", 0)])
    assert (found["ap"].value, found["ap"].n) == (0.5, 2)
    assert found["false_denial"].value == 0.0
    found = denial_accuracy([predict("context_only", None, status=status), predict("context_only", 3)])
    assert (found["t1"].value, found["t1"].n) == (0.5, 2)
    assert found["hallucinated_action"].value == 0.0


def test_setups_without_none_choice_or_primary_distractor(predict: Callable[..., Prediction]) -> None:
    yes_no = {"none_choice": None, "primary_distractor": None, "num_choices": 2}
    found = denial_accuracy(
        [predict("presence", 1, target=0, **yes_no), predict("context_only", 0, target=1, **yes_no)]
    )
    assert found["false_denial"].reason == "no presence clips with a none choice"
    assert found["hallucinated_action"].value == 1.0
    assert found["primary_distractor"].value is None


def test_other_kinds_are_refused(predict: Callable[..., Prediction]) -> None:
    with pytest.raises(DataError) as error:
        denial_accuracy([predict("node_count", 0, question_id="c1|graph_vqa|0", setup="graph_vqa")])
    assert str(error.value) == (
        "Prediction 'c1|graph_vqa|0' of setup 'graph_vqa' has kind 'node_count', but denial metrics need a kind of clip "
        "(presence, context_only, different_motion, denial). Use metrics.accuracy for setups whose questions deny nothing."
    )


@given(ANSWERS)
@settings(deadline=None)
def test_agreement_with_scikit_learn(
    predict: Callable[..., Prediction], answers: list[tuple[ClipKind, int | None, str]]
) -> None:
    predictions = [predict(kind, choice, source=source) for kind, choice, source in answers]
    found = values(predictions)
    parts = {
        "t1": [ClipKind.CONTEXT_ONLY],
        "t2": [ClipKind.DIFFERENT_MOTION],
        "ap": [ClipKind.PRESENCE],
        "overall": list(ClipKind),
    }
    for name, kinds in parts.items():
        part = [p for p in predictions if p.kind in kinds]
        if part:
            chosen = [-1 if p.choice is None else p.choice for p in part]
            assert found[name] == pytest.approx(accuracy_score([p.target for p in part], chosen)), name
    denial = [p.kind != "presence" for p in predictions]
    denied = [p.choice == p.none_choice for p in predictions]
    if any(denial):
        assert found["overall_ad"] == pytest.approx(recall_score(denial, denied))
    if not all(denial):
        assert found["false_denial"] == pytest.approx(1 - recall_score(denial, denied, pos_label=False))


@given(ANSWERS, st.data())
@settings(deadline=None, max_examples=25)
def test_order_and_duplication_change_nothing(
    predict: Callable[..., Prediction], answers: list[tuple[ClipKind, int | None, str]], data: Any
) -> None:
    predictions = [predict(kind, choice, source=source) for kind, choice, source in answers]
    found = denial_estimates(predictions, num_draws=20)
    assert denial_estimates(data.draw(st.permutations(predictions)), num_draws=20) == found
    for name, twice in denial_estimates(predictions * 2, num_draws=20).items():
        assert (twice.value, twice.low, twice.high) == (found[name].value, found[name].low, found[name].high)
        assert twice.n == 2 * found[name].n


def test_intervals_need_two_sources_on_each_side(predict: Callable[..., Prediction]) -> None:
    denial = [predict("context_only", 3 * (i % 2), source=f"s{i}") for i in range(6)]
    found = denial_estimates([*denial, predict("presence", 0, source="s0")])
    assert found["t1"].low is not None and found["t1"].reason == ""
    assert (found["ap"].value, found["ap"].low, found["ap"].reason) == (1.0, None, ONE_SOURCE)
    assert (found["hm"].low, found["hm"].reason) == (None, ONE_SOURCE)
    assert ONE_SOURCE == "no interval: it needs clips from at least 2 sources"


@given(ANSWERS, st.integers(0, 30))
@settings(deadline=None, max_examples=25)
def test_accumulator_equals_the_pure_function(
    predict: Callable[..., Prediction], answers: list[tuple[ClipKind, int | None, str]], cut: int
) -> None:
    predictions = [predict(kind, choice) for kind, choice, _ in answers]
    metric = DenialAccuracy()
    metric.update(predictions[:cut])
    metric.update(predictions[cut:])
    found = metric.compute()
    statuses = {name: found.pop(name) for name in ("unparsed", "refusal", "truncated", "error")}
    assert found == {name: estimate.to_json() for name, estimate in denial_accuracy(predictions).items()}
    assert statuses == {
        "unparsed": sum(p.choice is None for p in predictions),
        "refusal": 0,
        "truncated": 0,
        "error": 0,
    }
    metric.reset()
    metric.update([])
    assert metric.compute()["overall"] == {"value": None, "low": None, "high": None, "n": 0, "reason": "no clips"}
