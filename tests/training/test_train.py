"""From a run to a finished model: resuming, what is written, and what is refused."""

import csv
import importlib.metadata
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning import Callback

from actdeny_train.datasets.manifest import read_manifest
from actdeny_train.errors import CheckpointError, ConfigError
from actdeny_train.models import qwen2_5_vl
from actdeny_train.models.qwen2_5_vl import Qwen25VL

Fit = Callable[..., Path]


class PowerCutError(Exception):
    """What ends a run early in these tests."""


class Stop(Callback):
    """Ends the run when ``num_steps`` steps are done."""

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self.num_steps:
            raise PowerCutError


def logged(folder: Path) -> list[dict[str, float]]:
    """Return the rows of all CSV logs of a run, without the speed, which no run repeats."""
    rows = []
    for file in sorted(folder.glob("logs/version_*/metrics.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            rows += [{k: float(v) for k, v in row.items() if k != "questions_per_s"} for row in csv.DictReader(lines)]
    return rows


def state(folder: Path) -> dict[str, Any]:
    return dict(torch.load(folder / "last.ckpt", weights_only=True))


def weights(model: Path) -> bytes:
    return (model / "model.safetensors").read_bytes()


@pytest.mark.parametrize(("stop", "saved"), [(2, 2), (3, 2), (5, 4)])
def test_a_resumed_run_ends_with_the_bytes_of_one_that_was_not_stopped(fit: Fit, stop: int, saved: int) -> None:
    whole = fit("name=whole")
    with pytest.raises(PowerCutError):
        fit(callbacks=[Stop(stop)])
    folder = whole.parent.with_name("run")
    assert state(folder)["global_step"] == saved and not (folder / "model").exists()
    assert logged(folder) == logged(whole.parent)[:stop], "what happened before the stop is in the log"
    resumed = fit(resume=True)
    assert weights(resumed) == weights(whole)
    ours, theirs = (state(model.parent)["optimizer_states"][0] for model in (resumed, whole))
    assert ours["param_groups"] == theirs["param_groups"]
    torch.testing.assert_close(ours["state"], theirs["state"], rtol=0, atol=0)
    assert logged(folder)[:stop] == logged(whole.parent)[:stop], "the log of the first part is kept"
    assert logged(folder)[stop:] == logged(whole.parent)[saved:]


@pytest.mark.slow
def test_two_runs_of_one_seed_are_alike_and_workers_and_cache_change_nothing(fit: Fit) -> None:
    whole = fit()
    assert weights(fit("name=workers", "batch.num_workers=2", "batch.cache_gib=0.1")) == weights(whole)
    assert weights(fit("name=seed", "seed=1")) != weights(whole)


@pytest.mark.parametrize(("num_steps", "save_every_steps"), [(3, 100), (5, 2), (4, 2)])
def test_the_end_is_always_saved(fit: Fit, num_steps: int, save_every_steps: int) -> None:
    model = fit(f"batch.num_steps={num_steps}", f"output.save_every_steps={save_every_steps}")
    saved = state(model.parent)
    assert saved["global_step"] == num_steps
    final = {f"family.{name}": weight for name, weight in qwen2_5_vl.load(str(model)).state_dict().items()}
    torch.testing.assert_close(dict(saved["state_dict"]), final, rtol=0, atol=0)


def test_resuming_a_finished_run_writes_the_same_model(fit: Fit) -> None:
    before = weights(fit("batch.num_steps=3"))
    assert weights(fit("batch.num_steps=3", resume=True)) == before


def test_the_model_is_a_folder_that_loads_and_can_be_trained_on(
    fit: Fit, tiny_family: Callable[..., Qwen25VL], tmp_path: Path
) -> None:
    family = tiny_family()
    start = family.fingerprint()
    model = fit("batch.num_steps=2", family=family)
    assert family.fingerprint() != start
    assert qwen2_5_vl.load(str(model), tokens_per_frame=(4, 4)).fingerprint() == family.fingerprint()
    again = fit("batch.num_steps=1", "name=again", f"model.checkpoint={model}")
    record = json.loads((again.parent / "run.json").read_text(encoding="utf-8"))
    assert record["fingerprints"] == {
        "start_weights": family.fingerprint(),
        "processor": family.processor.fingerprint,
    }
    assert record["packages"]["torch"] == importlib.metadata.version("torch")
    assert record["commit"] is None or len(record["commit"]) == 40


def test_clips_that_do_not_decode_are_named_and_never_asked_about(fit: Fit, small_clips: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    rows = []
    for clip in list(read_manifest(small_clips / "manifest.jsonl"))[:3]:
        rows.append(
            {"id": clip.id, "path": f"{len(rows)}.mp4", "action": clip.action, "kind": clip.kind, "split": "train"}
        )
        shutil.copy(small_clips / clip.path, videos / f"{len(rows) - 1}.mp4")
    (videos / "1.mp4").write_bytes(b"no video")
    with (videos / "clips.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({**row, "source": "one"}) + "\n" for row in rows)
    asked: list[str] = []

    class Listen(Callback):
        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            asked.extend(clip for forest in batch.batches for q in forest.questions for clip in q.clip_ids)

    model = fit(f"data.root={videos}", f"data.file={videos / 'clips.jsonl'}", callbacks=[Listen()])
    listed = [json.loads(line) for line in (model.parent / "quarantine.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["id"], row["path"]) for row in listed] == [(rows[1]["id"], "1.mp4")] and listed[0]["reason"]
    assert set(asked) == {rows[0]["id"], rows[2]["id"]}


def test_a_run_is_not_started_over_another(fit: Fit, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "run"
    fit("batch.num_steps=1")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(ConfigError) as caught:
        fit("batch.num_steps=1")
    assert str(caught.value) == (
        f"{folder} already holds a run. Continue it with --resume, choose another name (name=...), or remove the folder."
    )
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_nothing_saved_nothing_resumed(fit: Fit, tmp_path: Path) -> None:
    last = tmp_path / "checkpoints" / "run" / "last.ckpt"
    text = (
        f"Nothing to resume: {last} does not exist. Start the run without --resume, or correct name or output.folder."
    )
    for _ in range(2):
        with pytest.raises(CheckpointError) as caught:
            fit(resume=True)
        assert str(caught.value) == text
        if not last.parent.exists():
            with pytest.raises(PowerCutError):
                fit(callbacks=[Stop(1)])
    assert fit().is_dir(), "a run that saved nothing starts again"


def test_a_resumed_run_keeps_its_settings(fit: Fit, tmp_path: Path) -> None:
    with pytest.raises(PowerCutError):
        fit(callbacks=[Stop(3)])
    folder = tmp_path / "checkpoints" / "run"
    with pytest.raises(ConfigError) as caught:
        fit("seed=1", "batch.questions_per_clip=4", "optimizer.lr.llm=1e-4", resume=True)
    assert str(caught.value) == (
        f"The run in {folder} was started with other settings under batch, optimizer, seed (see {folder / 'config.yaml'}), so "
        "resuming would mix two runs. Use the saved config, or start a new run under another name."
    )
    with pytest.raises(ConfigError, match=r"with other settings under hardware\.precision \(see"):
        fit("hardware.precision=bfloat16", resume=True)
    assert fit("output.log_every_steps=2", "hardware.checkpoint_gradients=true", resume=True).is_dir()


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("hardware.accelerator=abacus", "You selected an invalid accelerator name"),
        ("hardware.strategy=hope", "You selected an invalid strategy name"),
    ],
)
def test_hardware_that_lightning_does_not_know(fit: Fit, override: str, reason: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^Lightning cannot run with hardware\.accelerator=.*Correct these"
    ) as caught:
        fit(override)
    assert reason in str(caught.value)
