"""The tools as a user runs them: errors in one paragraph, a dry run, and kills in mid-work."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from actdeny_train import cli

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def refused(main: object, argv: Sequence[object], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a tool that must fail for the user's sake; return its message."""
    assert main([str(a) for a in argv]) == 2  # type: ignore[operator]
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "Traceback" not in error
    assert len(error.strip().splitlines()) == 1, "one paragraph"
    return error


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("batch.clip_per_step=3", "unknown key 'batch.clip_per_step'. Did you mean 'clips_per_step'"),
        (
            "optimizer.lr.llm=fast",
            "optimizer.lr must be dict[str, float] (at llm: Input should be a valid number), but is {",
        ),
        ("batch.num_steps=many", "batch.num_steps must be int | None"),
        ("data.root=/no/such/folder", "The video root of Manifest is missing: '/no/such/folder'"),
        ("model.checkpoint=/no/such/model", "There is no checkpoint folder /no/such/model."),
        ("frames._target_=actdeny_train.video.sampling.Midle", "has no 'Midle'. Did you mean 'Middle'"),
        ("nonsense", "Cannot read the override 'nonsense': write key=value"),
    ],
)
def test_mistakes_are_told_in_one_paragraph(
    train_config: Path, override: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text in refused(cli.train, [train_config, override], capsys)


def test_a_source_in_two_splits(train_config: Path, small_clips: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in (small_clips / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["source"] = "one long video"
    manifest = train_config.with_name("leak.jsonl")
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = refused(cli.train, [train_config, f"data.file={manifest}"], capsys)
    assert "Source 'one long video' lies in two splits" in text and "must lie in one split" in text


def test_weights_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    text = refused(cli.train, [ROOT / "configs/qwen3b_full.yaml", "--dry-run"], capsys)
    assert "Cannot load Qwen/Qwen2.5-VL-3B-Instruct at revision" in text
    assert "run `hf download Qwen/Qwen2.5-VL-3B-Instruct --revision" in text and "model.checkpoint=FOLDER" in text


def test_the_wrong_tool_for_a_config(evaluate_config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(cli.train, [evaluate_config], capsys)
    assert "the top level must be a TrainRun, but its _target_ actdeny_train.evaluation.run.EvaluateRun makes" in text


def test_a_dry_run_prints_the_plan_of_the_published_settings(
    tiny_folder: Path,
    small_clips: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = f"{{_target_: actdeny_train.datasets.manifest.Manifest, root: {small_clips}, file: {small_clips}/manifest.jsonl}}"
    argv = ["--dry-run", f"model.checkpoint={tiny_folder}", f"data={manifest}", "model.tokens_per_frame=[4,4]"]
    assert cli.train([str(ROOT / "configs/qwen3b_full.yaml"), *argv]) == 0
    lines = capsys.readouterr().out
    for part, rate in (("vision", "1e-06"), ("projector", "1e-05"), ("llm", "2e-07")):
        assert any(line.split()[:1] == [part] and line.endswith(f"learning rate {rate}") for line in lines.splitlines())
    assert "6 train clips of 2 sources, 0 quarantined; 1 steps of 16 clips x 1 questions" in lines
    assert "trained tokens: '" in lines and "<|im_end|>' (" in lines
    assert "tokens in the first forest:" in lines and "memory on each device: weights" in lines
    assert list(tmp_path.iterdir()) == [], "a dry run writes nothing"


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if path.exists():
            return
        assert process.poll() is None, "the process ended before it could be killed"
        time.sleep(0.1)
    raise AssertionError(f"{path} never came")


def start(tool: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "tools" / tool), *(str(a) for a in arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_training_killed_in_mid_work_ends_with_the_same_bytes(train_config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    steps = ("batch.num_steps=40", "output.save_every_steps=3")
    assert start("train.py", train_config, *steps, "name=whole").wait() == 0
    process = start("train.py", train_config, *steps)
    wait_for(folder / "run" / "last.ckpt", process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not (folder / "run" / "model").exists()
    assert start("train.py", train_config, *steps, "--resume").wait() == 0
    ours, theirs = (folder / name / "model" / "model.safetensors" for name in ("run", "whole"))
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.slow
def test_an_evaluation_killed_in_mid_work_holds_the_same_lines(evaluate_config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    assert start("evaluate.py", evaluate_config, "name=whole").wait() == 0
    process = start("evaluate.py", evaluate_config)
    wait_for(folder / "run" / "predictions.jsonl", process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not (folder / "run" / "metrics.json").exists()
    assert start("evaluate.py", evaluate_config).wait() == 0
    ours, theirs = ((folder / name / "predictions.jsonl").read_bytes().splitlines() for name in ("run", "whole"))
    assert sorted(ours) == sorted(theirs) and len(set(ours)) == len(ours)


@pytest.mark.slow
def test_two_devices_train_as_one(train_config: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = tmp_path / "checkpoints"
    more = ("batch.num_steps=3", "batch.clips_per_micro_batch=1")
    assert start("train.py", train_config, *more, "name=one").wait() == 0
    assert start("train.py", train_config, *more, "name=two", "hardware.devices=2", "hardware.strategy=ddp").wait() == 0
    one, two = (load_file(folder / name / "model" / "model.safetensors") for name in ("one", "two"))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-4, atol=1e-5)
