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


@pytest.mark.parametrize("tool", sorted((ROOT / "tools").glob("*.py")), ids=lambda tool: tool.name)
def test_every_tool_says_what_it_does(tool: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(tool), "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0 and ran.stderr == "" and ran.stdout.startswith(f"usage: {tool.name} [-h]")
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize(
    ("override", "text"),
    [
        (
            "split=tset",
            "Manifest has no clip in split 'tset'. Splits with clips: test, train, val. Did you mean 'test'?",
        ),
        ("ask.0.count=0", "count of an evaluation's question source is 0, but must be at least 1."),
        ("data.root=/no/such/folder", "The video root of Manifest is missing: '/no/such/folder'"),
        (
            "data={_target_: actdeny_train.datasets.ucf101_ad.UCF101AD, root: /no/such/folder}",
            "/no/such/folder",
        ),
    ],
)
def test_mistakes_of_an_evaluation(
    evaluate_config: Path, override: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text in refused(cli.evaluate, [evaluate_config, override], capsys)


def test_an_evaluation_prints_its_tables_and_keeps_its_config(
    evaluate_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = "ask=[{source: {_target_: actdeny_train.questions.mcq.Standard}}]"
    assert cli.evaluate([str(evaluate_config), ask, "name=told"]) == 0
    said = capsys.readouterr().out
    assert "Denial metrics" in said and f"predictions, metrics and config: {tmp_path / 'runs' / 'told'}" in said
    kept = tmp_path / "runs" / "told" / "config.yaml"
    assert cli.check_configs([str(kept)]) == 0, "the saved config is one that the tool reads"
    before = (tmp_path / "runs" / "told" / "predictions.jsonl").read_bytes()
    assert cli.evaluate([str(kept)]) == 0
    assert (tmp_path / "runs" / "told" / "predictions.jsonl").read_bytes() == before


def test_a_training_says_where_its_model_lies_and_is_not_started_twice(
    train_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.train([str(train_config), "batch.num_steps=1"]) == 0
    assert f"trained model: {tmp_path / 'checkpoints' / 'run' / 'model'}" in capsys.readouterr().out
    assert "already holds a run" in refused(cli.train, [train_config, "batch.num_steps=1"], capsys)
    kept = tmp_path / "checkpoints" / "run" / "config.yaml"
    assert cli.train([str(kept), "--resume"]) == 0, "the saved config resumes the run"
    assert "other settings under seed" in refused(cli.train, [kept, "--resume", "seed=3"], capsys)


def test_what_cannot_be_exported_or_resumed(
    train_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert str(tmp_path / "nothing") in refused(cli.export, [tmp_path / "nothing", tmp_path / "out"], capsys)
    assert "Nothing to resume" in refused(cli.train, [train_config, "--resume"], capsys)
    assert "There is no config file" in refused(cli.train, [tmp_path / "no.yaml"], capsys)


def test_a_wrong_command_line_is_refused_by_its_parser(train_config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for main, argv in ((cli.train, [str(train_config), "--dry-run", "--resume"]), (cli.benchmark, ["forest"])):
        with pytest.raises(SystemExit) as caught:
            main(argv)
        assert caught.value.code == 2 and "usage:" in capsys.readouterr().err


def test_configs_are_checked_without_being_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(file) for file in sorted((ROOT / "configs").rglob("*.yaml"))]
    assert cli.check_configs(files) == 0
    assert capsys.readouterr().out == f"{len(files)} configs are sound\n"
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        (ROOT / "configs/qwen3b_full.yaml").read_text("utf-8").replace("num_epochs", "num_epoch"), "utf-8"
    )
    text = refused(cli.check_configs, [*files, broken], capsys)
    assert f"{broken}: unknown key 'batch.num_epoch'. Did you mean 'num_epochs'" in text


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


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if any(folder.glob(pattern)):
            return
        assert process.poll() is None, "the process ended before it could be killed"
        time.sleep(0.1)
    raise AssertionError(f"{folder / pattern} never came")


def start(tool: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "tools" / tool), *(str(a) for a in arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_an_evaluation_killed_in_mid_work_holds_the_same_lines(evaluate_config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    assert start("evaluate.py", evaluate_config, "name=whole", "clips_per_share=1").wait() == 0
    process = start("evaluate.py", evaluate_config, "clips_per_share=1")
    wait_for(folder / "run", "predictions.part-*.jsonl", process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not (folder / "run" / "metrics.json").exists()
    assert start("evaluate.py", evaluate_config, "clips_per_share=1").wait() == 0
    ours, theirs = ((folder / name / "predictions.jsonl").read_bytes().splitlines() for name in ("run", "whole"))
    assert sorted(ours) == sorted(theirs) and len(set(ours)) == len(ours)
