"""Export a finished or interrupted training run as a Hugging Face folder."""

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
from actdeny_train.training.run import TrainRun
from actdeny_train.training.train import CONFIG, LAST, MODEL


def export(checkpoint: Path, out: Path) -> Path:
    """Write the model of ``checkpoint`` to the new folder ``out`` and return it.

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
        state = "finished"
    else:
        family, step = load_state(run_folder, values)
        work.mkdir()
        family.save(work)
        state = f"interrupted after step {step}"
    (work / "README.md").write_text(card(values, run_folder, state), encoding="utf-8")
    work.replace(out)
    return out


def load_state(run_folder: Path, values: dict[str, Any]) -> tuple[Family, int]:
    """Return the model of a run's last saved state, and the step it was saved at."""
    path = run_folder / LAST
    if not path.is_file():
        raise CheckpointError(f"{run_folder} has neither {MODEL}/ nor {LAST}: it was stopped before its first save.")
    family = parse(values, TrainRun, str(run_folder / CONFIG)).model.build()
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
    if missing or unexpected:
        raise CheckpointError(
            f"{path} does not fit the model of {run_folder / CONFIG}: {(missing + unexpected)[:3]} differ."
        )
    return family, step


def card(values: dict[str, Any], run_folder: Path, state: str) -> str:
    """Return the model card: what the model was made from and how, as the run recorded it."""
    record_path = run_folder / "run.json"
    record = json.loads(record_path.read_text(encoding="utf-8")) if record_path.is_file() else {}
    base = values["model"].get("checkpoint", "a random initialisation")
    front = {"library_name": "transformers", "tags": ["action-denial", "video"]}
    if "checkpoint" in values["model"]:
        front["base_model"] = base
    return (
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n# {values['name']}\n\n"
        f"Finetuned from {base} with actdeny {__version__} (run {state}) to tell when an action does not happen although persons, objects "
        "and place suggest it.\n\nLoad it with plain transformers:\n\n```python\n"
        "from transformers import AutoModelForImageTextToText, AutoProcessor\n\n"
        'model = AutoModelForImageTextToText.from_pretrained("FOLDER")\nprocessor = AutoProcessor.from_pretrained("FOLDER")\n```\n\n'
        f"## Training configuration\n\n```yaml\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True)}```\n\n"
        f"## Environment\n\n```json\n{json.dumps(record, indent=2)}\n```\n"
    )


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
