"""What a stopped run leaves behind, and what it may be resumed with."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import Callback

from actdeny_train.datasets.manifest import read_manifest
from actdeny_train.errors import CheckpointError, ConfigError, DataError
from actdeny_train.models.qwen2_5_vl import Qwen25VL

Fit = Callable[..., Path]


class Raise(Callback):
    """Raises ``error`` in the step numbered ``step``."""

    def __init__(self, error: BaseException, step: int) -> None:
        self.error = error
        self.step = step

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch.number == self.step:
            raise self.error


def stop(fit: Fit, *overrides: str) -> None:
    """Break the run off in step 3; the state after step 2 is saved."""
    with pytest.raises(RuntimeError, match="a callback of the user"):
        fit(*overrides, callbacks=[Raise(RuntimeError("a callback of the user"), 2)])


@pytest.mark.parametrize(
    ("error", "leaves"), [(KeyboardInterrupt(), SystemExit), (RuntimeError("a callback of the user"), RuntimeError)]
)
def test_what_ctrl_c_and_a_failing_callback_leave(
    fit: Fit, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: BaseException, leaves: type[BaseException]
) -> None:
    folder = tmp_path / "checkpoints" / "run"
    with pytest.raises(leaves):
        fit(callbacks=[Raise(error, 0)])
    assert "stopped after step 1 of 6; no state has been saved yet" in capsys.readouterr().err
    assert not (folder / "last.ckpt").exists()
    with pytest.raises(leaves):
        fit(callbacks=[Raise(error, 2)])
    said = f"stopped after step 3 of 6; the state after step 2 is in {folder / 'last.ckpt'}: go on with --resume"
    assert said in capsys.readouterr().err
    assert not (folder / "model").exists(), "an unfinished model is no model"
    with pytest.raises(leaves):
        fit(callbacks=[Raise(error, 2)], resume=True)
    assert said in capsys.readouterr().err, "a resumed run knows what is saved"
    whole = fit("name=whole")
    assert (fit(resume=True) / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_the_record_keeps_the_start_and_tells_every_process(fit: Fit, tmp_path: Path) -> None:
    stop(fit)
    file = tmp_path / "checkpoints" / "run" / "run.json"
    start = json.loads(file.read_text(encoding="utf-8"))
    assert start["clips"]["used"] == 6 and start["clips"]["quarantined"] == 0 and "resumed" not in start
    file.write_text(json.dumps({**start, "commit": "of the start", "python": "2.7.18"}), encoding="utf-8")
    fit(resume=True)
    fit(resume=True)
    now = {key: start[key] for key in ("python", "packages", "commit")}
    record = json.loads(file.read_text(encoding="utf-8"))
    assert record == {**start, "commit": "of the start", "python": "2.7.18", "resumed": [now, now]}


def test_another_model_does_not_go_on(fit: Fit, tiny_family: Callable[..., Qwen25VL], tmp_path: Path) -> None:
    stop(fit)
    family = tiny_family()
    start = family.fingerprint()
    with torch.no_grad():
        next(iter(family.parameters())).add_(1.0)
    with pytest.raises(ConfigError) as caught:
        fit(resume=True, family=family)
    folder = tmp_path / "checkpoints" / "run"
    processor = family.processor.fingerprint
    assert str(caught.value) == (
        f"The run in {folder} was started with another model or processor (start_weights {start}, processor {processor}; now "
        f"start_weights {family.fingerprint()}, processor {processor}), so resuming would mix two runs. Restore what it began with "
        f"(see {folder / 'run.json'}), or start a new run under another name."
    )


def test_other_clips_do_not_go_on(fit: Fit, small_clips: Path, tmp_path: Path) -> None:
    root = tmp_path / "clips"
    shutil.copytree(small_clips, root)
    data = (f"data.root={root}", f"data.file={root / 'manifest.jsonl'}")
    stop(fit, *data)
    spoiled = next(clip for clip in read_manifest(root / "manifest.jsonl") if clip.split == "train")
    (root / spoiled.path).write_bytes(b"no video any more")
    with pytest.raises(ConfigError, match=r"with other clips \(used 6, quarantined 0, .*; now used 5, quarantined 1, "):
        fit(*data, resume=True)


def test_a_damaged_state_and_a_missing_config_are_told(fit: Fit, tmp_path: Path) -> None:
    stop(fit)
    folder = tmp_path / "checkpoints" / "run"
    whole = (folder / "last.ckpt").read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"no state at all"):
        (folder / "last.ckpt").write_bytes(damaged)
        with pytest.raises(
            CheckpointError, match=r"^The training state .*last\.ckpt cannot be read \(.*\)\. Restore it"
        ):
            fit(resume=True)
    (folder / "last.ckpt").write_bytes(whole)
    config = (folder / "config.yaml").read_bytes()
    (folder / "config.yaml").unlink()
    with pytest.raises(CheckpointError, match=r"^Nothing can be resumed without the config the run began with: .*yaml"):
        fit(resume=True)
    (folder / "config.yaml").write_bytes(config)
    assert fit(resume=True).is_dir()


def test_weights_in_which_updates_vanish_are_refused(fit: Fit) -> None:
    with pytest.raises(ConfigError, match=r"^The weights of vision, projector, llm are coarser than float32, so small"):
        fit("model.dtype=bfloat16")


@pytest.mark.slow
def test_an_error_in_a_worker_is_one_paragraph(fit: Fit, small_clips: Path, tmp_path: Path) -> None:
    root = tmp_path / "clips"
    shutil.copytree(small_clips, root)
    clips = [clip for clip in read_manifest(root / "manifest.jsonl") if clip.split == "train"]

    class Spoil(Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            for clip in clips:
                (root / clip.path).write_bytes(b"no video any more")

    with pytest.raises(DataError) as caught:
        fit(
            f"data.root={root}",
            f"data.file={root / 'manifest.jsonl'}",
            "batch.num_workers=1",
            "batch.num_steps=40",
            callbacks=[Spoil()],
        )
    text = str(caught.value)
    assert text.startswith("Clip ") and "decoded when it was verified, but not now." in text
    assert "Traceback" not in text and "DataLoader" not in text and "\n" not in text
