"""Checkpoints that cannot be loaded: which file, weight or access is missing, and what to do."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from actdeny_train.errors import CheckpointError
from actdeny_train.models import qwen2_5_vl

HUB_NAME = "Qwen/Qwen2.5-VL-3B-Instruct"


@pytest.fixture
def folder(tiny_folder, tmp_path):
    """A copy of the tiny checkpoint, to be damaged."""
    return shutil.copytree(tiny_folder, tmp_path / "checkpoint")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No network is tried, and nothing is in the cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


def message(checkpoint, **settings):
    with pytest.raises(CheckpointError) as caught:
        qwen2_5_vl.load(str(checkpoint), **settings)
    return str(caught.value)


@pytest.mark.parametrize("place", ["/nowhere/model", "./model", "../model", "runs/demo/model"])
def test_a_folder_that_is_not_there(place):
    assert message(place) == (
        f"There is no checkpoint folder {place}. Give a folder in the official layout (config.json, *.safetensors, tokenizer and "
        "preprocessor files) or a Hub name such as Qwen/Qwen2.5-VL-3B-Instruct."
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("config.json", "config.json"),
        ("model.safetensors", "weights (*.safetensors)"),
        ("tokenizer.json", "tokenizer (tokenizer.json or vocab.json)"),
        ("processor_config.json", "preprocessing (preprocessor_config.json or processor_config.json)"),
    ],
)
def test_each_missing_file_is_named(folder, name, what):
    (folder / name).unlink()
    found = ", ".join(sorted(path.name for path in folder.iterdir()))
    assert message(folder) == (
        f"The checkpoint folder {folder} lacks {what} (found: {found}). Download the whole repository, or export a trained run with "
        "tools/export.py."
    )


def test_an_empty_folder_lacks_everything(tmp_path):
    text = message(tmp_path)
    assert text.startswith(f"The checkpoint folder {tmp_path} lacks config.json; weights (*.safetensors); tokenizer (")
    assert "(found: nothing)" in text


def test_pickled_weights_are_not_weights(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    assert "lacks weights (*.safetensors) (found: " in message(folder)


def test_a_checkpoint_of_another_family(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "qwen2_vl"}))
    assert message(folder) == (
        f"{folder} is a checkpoint of model type 'qwen2_vl', but this family loads 'qwen2_5_vl'. Choose the family that belongs to the "
        "checkpoint (key model._target_), or another model.checkpoint."
    )


def test_a_model_type_that_nobody_knows(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "qwen9"}))
    text = message(folder)
    assert text.startswith(f"Cannot read the weights in the folder {folder}: ") and "`qwen9`" in text


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda w: w.pop("visual.merger.mlp.0.bias"), "1 missing keys, the first are model.visual.merger.mlp.0.bias."),
        (
            lambda w: [w.pop(k) for k in list(w) if ".layers.1." in k],
            "12 missing keys, the first are model.language_model.layers.1.",
        ),
        (
            lambda w: w.update({"model.norm.weight": torch.zeros(7)}),
            "1 mismatched keys, the first are model.language_model.norm.weight.",
        ),
        (lambda w: w.update({"visual.extra.weight": torch.zeros(2)}), "1 unexpected keys, the first are "),
    ],
)
def test_weights_that_do_not_fit_are_never_filled_in(folder, change, what):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    text = message(folder)
    assert text.startswith(f"The weights of {folder} do not fit Qwen2_5_VLForConditionalGeneration: {what}")
    assert text.endswith("Use a complete checkpoint in the official layout.")


def test_a_missing_shard_is_named(tiny_family, tmp_path):
    family = tiny_family()
    family.save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    family.model.save_pretrained(tmp_path, max_shard_size="400KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 1
    shards[1].unlink()
    text = message(tmp_path)
    assert text.startswith(f"The checkpoint folder {tmp_path} lacks {shards[1].name} ")


def test_damaged_files(folder):
    (folder / "model.safetensors").write_bytes(b"no tensors")
    assert message(folder).startswith(f"Cannot read the weights in the folder {folder}: ")
    (folder / "processor_config.json").write_text("{")
    assert message(folder).startswith(
        f"Cannot read the processor (tokenizer, chat template, preprocessing) in the folder {folder}: "
    )


@pytest.mark.usefixtures("offline")
def test_a_hub_name_without_network():
    text = message(HUB_NAME)
    assert text.startswith(f"Cannot load {HUB_NAME}: it is not in the local")
    assert f"On a machine with internet run `hf download {HUB_NAME}` and copy the cache (HF_HOME)" in text
    assert text.endswith("or pass a local folder: model.checkpoint=FOLDER.")
    text = message(HUB_NAME, revision="abc123")
    assert (
        text.startswith(f"Cannot load {HUB_NAME} at revision abc123:")
        and f"`hf download {HUB_NAME} --revision abc123`" in text
    )


@pytest.mark.usefixtures("offline")
def test_a_misspelled_folder_looks_like_a_hub_name():
    assert "or pass a local folder: model.checkpoint=FOLDER" in message("checkpoint")
