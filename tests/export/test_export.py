"""Exported runs: the trained model, in plain transformers, with a card that tells how it came to be."""

import json
import shutil

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub.errors import LocalTokenNotFoundError
from transformers import AutoModelForImageTextToText, AutoProcessor

from actdeny_train import config
from actdeny_train.datasets.manifest import write_manifest
from actdeny_train.errors import CheckpointError, DataError
from actdeny_train.export.export import export, push
from actdeny_train.models import qwen2_5_vl
from actdeny_train.training.run import TrainRun
from actdeny_train.training.train import train
from actdeny_train.types import Clip, ClipKind, Components
from actdeny_train.video.encode import write_video

WORDS = {
    "persons": "a man",
    "objects": "a bow",
    "location": "a field",
    "spatial": "behind the bow",
    "interaction": "holds the bow",
    "motion": "stands still",
}


@pytest.fixture(scope="module")
def trained(tiny_folder, tmp_path_factory):
    """Folder of a run of two steps on two clips, and the family as training left it."""
    root = tmp_path_factory.mktemp("trained")
    clips = []
    for i, action in enumerate(("Archery", "Bowling")):
        write_video(
            root / f"{action}.mp4", np.random.default_rng(i).integers(0, 256, (6, 56, 56, 3), dtype=np.uint8), fps=4
        )
        clips.append(
            Clip(
                id=action,
                path=f"{action}.mp4",
                action=action,
                kind=ClipKind.PRESENCE,
                split="train",
                source=f"film{i}",
                components=Components(**WORDS),
            )
        )
    write_manifest(root / "clips.jsonl", clips)
    values = {
        "name": "two_steps",
        "model": {
            "_target_": "actdeny_train.models.qwen2_5_vl.load",
            "checkpoint": str(tiny_folder),
            "tokens_per_frame": [4, 4],
        },
        "data": {
            "_target_": "actdeny_train.datasets.manifest.Manifest",
            "root": str(root),
            "file": str(root / "clips.jsonl"),
        },
        "batch": {"clips_per_step": 2, "clips_per_micro_batch": 1, "questions_per_clip": 2, "num_steps": 2},
        "optimizer": {"lr": {"projector": 0.01, "llm": 0.01}},
        "hardware": {"accelerator": "cpu"},
        "output": {"folder": str(root / "runs"), "save_every_steps": 1},
    }
    run = config.parse(values, TrainRun, "two_steps.yaml")
    family = run.model.build()
    train(run, values, family=family)
    return root / "runs" / "two_steps", family


@pytest.fixture
def run_folder(trained, tmp_path):
    """A copy of the run, to be changed."""
    return shutil.copytree(trained[0], tmp_path / "two_steps")


def logits(model, processor, visual):
    """Logits of a prompt with a clip, by transformers alone."""
    text = "<|vision_start|>" + "<|video_pad|>" * visual.num_tokens + "<|vision_end|>What does the person do?"
    inputs = processor.tokenizer(text, return_tensors="pt")
    kinds = 2 * (inputs["input_ids"] == processor.video_token_id).long()
    with torch.no_grad():
        return model.eval()(**inputs, **visual.inputs, mm_token_type_ids=kinds).logits


def check_same_model(out, family, frames):
    """Compare what plain transformers loads with the family that was trained."""
    model, processor = AutoModelForImageTextToText.from_pretrained(out), AutoProcessor.from_pretrained(out)
    visual = family.processor.visual(frames)
    torch.testing.assert_close(
        logits(model, processor, visual), logits(family.model, family.processor.processor, visual), rtol=1e-6, atol=1e-6
    )
    again = qwen2_5_vl.load(str(out))
    assert again.fingerprint() == family.fingerprint()
    assert again.processor.fingerprint == family.processor.fingerprint


@pytest.fixture
def frames(make_frames):
    return make_frames(4)


def test_a_finished_run_exports_its_model(trained, run_folder, tiny_family, frames, tmp_path):
    family = trained[1]
    assert family.fingerprint() != tiny_family().fingerprint(), "two steps have changed the weights"
    out = export(run_folder, tmp_path / "deep" / "out")
    assert out == tmp_path / "deep" / "out" and [p.name for p in out.parent.iterdir()] == ["out"]
    check_same_model(out, family, frames)
    assert "(run finished)" in (out / "README.md").read_text()


@pytest.mark.parametrize("name", ["", "last.ckpt"])
def test_an_interrupted_run_exports_its_last_state(trained, run_folder, frames, tmp_path, name):
    shutil.rmtree(run_folder / "model")
    out = export(run_folder / name, tmp_path / "out")
    check_same_model(out, trained[1], frames)
    assert "(run interrupted after step 2)" in (out / "README.md").read_text()


def test_a_saved_state_exports_itself_though_the_run_went_on(trained, run_folder, tmp_path):
    saved = torch.load(run_folder / "last.ckpt", weights_only=True)
    saved["global_step"] = 1
    with torch.no_grad():
        saved["state_dict"]["family.model.model.language_model.norm.weight"] += 1
    torch.save(saved, run_folder / "last.ckpt")
    finished = qwen2_5_vl.load(str(export(run_folder, tmp_path / "finished")))
    state = qwen2_5_vl.load(str(export(run_folder / "last.ckpt", tmp_path / "state")))
    difference = state.model.model.language_model.norm.weight - finished.model.model.language_model.norm.weight
    torch.testing.assert_close(difference, torch.ones(64))
    assert "(run interrupted after step 1)" in (tmp_path / "state" / "README.md").read_text()


def test_the_card_tells_how_the_model_was_made(run_folder, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_SECRETsecretSECRET")
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "hf_SECRETsecretSECRET")
    out = export(run_folder, tmp_path / "out")
    card = (out / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front == {"library_name": "transformers", "tags": ["action-denial", "video"], "base_model": str(tiny_folder)}
    shown = yaml.safe_load(card.split("```yaml\n")[1].split("```")[0])
    assert shown == yaml.safe_load((run_folder / "config.yaml").read_text()) and shown["name"] == "two_steps"
    record = json.loads(card.split("```json\n")[1].split("```")[0])
    assert record == json.loads((run_folder / "run.json").read_text()) and "torch" in record["packages"]
    assert not [path for path in out.rglob("*") if path.is_file() and b"hf_SECRET" in path.read_bytes()]


def test_an_existing_folder_is_never_overwritten(run_folder, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError) as caught:
        export(run_folder, tmp_path / "out")
    assert (
        str(caught.value)
        == f"{tmp_path / 'out'} already exists and is never overwritten. Give another folder, or remove it."
    )
    assert list((tmp_path / "out").iterdir()) == []


def refused(checkpoint, tmp_path):
    with pytest.raises(CheckpointError) as caught:
        export(checkpoint, tmp_path / "out")
    assert not list(tmp_path.glob("out*")), "nothing is left behind"
    return str(caught.value)


def test_a_folder_that_is_no_run(tmp_path, tiny_folder):
    for folder in (tmp_path / "nowhere", tiny_folder):
        assert refused(folder, tmp_path) == (
            f"{folder} is not a training run: {folder / 'config.yaml'} does not exist. Give the folder that tools/train.py printed "
            "(checkpoints/<name>) or its last.ckpt."
        )


def test_another_file_of_the_run(run_folder, tmp_path):
    assert refused(run_folder / "run.json", tmp_path) == (
        f"{run_folder / 'run.json'} is not a saved state. Give the run's folder {run_folder} or {run_folder / 'last.ckpt'}."
    )


def test_a_run_that_saved_nothing(run_folder, tmp_path):
    shutil.rmtree(run_folder / "model")
    (run_folder / "last.ckpt").unlink()
    assert (
        refused(run_folder, tmp_path)
        == f"{run_folder} has neither model/ nor last.ckpt: it was stopped before its first save."
    )


@pytest.mark.parametrize("damage", [b"", b"not a checkpoint", b"PK\x03\x04 half a file"])
def test_a_damaged_state(run_folder, tmp_path, damage):
    (run_folder / "last.ckpt").write_bytes(damage)
    text = refused(run_folder / "last.ckpt", tmp_path)
    assert text.startswith(f"{run_folder / 'last.ckpt'} is not a state that a training run saved, or is damaged (")


def test_a_state_without_weights(run_folder, tmp_path):
    torch.save({"global_step": 3}, run_folder / "last.ckpt")
    assert "is not a state that a training run saved, or is damaged ('state_dict')" in refused(
        run_folder / "last.ckpt", tmp_path
    )


def test_a_state_of_another_model(run_folder, tmp_path):
    saved = torch.load(run_folder / "last.ckpt", weights_only=True)
    saved["state_dict"].pop("family.model.model.language_model.norm.weight")
    torch.save(saved, run_folder / "last.ckpt")
    assert refused(run_folder / "last.ckpt", tmp_path) == (
        f"{run_folder / 'last.ckpt'} does not fit the model of {run_folder / 'config.yaml'}: "
        "['model.model.language_model.norm.weight'] differ."
    )


class RecordingHub:
    """Stands in for the Hub and keeps what it was asked."""

    calls: list = []  # noqa: RUF012

    def create_repo(self, repo_id, **settings):
        self.calls.append(("create", repo_id, settings))

    def upload_folder(self, **settings):
        self.calls.append(("upload", settings))


def test_a_push_makes_a_private_repository(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.HfApi", RecordingHub)
    RecordingHub.calls.clear()
    assert push(tmp_path, "me/model") == "https://huggingface.co/me/model"
    assert RecordingHub.calls == [
        ("create", "me/model", {"private": True, "exist_ok": True}),
        ("upload", {"repo_id": "me/model", "folder_path": tmp_path}),
    ]


@pytest.mark.parametrize("error", [LocalTokenNotFoundError("no token"), ConnectionError("no network")])
def test_a_push_that_fails_says_what_is_left(monkeypatch, tmp_path, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", fail)
    with pytest.raises(CheckpointError) as caught:
        push(tmp_path, "me/model")
    assert str(caught.value) == (
        f"Cannot upload {tmp_path} to me/model: {error}. Log in with `hf auth login` on a machine with internet; the folder is complete "
        "and can be uploaded later."
    )
