"""The content of metrics.json."""

import dataclasses
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.metrics.summary import asks_for_denial, summarise
from actdeny_train.types import ParseStatus, Prediction


def test_shape_and_values(predict: Callable[..., Prediction], twelve: list[Prediction]) -> None:
    causalact = [dataclasses.replace(p, prompt="causalact") for p in twelve]
    captions = [
        predict("presence", i % 2, setup="caption", prompt="open", none_choice=None, source=f"s{i}") for i in range(4)
    ]
    graph = [
        predict("node_count", 1, target=1, setup="graph_vqa", group="structure"),
        predict("node_count", None, target=1, setup="graph_vqa", group="structure", status=ParseStatus.TRUNCATED),
    ]
    summary = summarise([*twelve, *causalact, *captions, *graph])
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary

    assert {setup: set(prompts) for setup, prompts in summary["setups"].items()} == {
        "standard": {"plain", "causalact"},
        "caption": {"open"},
        "graph_vqa": {"plain"},
    }
    standard = summary["setups"]["standard"]["plain"]
    assert standard == summary["setups"]["standard"]["causalact"]
    assert standard["hm"]["value"] == 0.5 and standard["hm"]["n"] == 12
    assert standard["hm"]["low"] < 0.5 < standard["hm"]["high"]
    assert {key: standard[key] for key in ("unparsed", "refusal", "truncated", "error", "types_unknown")} == {
        "unparsed": 1,
        "refusal": 0,
        "truncated": 0,
        "error": 0,
        "types_unknown": 0,
    }
    caption = summary["setups"]["caption"]["open"]
    assert (caption["accuracy"]["value"], caption["accuracy"]["n"]) == (0.5, 4)
    assert caption["by_kind"] == {"presence": caption["accuracy"]}
    assert summary["setups"]["graph_vqa"]["plain"]["truncated"] == 1
    assert (summary["graph_vqa"]["node_count"]["value"], summary["graph_vqa"]["node_count"]["n"]) == (0.5, 2)
    assert summary["graph_vqa_groups"]["structure"] == summary["graph_vqa"]["node_count"]
    assert summary["intervals"] == {"level": 0.95, "over": "resampled sources", "num_draws": 2000, "seed": 0}


def test_order_of_lines_changes_nothing(twelve: list[Prediction]) -> None:
    shuffled = random.Random(0).sample(twelve, len(twelve))
    assert json.dumps(summarise(shuffled)) == json.dumps(summarise(twelve))


def test_predictions_read_back_from_json_give_the_same(twelve: list[Prediction]) -> None:
    lines = [json.loads(json.dumps(p.to_json())) for p in twelve]
    assert summarise(map(Prediction.from_json, lines)) == summarise(twelve)


def test_types_unknown_are_counted(predict: Callable[..., Prediction]) -> None:
    cell = summarise([predict("denial", 3), predict("denial", 1), predict("context_only", 3)])["setups"]["standard"][
        "plain"
    ]
    assert cell["types_unknown"] == 2
    assert (cell["t1"]["value"], cell["t1"]["n"]) == (1.0, 1)
    assert cell["t2"] == {
        "value": None,
        "low": None,
        "high": None,
        "n": 0,
        "reason": "types not known for 2 denial clips",
    }


def test_no_predictions() -> None:
    summary = summarise([])
    assert all(summary[name] == {} for name in ("setups", "sycophancy", "detection", "graph_vqa", "graph_vqa_groups"))


def test_parts_of_a_denial_cell(twelve_scored: list[Prediction], twelve_yes_no: list[Prediction]) -> None:
    causalact = [dataclasses.replace(p, prompt="causalact") for p in twelve_scored]
    summary = summarise([*twelve_scored, *causalact, *twelve_yes_no], num_draws=200)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    cell = summary["setups"]["standard"]["plain"]
    assert set(cell) == {
        *("t1", "t2", "overall_ad", "ap", "overall", "hm", "false_denial", "hallucinated_action", "primary_distractor"),
        *("unparsed", "refusal", "truncated", "error", "types_unknown"),
        *("pair", "by_class", "by_source", "positions", "positions_none", "answers_on_denial", "answers_on_presence"),
        *("abstention", "agreement", "score_accuracy", "strict", "rotations"),
    }
    # Worked out on paper in the tests of the modules.
    assert (cell["pair"]["value"], cell["pair"]["n"]) == (1 / 4, 2)
    assert cell["by_class"]["Fencing"]["ap"] == {"value": 1 / 3, "low": None, "high": None, "n": 3}
    assert cell["by_source"]["c"] == {"value": 1 / 4, "low": None, "high": None, "n": 4}
    assert [place["chosen"]["value"] for place in cell["positions"]] == [5 / 12, 1 / 12, 1 / 12, 4 / 12]
    assert cell["positions_none"][3]["right"]["value"] == 3 / 7
    assert cell["answers_on_denial"]["none"]["value"] == 3 / 7
    assert cell["answers_on_presence"]["target_action"]["value"] == 3 / 5
    assert cell["abstention"]["auroc_none"]["value"] == pytest.approx(30.5 / 35)
    assert len(cell["abstention"]["risk_coverage"]) == 100
    assert (cell["agreement"]["value"], cell["score_accuracy"]["value"]) == (10 / 11, 7 / 12)
    # Only the prompt with yes/no questions has them.
    assert set(summary["sycophancy"]) == set(summary["detection"]) == {"plain"}
    assert summary["sycophancy"]["plain"]["all"]["r"]["value"] == pytest.approx(5 / 12)
    assert summary["sycophancy"]["plain"]["yes_random"]["value"] == 2 / 7
    assert summary["detection"]["plain"]["auroc"]["value"] == pytest.approx(29.5 / 35)


def test_denial_clips_alone(twelve_scored: list[Prediction]) -> None:
    removed = [
        dataclasses.replace(p, setup="primary_distractor_removed", primary_distractor=None) for p in twelve_scored[:7]
    ]
    cell = summarise(removed, num_draws=20)["setups"]["primary_distractor_removed"]["plain"]
    undefined = (
        cell["ap"],
        cell["hm"],
        cell["pair"],
        cell["abstention"]["auroc_none"],
        cell["answers_on_presence"]["none"],
    )
    assert {(estimate["value"], estimate["reason"]) for estimate in undefined} == {(None, "no presence clips")}
    assert cell["overall_ad"]["value"] == cell["answers_on_denial"]["none"]["value"] == 3 / 7
    assert cell["abstention"]["reliability"]["presence"] == []


def permute(prediction: Prediction, order: list[int]) -> Prediction:
    """Return the prediction of the question with choice ``order[i]`` at place i."""

    def move(place: int | None) -> int | None:
        return None if place is None else order.index(place)

    return dataclasses.replace(
        prediction,
        target=order.index(prediction.target),
        choice=move(prediction.choice),
        none_choice=move(prediction.none_choice),
        primary_distractor=move(prediction.primary_distractor),
        logprobs=tuple(prediction.logprobs[i] for i in order) if prediction.logprobs else (),
    )


def without_places(summary: dict[str, Any]) -> dict[str, Any]:
    setups = {
        setup: {
            prompt: {name: part for name, part in cell.items() if not name.startswith("positions")}
            for prompt, cell in prompts.items()
        }
        for setup, prompts in summary["setups"].items()
    }
    return {**summary, "setups": setups}


@given(st.integers(0, 10**6), st.integers(0, 12))
@settings(deadline=None, max_examples=15)
def test_order_of_choices_changes_places_alone(at_random: Callable[..., list[Prediction]], seed: int, n: int) -> None:
    predictions = at_random(seed, n)
    draw = np.random.default_rng(seed)
    # The answers of yes/no questions have fixed places.
    permuted = [
        p if p.setup.startswith("yes_no") else permute(p, draw.permutation(p.num_choices).tolist()) for p in predictions
    ]
    found, again = summarise(predictions, num_draws=20), summarise(permuted, num_draws=20)
    assert without_places(again) == without_places(found)


@given(st.integers(0, 10**6), st.integers(0, 12))
@settings(deadline=None, max_examples=15)
def test_order_of_predictions_changes_nothing(at_random: Callable[..., list[Prediction]], seed: int, n: int) -> None:
    predictions = at_random(seed, n)
    shuffled = [predictions[i] for i in np.random.default_rng(seed).permutation(len(predictions))]
    text, again = (json.dumps(summarise(p, num_draws=20), allow_nan=False) for p in (predictions, shuffled))
    assert again == text


DEPEND_ON_N = ("n", "reason", "p", "d_prime", "criterion", "types_unknown", *(s.value for s in ParseStatus))
"""What twice the data may change: counts and reasons that tell them, the p of r, and the log-linear correction of d'."""


def values_of(summary: Any, path: str = "") -> dict[str, float | None]:
    """Return every number of a summary by its path, but those that depend on how many clips there are."""
    if isinstance(summary, dict):
        parts: Any = summary.items()
    elif isinstance(summary, list):
        parts = enumerate(summary)
    else:
        return {path: summary}
    return {
        key: value
        for name, part in parts
        if not (name in DEPEND_ON_N and not isinstance(part, dict)) and name not in ("d_prime", "criterion")
        for key, value in values_of(part, f"{path}/{name}").items()
    }


@given(st.integers(0, 10**6), st.integers(0, 12))
@settings(deadline=None, max_examples=15)
def test_twice_the_data_gives_the_same_values(at_random: Callable[..., list[Prediction]], seed: int, n: int) -> None:
    predictions = at_random(seed, n)
    copies = [
        dataclasses.replace(p, question_id=f"copy {p.question_id}", clip_ids=(f"copy {p.clip_ids[0]}",))
        for p in predictions
    ]
    found, again = (values_of(summarise(p, num_draws=20)) for p in (predictions, [*predictions, *copies]))
    assert again.keys() == found.keys()
    for path, value in found.items():
        assert again[path] == (pytest.approx(value, abs=1e-12) if isinstance(value, float) else value), path


def test_which_setups_ask_for_denial(predict: Callable[..., Prediction]) -> None:
    assert asks_for_denial([predict("presence", 0)])
    assert asks_for_denial([predict("context_only", 0, none_choice=None)])
    assert not asks_for_denial([predict("presence", 0, none_choice=None)])
    assert not asks_for_denial([predict("what_object", 0, none_choice=None), predict("presence", 0)])
