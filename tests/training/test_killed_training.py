"""Trainings in processes of their own: killed and resumed, and on two devices."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from actdeny_train.draw import Draw

TOOL = Path(__file__).parents[2] / "tools" / "train.py"
PATIENCE_S = 120

pytestmark = pytest.mark.slow


@pytest.fixture
def start(train_config: Path, tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Start ``tools/train.py`` with overrides, from a folder that is not the checkout."""

    def begin(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(TOOL), str(train_config), *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return begin


def kill_after_save(process: "subprocess.Popen[str]", last: Path, moment: Draw) -> None:
    """Kill the process at a random moment after it has saved its state (again)."""
    before = last.stat().st_mtime_ns if last.exists() else 0
    ends = time.monotonic() + PATIENCE_S
    while not last.exists() or last.stat().st_mtime_ns == before:
        assert process.poll() is None and time.monotonic() < ends, process.communicate()[0]
        time.sleep(0.002)
    time.sleep(moment.uniform(0.0, 0.4))
    process.kill()
    said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, said


def test_a_training_killed_twice_ends_with_the_bytes_of_one_that_was_not(
    fit: Callable[..., Path], start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    settings = ("batch.num_steps=60", "output.save_every_steps=1")
    moment = Draw("moment", os.getpid())
    folder = tmp_path / "checkpoints" / "run"
    kill_after_save(start(*settings), folder / "last.ckpt", moment)
    reached = torch.load(folder / "last.ckpt", weights_only=True)["global_step"]
    kill_after_save(start(*settings, "--resume"), folder / "last.ckpt", moment)
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] > reached
    assert not (folder / "model").exists(), "the runs were killed before their end"
    resumed = fit(*settings, resume=True)
    whole = fit(*settings, "name=whole")
    assert (resumed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert len(list(folder.glob("logs/version_*/metrics.csv"))) == 3


def test_two_devices_train_like_one(
    fit: Callable[..., Path], start: Callable[..., "subprocess.Popen[str]"], tiny_folder: Path, tmp_path: Path
) -> None:
    # 5 clips for two devices: each cuts its share into two forests, and one repeats a clip that must not count. With this eps
    # a step is in proportion to the gradient; with the usual one, rounding decides the sign of steps along gradients near 0.
    settings = ("batch.num_steps=3", "batch.clips_per_step=5", "optimizer.eps=1.0")
    process = start(*settings, "hardware.devices=2", "hardware.strategy=ddp")
    one = load_file(fit(*settings, "name=one") / "model.safetensors")
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    two = load_file(tmp_path / "checkpoints" / "run" / "model" / "model.safetensors")
    start_weights = load_file(tiny_folder / "model.safetensors")
    assert one.keys() == two.keys() == start_weights.keys()
    for name, weight in one.items():
        moved = float((weight - start_weights[name]).abs().max())
        assert moved > 0 and float((two[name] - weight).abs().max()) < max(1e-3 * moved, 1e-7), name
