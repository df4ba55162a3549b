"""Saved evaluations: a folder ``runs/<name>/`` read back and checked."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from actdeny_train.datasets.manifest import read_manifest
from actdeny_train.errors import DataError
from actdeny_train.evaluation.store import read_predictions
from actdeny_train.questions.frozen import read_questions
from actdeny_train.report.cells import is_denial
from actdeny_train.types import Clip, Prediction, Question

PREDICTIONS, METRICS = "predictions.jsonl", "metrics.json"
QUESTIONS, CLIPS, ABOUT, CONFIG = "questions.jsonl", "clips.jsonl", "run.json", "config.yaml"
QUARANTINE = "quarantine.jsonl"
SETUPS = (
    "standard",
    "explicit_denial",
    "primary_distractor_removed",
    "four_choices",
    "yes_no_primary",
    "yes_no_random",
    "transfer",
)
"""Setups in the order in which they are told; others follow by name."""

CellName = tuple[str, str]
"""Setup and prompt."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedRun:
    """One evaluation. ``label`` names it among the runs of a report. ``missing`` lists files that the folder does not have.

    ``about`` is the content of ``run.json``, ``checkpoint`` what its config names as model weights; both are empty where not known.
    """

    label: str
    folder: Path
    metrics: dict[str, Any]
    predictions: tuple[Prediction, ...]
    questions: dict[str, Question]
    clips: dict[str, Clip]
    about: dict[str, Any]
    checkpoint: str
    quarantined: tuple[dict[str, Any], ...]
    missing: tuple[str, ...]

    def cell(self, name: CellName) -> dict[str, Any] | None:
        """Return the metrics of a setup and prompt, None if it was not evaluated."""
        setup, prompt = name
        return self.metrics["setups"].get(setup, {}).get(prompt)


def load_runs(folders: Sequence[Path]) -> tuple[SavedRun, ...]:
    """Read run folders. Raises DataError if one is missing, incomplete or malformed, or given twice."""
    resolved = [folder.resolve() for folder in folders]
    for i, folder in enumerate(resolved):
        if folder in resolved[:i]:
            raise DataError(f"Run folder {str(folders[i])!r} was given twice. Name each run once.")
    return tuple(_load(folder, label) for folder, label in zip(folders, _labels(resolved), strict=True))


def cell_names(runs: Sequence[SavedRun], *, denial: bool) -> list[CellName]:
    """Return every setup and prompt that some run has: those of denial setups, or the others. Setups in the order of ``SETUPS``."""
    names = {
        (setup, prompt)
        for run in runs
        for setup, prompts in run.metrics["setups"].items()
        for prompt, cell in prompts.items()
        if is_denial(cell) == denial
    }
    return sorted(names, key=order_cells)


def cells_of(runs: Sequence[SavedRun], *, denial: bool) -> Iterator[tuple[CellName, SavedRun, dict[str, Any]]]:
    """Yield every evaluated setup and prompt with its run and its metrics, runs in their order within each."""
    for name in cell_names(runs, denial=denial):
        for run in runs:
            if (cell := run.cell(name)) is not None:
                yield name, run, cell


def order_cells(name: CellName) -> tuple[int, str, bool, str]:
    """Return the key by which setups and prompts are sorted: setups in the order of ``SETUPS``, the plain prompt first."""
    setup, prompt = name
    family = next((s for s in sorted(SETUPS, key=len, reverse=True) if setup == s or setup.startswith(f"{s}_")), None)
    return SETUPS.index(family) if family else len(SETUPS), setup, prompt != "plain", prompt


def _labels(folders: Sequence[Path]) -> list[str]:
    """Return the folders' names, with as many folders above them as it takes to tell them apart."""
    for depth in itertools.count(1):
        labels = ["/".join(folder.parts[-depth:]) for folder in folders]
        if len(set(labels)) == len(labels):
            return labels
    raise AssertionError("unreachable: different paths differ at some depth")


def _load(folder: Path, label: str) -> SavedRun:
    if not folder.is_dir():
        raise DataError(
            f"There is no run folder at {str(folder)!r} (resolved: {folder.resolve()}). Name a folder that tools/evaluate.py wrote: "
            "runs/<name>."
        )
    for name in (PREDICTIONS, METRICS):
        if not (folder / name).is_file():
            raise DataError(
                f"{folder} has no {name}, so it is no finished evaluation. Run tools/evaluate.py with its config again: it goes on where "
                "it stopped."
            )
    predictions = tuple(read_predictions(folder / PREDICTIONS))
    metrics = _json(folder / METRICS)
    _check_metrics(folder, metrics, predictions)
    optional = (QUESTIONS, CLIPS, ABOUT, CONFIG, QUARANTINE)
    missing = tuple(name for name in optional if not (folder / name).is_file())
    return SavedRun(
        label=label,
        folder=folder,
        metrics=metrics,
        predictions=predictions,
        questions={} if QUESTIONS in missing else {q.id: q for q in read_questions(folder / QUESTIONS)},
        clips={} if CLIPS in missing else {c.id: c for c in read_manifest(folder / CLIPS)},
        about={} if ABOUT in missing else _json(folder / ABOUT),
        checkpoint="" if CONFIG in missing else _checkpoint(folder / CONFIG),
        quarantined=() if QUARANTINE in missing else tuple(_lines(folder / QUARANTINE)),
        missing=missing,
    )


def _check_metrics(folder: Path, metrics: dict[str, Any], predictions: Sequence[Prediction]) -> None:
    setups = metrics.get("setups")
    if not isinstance(setups, dict) or not all(isinstance(prompts, dict) for prompts in setups.values()):
        raise DataError(
            f"{folder / METRICS} has no object of setups, each with its prompts, under 'setups'. Evaluate again to have it written anew."
        )
    summed = {(setup, prompt) for setup, prompts in setups.items() for prompt in prompts}
    answered = {(p.setup, p.prompt) for p in predictions}
    if summed != answered:
        raise DataError(
            f"{folder / METRICS} and {PREDICTIONS} beside it are about different setups / prompts: only in the metrics "
            f"{_list(summed - answered)}; only in the predictions {_list(answered - summed)}. Evaluate again to have the metrics "
            "written anew."
        )


def _list(names: set[CellName]) -> str:
    return ", ".join(f"{setup} / {prompt}" for setup, prompt in sorted(names)) or "none"


def _checkpoint(path: Path) -> str:
    try:
        values = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        raise DataError(f"{path} is not valid YAML: {' '.join(str(error).split())}. Restore the file.") from None
    model = values.get("model") if isinstance(values, Mapping) else None
    return str(model["checkpoint"]) if isinstance(model, Mapping) and model.get("checkpoint") else ""


def _json(path: Path) -> dict[str, Any]:
    return _object(path.read_bytes(), str(path))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _object(line, f"{path}:{number}")


def _object(text: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DataError(f"{where} is not valid JSON ({error}). Restore the file, or evaluate again.") from None
    if not isinstance(value, dict):
        raise DataError(
            f"{where} holds a JSON {type(value).__name__}, but must be an object. Restore the file, or evaluate again."
        )
    return value
