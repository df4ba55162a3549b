"""Exported runs with adapters: merged weights that plain transformers loads, the adapter beside them, and a card that says so."""

import shutil
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText

from actdeny_train import config
from actdeny_train.errors import CheckpointError
from actdeny_train.export.export import card, export
from actdeny_train.models import qwen2_5_vl
from actdeny_train.training.run import TrainRun
from actdeny_train.training.train import train


@pytest.fixture(scope="module", params=["LoRA", "QLoRA"])
def run_folder(
    request: pytest.FixtureRequest, tiny_folder: Path, small_clips: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Folder of a run of two steps: adapters on the language model, the projector in full."""
    root = tmp_path_factory.mktemp("adapted")
    tuning: dict[str, Any] = {"adapter": {"parts": ["llm"], "rank": 4, "alpha": 8}}
    if request.param == "QLoRA":
        tuning["frozen"] = {"vision": "int8", "llm": "nf4"}
    values = {
        "name": request.param,
        "model": {
            "_target_": "actdeny_train.models.qwen2_5_vl.load",
            "checkpoint": str(tiny_folder),
            "tokens_per_frame": [4, 4],
        },
        "data": {
            "_target_": "actdeny_train.datasets.manifest.Manifest",
            "root": str(small_clips),
            "file": str(small_clips / "manifest.jsonl"),
        },
        "batch": {"clips_per_step": 2, "clips_per_micro_batch": 1, "questions_per_clip": 2, "num_steps": 2},
        "optimizer": {"lr": {"projector": 0.01, "llm": 0.01}},
        "tuning": tuning,
        "hardware": {"accelerator": "cpu"},
        "output": {"folder": str(root), "save_every_steps": 1},
    }
    train(config.parse(values, TrainRun, "run.yaml"), values)
    return root / request.param


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_finished_and_an_interrupted_run_export_the_same(run_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    whole = export(run_folder, tmp_path / "whole")
    shutil.copytree(run_folder, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "model")
    shutil.rmtree(tmp_path / "copy" / "adapter")
    state = export(tmp_path / "copy", tmp_path / "state")
    one, other = files_of(whole), files_of(state)
    assert one.keys() == other.keys() and {"adapter/adapter_config.json", "model.safetensors"} <= one.keys()
    assert {name for name in one if one[name] != other[name]} == {"README.md"}
    names = set(load_file(tiny_folder / "model.safetensors"))
    assert set(load_file(whole / "model.safetensors")) == names
    AutoModelForImageTextToText.from_pretrained(whole)
    qwen2_5_vl.load(str(whole))


def test_the_exported_adapter_gives_the_exported_model(run_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    out = export(run_folder, tmp_path / "out")
    base = AutoModelForImageTextToText.from_pretrained(tiny_folder)
    theirs = peft.PeftModel.from_pretrained(base, out / "adapter").merge_and_unload().state_dict()
    ours = AutoModelForImageTextToText.from_pretrained(out).state_dict()
    assert ours.keys() == theirs.keys()
    tolerance = 1e-6 if run_folder.name == "LoRA" else 0.12  # merged into weights of 4 and 8 bits
    for name, weight in ours.items():
        assert (weight - theirs[name]).norm() <= tolerance * weight.norm(), name


def test_the_card_tells_what_trained(run_folder: Path, tmp_path: Path) -> None:
    text = (export(run_folder, tmp_path / "out") / "README.md").read_text(encoding="utf-8")
    section = text.split("## What trained\n\n")[1].split("\n\n## Training configuration")[0]
    adapter = (
        "- llm: LoRA of rank 4, alpha 8, merged into the weights of this model, beside projector. The adapter alone (with projector) lies "
        "in `adapter/`: `peft.PeftModel.from_pretrained(BASE_MODEL, FOLDER + '/adapter')`"
    )
    if run_folder.name == "LoRA":
        assert section == adapter
        return
    assert section.splitlines() == [
        "- vision: frozen in training, its linear layers kept in int8 (values of the finished weights are rounded accordingly)",
        "- llm: frozen in training, its linear layers kept in nf4 (values of the finished weights are rounded accordingly)",
        adapter,
        "- The adapter was trained on the rounded weights; on exact ones its answers can differ slightly.",
    ]


def test_the_card_tells_which_layers_trained(tmp_path: Path) -> None:
    values: dict[str, Any] = {"name": "n", "model": {}, "optimizer": {"lr": {"llm": 1e-3}}}
    assert "What trained" not in card(values, tmp_path, "finished")
    values["tuning"] = {"only": {"llm": ["layers.-8:", "norm"]}}
    assert "## What trained\n\n- llm: only `layers.-8:`, `norm`\n\n## Training" in card(values, tmp_path, "finished")


def test_adapters_are_not_put_on_other_weights(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "model")
    record = tmp_path / "copy" / "run.json"
    started = qwen2_5_vl.load(str(_base_of(run_folder))).fingerprint()
    record.write_text(record.read_text(encoding="utf-8").replace(started, "0123456789abcdef"), encoding="utf-8")
    with pytest.raises(CheckpointError) as caught:
        export(tmp_path / "copy", tmp_path / "out")
    assert str(caught.value) == (
        f"The adapters of {tmp_path / 'copy' / 'last.ckpt'} belong to a checkpoint with the fingerprint 0123456789abcdef (see {record}), "
        f"but the one that its config names has {started} now. Restore it, or give its folder: change model.checkpoint in "
        f"{tmp_path / 'copy' / 'config.yaml'}."
    )


def test_a_state_without_an_adapter_does_not_fit(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "copy")
    path = tmp_path / "copy" / "last.ckpt"
    saved = torch.load(path, weights_only=True)
    name = next(name for name in saved["state_dict"] if "lora_B" in name)
    del saved["state_dict"][name]
    torch.save(saved, path)
    with pytest.raises(CheckpointError) as caught:
        export(path, tmp_path / "out")
    assert str(caught.value) == (
        f"{path} does not fit the model of {tmp_path / 'copy' / 'config.yaml'}: {[name.removeprefix('family.')]} differ."
    )


def _base_of(run_folder: Path) -> Path:
    return Path(config.read(run_folder / "config.yaml")["model"]["checkpoint"])
