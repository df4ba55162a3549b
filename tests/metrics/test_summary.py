"""The content of metrics.json."""

import dataclasses
import json
import random
from collections.abc import Callable

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
    assert summary["setups"] == summary["graph_vqa"] == summary["graph_vqa_groups"] == {}


def test_which_setups_ask_for_denial(predict: Callable[..., Prediction]) -> None:
    assert asks_for_denial([predict("presence", 0)])
    assert asks_for_denial([predict("context_only", 0, none_choice=None)])
    assert not asks_for_denial([predict("presence", 0, none_choice=None)])
    assert not asks_for_denial([predict("what_object", 0, none_choice=None), predict("presence", 0)])
