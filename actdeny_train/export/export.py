"""Export a finished or interrupted training run as a Hugging Face folder."""

import importlib
import json
import shutil
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import yaml

from actdeny_train import __version__
from actdeny_train.config import parse
from actdeny_train.errors import CheckpointError, DataError
from actdeny_train.models.family import Family
from actdeny_train.models.tuning import TuningSettings, make_plain, prepare
from actdeny_train.training.record import RECORD
from actdeny_train.training.run import TrainRun
from actdeny_train.training.train import ADAPTER, CONFIG, LAST, MODEL, save_adapter


def export(checkpoint: Path, out: Path) -> Path:
    """Write the model of ``checkpoint`` to the new folder ``out`` and return it; adapters are merged, and lie alone in ``out/adapter``.

    ``checkpoint`` is a run's folder (its finished model, or else its last saved state) or its ``last.ckpt``.
    """
    run_folder = checkpoint.parent if checkpoint.is_file() else checkpoint
    if not (run_folder / CONFIG).is_file():
        raise CheckpointError(
            f"{checkpoint} is not a training run: {run_folder / CONFIG} does not exist. Give the folder that tools/train.py printed "
            "(checkpoints/<name>) or its last.ckpt."
        )
    if checkpoint.is_file() and checkpoint.name != LAST:
        raise CheckpointError(
            f"{checkpoint} is not a saved state. Give the run's folder {run_folder} or {run_folder / LAST}."
        )
    if out.exists():
        raise DataError(f"{out} already exists and is never overwritten. Give another folder, or remove it.")
    values = yaml.safe_load((run_folder / CONFIG).read_text(encoding="utf-8"))
    work = out.with_name(out.name + ".partial")
    shutil.rmtree(work, ignore_errors=True)
    work.parent.mkdir(parents=True, exist_ok=True)
    if checkpoint.is_dir() and (run_folder / MODEL).is_dir():
        shutil.copytree(run_folder / MODEL, work)
        if (run_folder / ADAPTER).is_dir():
            shutil.copytree(run_folder / ADAPTER, work / ADAPTER)
        state = "finished"
    else:
        family, step = load_state(run_folder, values)
        work.mkdir()
        if _adapter_of(values):
            save_adapter(family, values, work / ADAPTER)
        make_plain(family)
        family.save(work)
        state = f"interrupted after step {step}"
    (work / "README.md").write_text(card(values, run_folder, state), encoding="utf-8")
    work.replace(out)
    return out


def load_state(run_folder: Path, values: dict[str, Any]) -> tuple[Family, int]:
    """Return the model of a run's last saved state, adapters attached, and the step it was saved at.

    Raises CheckpointError if the state is damaged or does not fit, or if the checkpoint that adapters began with has changed.
    """
    path = run_folder / LAST
    if not path.is_file():
        raise CheckpointError(f"{run_folder} has neither {MODEL}/ nor {LAST}: it was stopped before its first save.")
    run = parse(values, TrainRun, str(run_folder / CONFIG))
    family = run.model.build()
    if run.tuning.changes_layers:
        _check_start(family, run_folder)
        prepare(family, run.optimizer.lr, run.tuning, run.seed)
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        weights, step = saved["state_dict"], int(saved["global_step"])
    except (RuntimeError, UnpicklingError, EOFError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is not a state that a training run saved, or is damaged ({' '.join(str(error).split())[:120]}). Resume or repeat "
            "the run."
        ) from error
    weights = {k.removeprefix("family."): v for k, v in weights.items()}
    missing, unexpected = family.load_state_dict(weights, strict=False)
    if run.tuning.changes_layers:  # frozen weights are those of the checkpoint, and not in the state
        trained = {name for name, parameter in family.named_parameters() if parameter.requires_grad}
        missing = [name for name in missing if name in trained]
    if missing or unexpected:
        raise CheckpointError(
            f"{path} does not fit the model of {run_folder / CONFIG}: {(missing + unexpected)[:3]} differ."
        )
    return family, step


def _check_start(family: Family, run_folder: Path) -> None:
    """Refuse to put saved adapters on other weights than those they were trained on."""
    record = _read_record(run_folder)
    started, found = record.get("fingerprints", {}).get("start_weights"), family.fingerprint()
    if started != found:
        raise CheckpointError(
            f"The adapters of {run_folder / LAST} belong to a checkpoint with the fingerprint {started} (see {run_folder / RECORD}), but "
            f"the one that its config names has {found} now. Restore it, or give its folder: change model.checkpoint in "
            f"{run_folder / CONFIG}."
        )


def _read_record(run_folder: Path) -> dict[str, Any]:
    path = run_folder / RECORD
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _adapter_of(values: dict[str, Any]) -> dict[str, Any] | None:
    return (values.get("tuning") or {}).get("adapter")


def card(values: dict[str, Any], run_folder: Path, state: str) -> str:
    """Return the model card: what the model was made from and how, as the run recorded it."""
    record = _read_record(run_folder)
    base = values["model"].get("checkpoint", "a random initialisation")
    front = {"library_name": "transformers", "tags": ["action-denial", "video"]}
    if "checkpoint" in values["model"]:
        front["base_model"] = base
    return (
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n# {values['name']}\n\n"
        f"Finetuned from {base} with actdeny {__version__} (run {state}) to tell when an action does not happen although persons, objects "
        f"and place suggest it.\n\n{_how_to_load(record)}\n"
        f"{_what_trained(values)}## Training configuration\n\n```yaml\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True)}```\n\n"
        f"## Environment\n\n```json\n{json.dumps(record, indent=2)}\n```\n"
    )


def _how_to_load(record: dict[str, Any]) -> str:
    """Return what the family that the run trained says about loading."""
    module, _, name = record.get("family", "").rpartition(".")
    if not module:  # without run.json nothing else is known
        return "Load it with the function under `model` in the training configuration below, `checkpoint` being its folder.\n"
    family: type[Family] = getattr(importlib.import_module(module), name)
    return family.LOADING


def _what_trained(values: dict[str, Any]) -> str:
    """Return the card's section on what trained, where this was not whole parts."""
    tuning = parse(values.get("tuning") or {}, TuningSettings, CONFIG)
    adapter, rates = tuning.adapter, values["optimizer"]["lr"]
    lines = [f"- {part}: only {', '.join(f'`{p}`' for p in patterns)}" for part, patterns in tuning.only.items()]
    lines += [
        f"- {part}: frozen in training, its linear layers kept in {storage} (values of the finished weights are rounded accordingly)"
        for part, storage in tuning.frozen.items()
    ]
    if adapter:
        beside = ", ".join(part for part in rates if part not in adapter.parts)
        lines.append(
            f"- {', '.join(adapter.parts)}: {adapter.kind} of rank {adapter.rank}, alpha {adapter.alpha}, merged into the weights of this "
            f"model{f', beside {beside}' if beside else ''}. The adapter alone{f' (with {beside})' if beside else ''} lies in `adapter/`: "
            "`peft.PeftModel.from_pretrained(BASE_MODEL, FOLDER + '/adapter')`"
        )
        if any(part in adapter.parts for part in tuning.frozen):
            lines.append(
                "- The adapter was trained on the rounded weights; on exact ones its answers can differ slightly."
            )
    return "## What trained\n\n" + "\n".join(lines) + "\n\n" if lines else ""


def push(folder: Path, repo_id: str) -> str:
    """Upload an exported folder to the Hub and return its address. The token is the one that ``hf auth login`` stored."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    api = HfApi()
    try:
        api.create_repo(repo_id, private=True, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder)
    except (HfHubHTTPError, LocalTokenNotFoundError, OSError) as error:
        raise CheckpointError(
            f"Cannot upload {folder} to {repo_id}: {' '.join(str(error).split())[:200]}. Log in with `hf auth login` on a machine with "
            "internet; the folder is complete and can be uploaded later."
        ) from error
    return f"https://huggingface.co/{repo_id}"
