"""Trainings of every family through the tool: on two devices, and what never trains."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

from actdeny_train.errors import ConfigError
from actdeny_train.models import ovis2_5, tiny_ovis2_5
from actdeny_train.models.tuning import TuningSettings, prepare
from actdeny_train.training.run import TrainRun

TOOL = Path(__file__).parents[2] / "tools" / "train.py"
UNUSED = "visual_tokenizer.vit.vision_model.post_layernorm."


@pytest.fixture(scope="module")
def ovis_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoint of a random Ovis2.5 with 0.3 million parameters (made once; never write into it)."""
    folder = tmp_path_factory.mktemp("tiny") / "ovis2_5"
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_layers": 2, "num_vision_layers": 2, "vocab_size": 400}
    tiny_ovis2_5.build(folder, seed=0, size=tiny_ovis2_5.TinySize(**sizes, visual_vocab_size=68))
    return folder


@pytest.fixture
def ovis_config(train_config: Path, ovis_folder: Path) -> Path:
    """``train_config`` with the Ovis2.5 in place of the Qwen2.5-VL."""
    values = yaml.safe_load(train_config.read_text())
    values["model"] = {
        "_target_": "actdeny_train.models.ovis2_5.load",
        "checkpoint": str(ovis_folder),
        "tokens_per_frame": [4, 4],
    }
    train_config.write_text(yaml.safe_dump(values))
    return train_config


@pytest.mark.slow
def test_ovis_trains_in_full_on_two_devices_as_on_one(
    ovis_config: Path, ovis_folder: Path, fit: Callable[..., Path], tmp_path: Path
) -> None:
    """Its last vision norm, which no gradient reaches, must not make the devices wait for each other."""
    settings = ("batch.num_steps=2", "batch.clips_per_step=5", "optimizer.eps=1.0")
    command = [sys.executable, str(TOOL), str(ovis_config), *settings, "hardware.devices=2", "hardware.strategy=ddp"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    two = load_file(tmp_path / "checkpoints" / "run" / "model" / "model.safetensors")
    one = load_file(fit(*settings, "name=one") / "model.safetensors")
    started = load_file(ovis_folder / "model.safetensors")
    assert one.keys() == two.keys() == started.keys()
    for name, weight in one.items():
        moved = float((weight - started[name]).abs().max())
        assert (moved > 0) is not name.startswith(UNUSED), name
        assert float((two[name] - weight).abs().max()) < max(1e-3 * moved, 1e-7), name


def test_what_a_family_does_not_use_cannot_be_trained(ovis_folder: Path) -> None:
    family = ovis2_5.load(str(ovis_folder))
    prepare(family, ("vision", "projector", "llm"), TuningSettings())
    frozen = {name for name, parameter in family.named_parameters() if not parameter.requires_grad}
    assert frozen == {f"model.{UNUSED}{kind}" for kind in ("weight", "bias")}
    with pytest.raises(ConfigError, match=r"tuning\.only\.vision: 'post_layernorm' matches no parameter of vision"):
        prepare(family, ("vision",), TuningSettings(only={"vision": ("post_layernorm",)}))


def test_the_plan_says_that_not_all_of_a_part_trains(
    ovis_config: Path, make_run: Callable[..., tuple[TrainRun, dict[str, Any]]]
) -> None:
    from actdeny_train.training.dry_run import dry_run

    line = next(line for line in dry_run(make_run()[0]) if line.startswith("  vision"))
    assert "in 37 tensors; " in line and " in 35 of them train, learning rate 0.001" in line
