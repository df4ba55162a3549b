"""Settings of an evaluation, and what a small one writes."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from actdeny_train import config
from actdeny_train.datasets.manifest import read_manifest
from actdeny_train.errors import ConfigError
from actdeny_train.evaluation import evaluate as evaluation
from actdeny_train.evaluation.evaluate import find_device
from actdeny_train.evaluation.folder import open_folder
from actdeny_train.evaluation.run import Ask, EvaluateRun, grid
from actdeny_train.evaluation.scoring import Answer
from actdeny_train.models.batch import Batch
from actdeny_train.questions.graph_vqa import GraphQuestions
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.prompts import CausalAct, Plain
from actdeny_train.questions.yes_no import YesNoPrimary
from actdeny_train.types import ClipKind
from actdeny_train.video.sampling import Middle

MakeRun = Callable[..., EvaluateRun]
STANDARD = "{source: {_target_: actdeny_train.questions.mcq.Standard}}"


def refuse(text: str, make: Callable[..., Any], **values: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**values)
    assert str(caught.value) == text


def test_what_is_refused(make_run: MakeRun) -> None:
    refuse("count of an evaluation's question source is 0, but must be at least 1.", Ask, source=Standard(), count=0)
    fields = {field.name: getattr(make_run(), field.name) for field in dataclasses.fields(EvaluateRun)}
    for name in ("", "a/b", ".hidden"):
        refuse(f"name is {name!r}, but must be the plain name of a folder.", EvaluateRun, **{**fields, "name": name})
    refuse("num_workers is -1, but must be 0 or more.", EvaluateRun, **{**fields, "num_workers": -1})
    refuse("An evaluation needs at least one entry under ask.", EvaluateRun, **{**fields, "ask": ()})
    for name in ("clips_per_share", "tokens_per_forest", "max_new_tokens"):
        refuse(f"{name} of an evaluation is 0, but must be at least 1.", EvaluateRun, **{**fields, name: 0})


def test_a_grid_asks_every_setup_under_every_prompt() -> None:
    asked = grid((Standard(), YesNoPrimary()), (Plain(), CausalAct()), count=2)
    assert asked == tuple(
        Ask(source=source, count=2)
        for source in (Standard(Plain()), Standard(CausalAct()), YesNoPrimary(Plain()), YesNoPrimary(CausalAct()))
    )
    refuse(
        "A grid has GraphQuestions under setups, which takes no prompt. List such a source under ask, without a grid.",
        grid,
        setups=(GraphQuestions(),),
        prompts=(Plain(),),
    )
    refuse("A grid needs at least one entry under setups and one under prompts.", grid, setups=(), prompts=(Plain(),))


def test_a_model_is_a_family_or_a_control(evaluate_config: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(
            config.read(evaluate_config, ["model={_target_: actdeny_train.questions.mcq.Standard}"]),
            EvaluateRun,
            "e.yaml",
        )
    assert str(caught.value) == (
        "e.yaml: model must be a Family | Control, but its _target_ actdeny_train.questions.mcq.Standard makes a Standard. Name another "
        "target."
    )


def test_the_default_is_the_released_evaluation() -> None:
    makes: dict[str, Any] = {field.name: field.default_factory for field in dataclasses.fields(EvaluateRun)}
    assert makes["frames"]() == Middle(num_frames=12)
    assert makes["ask"]() == (Ask(source=Standard(prompt=Plain())), Ask(source=Standard(prompt=CausalAct())))
    assert all(one.count == 1 and one.kinds is None for one in makes["ask"]())


def test_the_device_is_the_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    refuse(
        "device is 'cuda', but PyTorch finds no CUDA device here. Set device to auto or cpu, or mend the driver.",
        find_device,
        name="cuda",
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("auto") == find_device("cuda") == torch.device("cuda", 0)
    assert find_device("auto", 1) == torch.device("cuda", 1)
    refuse(
        "Process 2 of this machine has no CUDA device: there are 2. Start one process a device (torchrun --nproc-per-node), or set device "
        "to cpu.",
        find_device,
        name="auto",
        local_rank=2,
    )
    assert find_device("cpu") == torch.device("cpu")


def test_questions_go_to_the_kinds_of_clips_that_are_named(answer: Callable[..., Any], tmp_path: Path) -> None:
    answer(
        "ask=[{source: {_target_: actdeny_train.questions.mcq.Standard}, kinds: [presence, context_only], count: 2}]"
    )
    lines = [json.loads(x) for x in (tmp_path / "runs" / "run" / "predictions.jsonl").read_text("utf-8").splitlines()]
    assert sorted(line["kind"] for line in lines) == [ClipKind.CONTEXT_ONLY] * 4 + [ClipKind.PRESENCE] * 4


def test_metrics_have_the_agreed_shape_without_nan(answer: Callable[..., Any], tmp_path: Path) -> None:
    summary = answer()
    text = (tmp_path / "runs" / "run" / "metrics.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=pytest.fail) == summary
    assert set(summary["setups"]) == {"standard", "graph_vqa"}
    assert set(summary["setups"]["standard"]) == {"plain", "causalact"}
    for cell in summary["setups"]["standard"].values():
        for name in ("t1", "t2", "overall_ad", "ap", "overall", "hm"):
            assert {"value", "low", "high", "n"} <= set(cell[name])
            assert cell[name]["value"] is None or 0 <= cell[name]["value"] <= 1
        assert cell["unparsed"] == cell["error"] == 0
    assert sum(kind["n"] for kind in summary["graph_vqa"].values()) == 6 * 14


def test_bfloat16_scores_near_float32_and_is_stored_under_the_same_weights(
    answer: Callable[..., Any], tmp_path: Path
) -> None:
    answer(f"ask=[{STANDARD}]")
    answer(f"ask=[{STANDARD}]", "name=half", "precision=bfloat16")
    files = [tmp_path / "runs" / name / "predictions.jsonl" for name in ("run", "half")]
    full, half = ([json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] for file in files)
    for ours, theirs in zip(full, half, strict=True):
        assert (
            theirs["logprobs"] == pytest.approx(ours["logprobs"], rel=0.02) and theirs["logprobs"] != ours["logprobs"]
        )
        assert theirs["fingerprints"] == ours["fingerprints"]


def test_scores_that_are_not_finite_are_counted_as_errors(
    answer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def answers(model: Any, batch: Batch, pairs: Any, *_: Any) -> Any:
        return [Answer((float("nan") if q.kind == ClipKind.PRESENCE else -1.0,) * 11) for _, q in pairs], 0.0, 0.0

    monkeypatch.setattr(evaluation, "answer_batch", answers)
    cell = answer(f"ask=[{STANDARD}]")["setups"]["standard"]["plain"]
    assert cell["error"] == 2 and cell["overall"]["n"] == 6
    assert cell["ap"]["value"] == 0.0, "a presence clip without an answer is not recognised"
    text = (tmp_path / "runs" / "run" / "predictions.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    assert sorted(row["status"] for row in rows) == ["error"] * 2 + ["ok"] * 4


def test_quarantined_clips_are_counted_and_named(answer: Callable[..., Any], small_clips: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    clips = [clip for clip in read_manifest(small_clips / "manifest.jsonl") if clip.split == "test"][:3]
    for clip in clips:
        (videos / clip.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(small_clips / clip.path, videos / clip.path)
    (videos / clips[1].path).write_bytes(b"no video")
    rows = [{k: v for k, v in dataclasses.asdict(clip).items() if v is not None} for clip in clips]
    (videos / "clips.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    summary = answer(f"ask=[{STANDARD}]", f"data.root={videos}", f"data.file={videos / 'clips.jsonl'}")
    assert summary["clips"] == {"split": "test", "used": 2, "quarantined": 1}
    assert summary["setups"]["standard"]["plain"]["overall"]["n"] == 2, "a score says how many clips it is over"
    listed = (tmp_path / "runs" / "run" / "quarantine.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in listed] == [clips[1].id]


def test_a_kill_while_the_config_is_written_leaves_the_former_one(
    evaluate_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = config.read(evaluate_config)
    run = config.parse(values, EvaluateRun, "test")
    saved = open_folder(run, values) / "config.yaml"
    before = saved.read_bytes()
    write = Path.write_text

    def die(path: Path, text: str, **settings: Any) -> int:
        write(path, text[:10], **settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", die)
    with pytest.raises(KeyboardInterrupt):
        open_folder(run, values)
    assert saved.read_bytes() == before
