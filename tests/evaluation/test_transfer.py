"""Transfer denial from the shipped configs to the report, on the six datasets in small."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actdeny_train import config
from actdeny_train.errors import DataError
from actdeny_train.evaluation.evaluate import evaluate
from actdeny_train.evaluation.freeze import freeze
from actdeny_train.evaluation.plan import Questions
from actdeny_train.evaluation.run import EvaluateRun
from actdeny_train.export.benchmark.cells import group
from actdeny_train.export.benchmark.export import export_benchmark
from actdeny_train.questions.frozen import read_questions
from actdeny_train.report.html import write_report
from tests.miniatures import MINIATURES, Miniature
from tests.report.pages import parse

CONFIGS = Path(__file__).resolve().parents[2] / "configs/evaluate"
CONTROLS = "actdeny_train.evaluation.controls"
NO_TYPES = "no types: the action of presence clips was not offered"
MakeRun = Callable[..., EvaluateRun]


@pytest.fixture
def make_run(miniature: Callable[[str], Miniature], tiny_folder: Path, tmp_path: Path) -> MakeRun:
    """Make the run of a shipped config on its dataset in small: ``make_run("hmdb51", "seed=1")``, by a tiny model."""
    tiny = f"{{_target_: actdeny_train.models.qwen2_5_vl.load, checkpoint: '{tiny_folder}', tokens_per_frame: [4, 4]}}"

    def make(name: str, *overrides: str) -> EvaluateRun:
        data = ", ".join(f"{key}: '{value}'" for key, value in miniature(name).data.items() if value is not False)
        sizes = ["data.official_sizes=false"] if "official_sizes" in miniature(name).data else []
        given = (
            f"data={{{data}}}",
            *sizes,
            f"folder={tmp_path}",
            f"model={tiny}",
            "frames.num_frames=4",
            "num_workers=0",
        )
        values = config.read(
            CONFIGS / f"transfer_{name}.yaml",
            ("frames={_target_: actdeny_train.video.sampling.Middle}", *given, "device=cpu", *overrides),
        )
        return config.parse(values, EvaluateRun, name)

    return make


def cells_of(summary: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for prompts in summary["setups"].values() for cell in prompts.values()]


@pytest.mark.parametrize("name", MINIATURES)
def test_a_model_and_controls_on_every_dataset(
    name: str, make_run: MakeRun, miniature: Callable[[str], Miniature], tmp_path: Path
) -> None:
    made = miniature(name)
    n = len(made.clips)
    setups = {"transfer", "transfer_minimal_pairs"} if name == "something_v2" else {"transfer"}
    given = {
        "tiny": evaluate(make_run(name, "name=tiny")),
        # On presence clips it names their action, and has no other where that is not offered: always right here.
        "oracle": evaluate(make_run(name, "name=oracle", f"model={{_target_: {CONTROLS}.AlwaysPrimaryDistractor}}")),
        "none": evaluate(make_run(name, "name=none", f"model={{_target_: {CONTROLS}.AlwaysNone}}")),
    }
    for who, summary in given.items():
        assert set(summary["setups"]) == setups
        assert summary["clips"] == {"split": made.split, "used": n, "quarantined": len(made.missing)}
        for prompts in summary["setups"].values():
            assert set(prompts) == {"plain", "causalact"}
        for cell in cells_of(summary):
            assert (cell["overall_ad"]["n"], cell["ap"]["n"], cell["overall"]["n"]) == (n, n, 2 * n)
            assert cell["t1"] == cell["t2"] == {"value": None, "low": None, "high": None, "n": 0, "reason": NO_TYPES}
            assert cell["types_unknown"] == 0
            values = tuple(cell[key]["value"] for key in ("overall_ad", "ap", "hm"))
            assert who == "tiny" or values == {"oracle": (1.0, 1.0, 1.0), "none": (1.0, 0.0, 0.0)}[who]
    page = parse(write_report([tmp_path / who for who in given], tmp_path / "report.html"))
    assert NO_TYPES in page.text
    assert len(page.one("table", id="results").one("tbody").all("tr")) == 3 * 2 * len(setups)
    told = page.one("table", id="prompts").text
    assert all(setup in told for setup in setups) and "Overall-AD" in told and "T1" not in told


def test_frozen_questions_ask_both_sides(make_run: MakeRun, tmp_path: Path) -> None:
    random = f"model={{_target_: {CONTROLS}.RandomChoice}}"
    drawn = evaluate(make_run("finegym99", "name=drawn", random))
    file = tmp_path / "questions.jsonl"
    assert freeze(make_run("finegym99"), file) == 3 * 2 * 2
    frozen = evaluate(make_run("finegym99", "name=frozen", f"questions_file={file}", random))
    assert frozen["setups"] == drawn["setups"]
    same = [(tmp_path / name / "predictions.jsonl").read_bytes() for name in ("drawn", "frozen")]
    assert same[0] == same[1]
    source = f"{{_target_: actdeny_train.questions.frozen.FrozenQuestions, file: '{file}', name: transfer}}"
    again = evaluate(make_run("finegym99", "name=by_source", f"ask=[{{source: {source}, count: 2}}]", random))
    assert again["setups"] == {"transfer": {"plain": drawn["setups"]["transfer"]["plain"]}}


def test_exports_count_a_question_without_its_action_as_denial(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("hmdb51")
    data = run.data.build()
    clips = data.clips(run.split)
    questions = [q for clip in clips for q in Questions(run.ask, data.labels, run.seed).about(clip)]
    for folder in export_benchmark(clips, questions, tmp_path / "out", video_root=data.root):
        assert any(folder.iterdir())
    kinds = {cell.name: cell.kinds for cell in group(clips, questions)}
    assert kinds == {"transfer_plain": {"presence", "denial"}, "transfer_causalact": {"presence", "denial"}}
    lines = (tmp_path / "out/lmms_eval/questions/transfer_plain.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(json.loads(line)["record"])["kind"] for line in lines] == ["presence", "denial"] * 3
    task = (tmp_path / "out/lmms_eval/ActDeny_transfer_plain.yaml").read_text(encoding="utf-8")
    assert "metric: hm\n" in task and "metric: t1\n" not in task


def test_a_frozen_denial_is_not_asked_of_a_clip_whose_kind_changed(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("hmdb51")
    file = tmp_path / "questions.jsonl"
    freeze(run, file)
    text = file.read_text(encoding="utf-8").replace('"setup": "transfer"', '"setup": "standard"')
    file.write_text(text.replace('"opening": "transfer|', '"opening": "standard|'), encoding="utf-8")
    assert len(read_questions(file)) == 12
    with pytest.raises(
        DataError, match=r"was made for a clip of kind 'denial', but clip '.*' is of kind 'presence' now"
    ):
        evaluate(make_run("hmdb51", "name=changed", f"questions_file={file}"))
