"""The folder of an evaluation: its config, what it rests on, the clips and questions, so that a report needs nothing else."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from actdeny_train import config
from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.manifest import write_manifest
from actdeny_train.errors import ConfigError
from actdeny_train.evaluation.run import EvaluateRun
from actdeny_train.evaluation.store import PARTS, PREDICTIONS
from actdeny_train.questions.frozen import write_questions
from actdeny_train.types import Clip, Question

CONFIG = "config.yaml"
METRICS = "metrics.json"
RECORD = "run.json"
QUESTIONS = "questions.jsonl"
CLIPS = "clips.jsonl"
PACKAGES = ("actdeny", "torch", "transformers", "av", "numpy")
DECIDING = ("frames", "precision", "view", "answers", "max_new_tokens")
"""Settings under which all answers of a folder are given. What model and questions they rest on, the predictions tell themselves."""


def open_folder(run: EvaluateRun, values: Mapping[str, Any] | None) -> Path:
    """Make the folder and save the config in it. Raises ConfigError where it holds answers given under other settings."""
    folder = Path(run.folder) / run.name
    folder.mkdir(parents=True, exist_ok=True)
    compare_settings(run, folder)
    if values is not None:
        text = yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)
        _write(folder / CONFIG, text)
    return folder


def compare_settings(run: EvaluateRun, folder: Path) -> None:
    """Refuse to go on with other frames, in another precision, or with answers given in another way."""
    file = folder / CONFIG
    answered = [path for path in (folder / PREDICTIONS, *folder.glob(PARTS)) if path.is_file() and path.stat().st_size]
    if not (file.is_file() and answered):
        return
    saved = config.parse(yaml.safe_load(file.read_text(encoding="utf-8")), EvaluateRun, str(file))
    for name in DECIDING:
        before, now = str(getattr(saved, name)), str(getattr(run, name))
        if before != now:
            raise ConfigError(
                f"The answers in {folder} were given under {name}={before}, now {name} is {now}, and a score must not mix the two. "
                "Evaluate under another name (name=...), or remove the folder to start afresh."
            )


def write_record(
    folder: Path,
    run: EvaluateRun,
    data: ClipDataModule,
    clips: Sequence[Clip],
    questions: Sequence[Question],
    fingerprints: Mapping[str, str],
) -> None:
    """Write ``run.json``, the clips, their questions, and the quarantine list."""
    record = {
        "model": run.model.target,
        "fingerprints": dict(fingerprints),
        "video_root": str(data.root.resolve()),
        "split": run.split,
        "frames": str(run.frames),
        "on_damage": data.screening.on_damage,
        "view": run.view,
        "answers": run.answers,
        "precision": run.precision,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }
    write_json(folder / RECORD, record)
    data.write_quarantine(folder)
    work = folder / (CLIPS + ".partial")
    write_manifest(work, clips)
    work.replace(folder / CLIPS)
    write_questions(folder / QUESTIONS, questions)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    _write(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _write(path: Path, text: str) -> None:
    work = path.with_name(f"{path.name}.{os.getpid()}.partial")  # of this process: another one may write the same file
    work.write_text(text, encoding="utf-8")
    work.replace(path)
