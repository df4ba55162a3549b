"""The task folder for lmms-eval, read and run as lmms-eval does, without this package."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from actdeny_train.export.benchmark.export import export_benchmark
from actdeny_train.types import Clip, Question

SETUPS = (
    "standard",
    "explicit_denial",
    "primary_distractor_removed",
    "four_choices",
    "yes_no_primary",
    "yes_no_random",
)

SCORE = """
import inspect, utils
done = []
for docs, responses, metrics in VALUE:
    items = [utils.process_results(doc, [response]) for doc, response in zip(docs, responses, strict=True)]
    assert len({tuple(item) for item in items}) == 1, "every response has the same metrics in the same order"
    done.append({metric: getattr(utils, function)([item[metric] for item in items]) for metric, function in metrics.items()})
print(json.dumps(done))
"""


@pytest.fixture(scope="module")
def folder(clips: list[Clip], questions: list[Question], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_benchmark(clips, questions, tmp_path_factory.mktemp("out"), formats=["lmms_eval"])[0]


def load(path: Path) -> dict[str, Any]:
    """Read a YAML file as lmms-eval does: with ``include`` and ``!function``, which gives the function's name here."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))
    values: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader)
    include = values.pop("include", None)
    return ({**load(path.parent / include)} if include else {}) | values


def cells(folder: Path) -> dict[str, tuple[list[dict[str, Any]], dict[str, str]]]:
    """Return documents and metrics (with the function that aggregates each) of every task of the group."""
    found = {}
    for task in load(folder / "ActDeny.yaml")["task"]:
        values = load(folder / f"{task}.yaml")
        assert values["task"] == task
        lines = (folder / values["dataset_kwargs"]["data_files"]["test"]).read_text(encoding="utf-8").splitlines()
        metrics = {m["metric"]: m["aggregation"].removeprefix("utils.") for m in values["metric_list"]}
        found[task.removeprefix("ActDeny_")] = ([json.loads(line) for line in lines], metrics)
    return found


def test_every_question_is_asked_to_the_letter(
    folder: Path, questions: list[Question], run_alone: Callable[..., Any]
) -> None:
    docs = [doc for docs, _ in cells(folder).values() for doc in docs]
    code = "import utils\nprint(json.dumps([[utils.doc_to_text(d), utils.doc_to_target(d)] for d in VALUE]))"
    asked = run_alone(folder, code, docs)
    assert sorted(map(tuple, asked)) == sorted((q.text, q.answers[q.target]) for q in questions)
    assert len(docs) == len(questions)
    assert set(cells(folder)) == {
        *(f"{setup}_{prompt}" for setup in SETUPS for prompt in ("plain", "causalact")),
        "standard_letters_plain",
        "standard_20_plain",
        "standard_causalact_released",
    }  # fmt: skip


@pytest.mark.parametrize("shift", [0, 1])
def test_an_oracle_scores_all_or_nothing_however_it_says_it(
    folder: Path, shift: int, oracle: SimpleNamespace, run_alone: Callable[..., Any]
) -> None:
    asked, names = [], []
    for cell, (docs, metrics) in cells(folder).items():
        for style, say in oracle.styles.items():
            records = [json.loads(doc["record"]) for doc in docs]
            said = [say(r, (r["target"] + shift) % len(r["choices"])) for r in records]
            asked.append((docs, said, metrics))
            names.append((cell, style))
    for (cell, style), scores in zip(names, run_alone(folder, SCORE, asked), strict=True):
        rates = {name: scores.get(name) for name in ("t1", "t2", "overall_ad", "ap", "overall", "hm")}
        if cell.startswith("primary_distractor_removed"):
            assert rates.pop("ap") is None and rates.pop("hm") is None
        assert set(rates.values()) == {1 - shift}, (cell, style)
        assert scores["unparsed"] == scores["refusal"] == scores["truncated"] == scores["error"] == 0


def test_metrics_are_those_of_this_package(
    folder: Path, oracle: SimpleNamespace, run_alone: Callable[..., Any]
) -> None:
    asked, own = [], []
    for docs, metrics in cells(folder).values():
        records = [json.loads(doc["record"]) for doc in docs]
        said = [oracle.babble(r, seed=1) for r in records]
        asked.append((docs, said, metrics))
        own.append(oracle.expected(records, said))
    for scores, values, (_, _, metrics) in zip(run_alone(folder, SCORE, asked), own, asked, strict=True):
        assert scores == pytest.approx({name: values[name] for name in metrics}, abs=1e-12)
        assert all(values[name] is None for name in values.keys() - metrics.keys()), "nothing defined is left out"
        assert 0 < scores["overall"] < 1
        assert scores["unparsed"] + scores["refusal"] + scores["truncated"] > 0


def test_standard_errors_cluster_by_source(folder: Path, clips: list[Clip], run_alone: Callable[..., Any]) -> None:
    docs, metrics = cells(folder)["standard_plain"]
    assert load(folder / "ActDeny_standard_plain.yaml")["cluster_key"] == "source"
    code = "import utils\nprint(json.dumps([utils.process_results(d, ['3']) for d in VALUE]))"
    items = run_alone(folder, code, docs)
    sources = {clip.id: clip.source for clip in clips}
    for doc, item in zip(docs, items, strict=True):
        assert {item[m]["source"] for m in metrics if m} == {sources[json.loads(doc["record"])["clip"]]}
    assert not any("score" in item["hm"] for item in items), "lmms-eval would take them for a rate"


def test_videos_are_found_by_the_environment(folder: Path, video_root: Path, run_alone: Callable[..., Any]) -> None:
    docs = [doc for docs, _ in cells(folder).values() for doc in docs]
    code = "import utils\nprint(json.dumps([utils.doc_to_visual(d) for d in VALUE]))"
    found = run_alone(folder, code, docs, ACTDENY_VIDEO_ROOT=str(video_root))
    assert all(len(paths) == 1 and Path(paths[0]).is_file() for paths in found)
    code = (
        "import utils\ntry:\n  utils.doc_to_visual(VALUE)\nexcept FileNotFoundError as e:\n  print(json.dumps(str(e)))"
    )
    assert run_alone(folder, code, docs[0]) == (
        "There is no video 'Archery/presence/0.mp4'. Set the environment variable ACTDENY_VIDEO_ROOT (now '') to the folder that "
        "'Archery/presence/0.mp4' is relative to."
    )


def test_responses_are_not_cut_at_an_empty_line(folder: Path) -> None:
    kwargs = load(folder / "ActDeny_standard_plain.yaml")["generation_kwargs"]
    assert kwargs == {"max_new_tokens": 1024, "temperature": 0, "do_sample": False, "until": []}
