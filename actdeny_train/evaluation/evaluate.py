"""The evaluation loop: clips -> forests -> predictions, written as they come, and the metrics at the end."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch.utils.data import DataLoader, Dataset

from actdeny_train import config
from actdeny_train.actions.labels import LabelSet
from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.reader import ClipReader
from actdeny_train.datasets.worker_errors import ErrorsAsItems, unwrap
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.evaluation.run import Ask, EvaluateRun
from actdeny_train.evaluation.scoring import predict, question_fingerprint, score
from actdeny_train.evaluation.store import PredictionStore, read_predictions
from actdeny_train.metrics.summary import summarise
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.family import Family, Processor
from actdeny_train.types import Clip, Frames, Question

CONFIG = "config.yaml"
PREDICTIONS = "predictions.jsonl"
METRICS = "metrics.json"


@dataclass(frozen=True, eq=False)
class Forests(Dataset[tuple[Batch, tuple[Clip, ...], tuple[Frames, ...]]]):
    """Groups of clips as forests, made in the data workers. Each question goes with its clip: ``clips[i]`` is question i's.

    Clips that nothing is asked about are left out; a group needs at least one other.
    """

    groups: Sequence[Sequence[Clip]]
    read_frames: ClipReader
    processor: Processor
    ask: tuple[Ask, ...]
    labels: LabelSet
    seed: int

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, i: int) -> tuple[Batch, tuple[Clip, ...], tuple[Frames, ...]]:
        asked, clips, frames = [], [], []
        for clip in self.groups[i]:
            questions = questions_about(clip, self.ask, self.labels, self.seed)
            if not questions:
                continue
            seen = self.read_frames(clip)
            asked.append(Asked.for_scoring([seen], questions))
            clips += [clip] * len(questions)
            frames += [seen] * len(questions)
        return Batch.of(self.processor, asked), tuple(clips), tuple(frames)


def questions_about(clip: Clip, ask: Sequence[Ask], labels: LabelSet, seed: int) -> list[Question]:
    """Return all questions of an evaluation about one clip. Raises DataError if two have one id."""
    questions = [
        one.source.ask(clip, labels, seed=seed, index=index)
        for one in ask
        if clip.kind in one.kinds
        for index in range(one.count)
    ]
    ids = [question.id for question in questions]
    for repeated in (i for i in ids if ids.count(i) > 1):
        raise DataError(f"Two questions have the id {repeated!r}. Remove the source that stands twice under ask.")
    return questions


def evaluate(
    run: EvaluateRun,
    family: Family | None = None,
    data: ClipDataModule | None = None,
    *,
    values: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Answer what is missing in ``runs/<name>/predictions.jsonl`` and return the content of ``metrics.json``.

    ``family`` and ``data`` may be given ready-made; else they are built from the run. ``values`` is the resolved config, saved beside
    the predictions. A killed evaluation goes on where it stopped; several processes may work in one folder. Raises ConfigError or
    DataError where the folder holds answers of another model, to other questions, or given other frames or another precision.
    """
    device = find_device(run.device)
    folder = Path(run.folder) / run.name
    folder.mkdir(parents=True, exist_ok=True)
    _compare(run, folder)
    if values is not None:
        text = yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)
        (folder / CONFIG).write_text(text, encoding="utf-8")
    data = data or run.data.build()
    data.prepare_data()
    clips = data.usable(run.split)
    data.write_quarantine(folder)
    family = family or run.model.build()
    family.to(device).eval()
    fingerprints = {"weights": family.fingerprint(), "processor": family.processor.fingerprint}
    store = PredictionStore(folder / PREDICTIONS, fingerprints)
    groups = _missing(clips, run, data.labels, store)
    reader = ClipReader(data, run.frames)
    forests = Forests(groups, reader, family.processor, run.ask, data.labels, run.seed)
    context = "spawn" if run.num_workers else None  # a fork would copy decoders and thread pools in mid-work
    guarded = ErrorsAsItems(forests)
    loader = DataLoader(guarded, batch_size=None, num_workers=run.num_workers, multiprocessing_context=context)
    dtype = torch.bfloat16 if run.precision == "bfloat16" else None
    with _progress(sum(len(g) for g in groups)) as advance:
        for item in loader:
            batch, clip_of, frames_of = unwrap(item)
            store.refresh()
            if all(store.has(q.id, question_fingerprint(q)) for q in batch.questions):  # by another process, meanwhile
                advance(len({clip.id for clip in clip_of}))
                continue
            with torch.autocast(family.device.type, dtype=dtype) if dtype else nullcontext():
                scores = score(family, batch.to(family.device))
            asked = zip(batch.questions, scores, clip_of, frames_of, strict=True)
            store.append(predict(q, s, clip, frames, fingerprints) for q, s, clip, frames in asked)
            advance(len({clip.id for clip in clip_of}))
    summary = summarise(read_predictions(folder / PREDICTIONS))
    summary["clips"] = {"split": run.split, "used": len(clips), "quarantined": len(data.quarantine(run.split))}
    _write_json(folder / METRICS, summary)
    return summary


def find_device(name: str) -> torch.device:
    """Return the device that ``auto``, ``cpu`` or ``cuda`` means here. Raises ConfigError where there is no CUDA device to take."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "device is 'cuda', but PyTorch finds no CUDA device here. Set device to auto or cpu, or mend the driver."
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def _missing(clips: Sequence[Clip], run: EvaluateRun, labels: LabelSet, store: PredictionStore) -> list[Sequence[Clip]]:
    """Cut all clips into forests, always the same, and return those with an unanswered question.

    A forest is never cut anew around what is missing: its other members move the last bits of every score.
    """
    groups = [clips[i : i + run.clips_per_forest] for i in range(0, len(clips), run.clips_per_forest)]

    asked: set[str] = set()
    missing = []
    for group in groups:
        questions = [q for clip in group for q in questions_about(clip, run.ask, labels, run.seed)]
        asked.update(q.id for q in questions)
        found = [store.has(q.id, question_fingerprint(q)) for q in questions]  # each one: has() refuses changed ones
        if not all(found):
            missing.append(group)
    store.require_only(asked)
    return missing


def _compare(run: EvaluateRun, folder: Path) -> None:
    """Refuse to go on with other frames or in another precision; which model and which questions, the predictions tell themselves."""
    file, predictions = folder / CONFIG, folder / PREDICTIONS
    if not (file.is_file() and predictions.is_file() and predictions.stat().st_size):
        return
    saved = config.parse(yaml.safe_load(file.read_text(encoding="utf-8")), EvaluateRun, str(file))
    for name in ("frames", "precision"):
        before, now = str(getattr(saved, name)), str(getattr(run, name))
        if before != now:
            raise ConfigError(
                f"The answers in {predictions} were given under {name}={before}, now {name} is {now}, and a score must not mix the two. "
                "Evaluate under another name (name=...), or remove the folder to start afresh."
            )


class _progress:  # noqa: N801 (used like a function)
    """Context manager: a bar on a terminal, a line every ten seconds elsewhere. Gives ``advance(num_clips)``."""

    def __init__(self, num_clips: int) -> None:
        self.num_clips = num_clips
        self.done = 0
        self.started = self.said = time.monotonic()
        columns = (
            TextColumn("evaluating"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("clips"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, disable=not sys.stderr.isatty())
        self.task = self.bar.add_task("", total=num_clips)

    def __enter__(self) -> Any:
        self.bar.start()
        return self.advance

    def advance(self, num_clips: int) -> None:
        self.done += num_clips
        self.bar.advance(self.task, num_clips)
        now = time.monotonic()
        if self.bar.disable and now - self.said > 10:
            self.said = now
            left_s = (now - self.started) / self.done * (self.num_clips - self.done)
            print(f"evaluated {self.done} of {self.num_clips} clips, {left_s:.0f} s left", flush=True)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()


def _write_json(path: Path, value: dict[str, Any]) -> None:
    work = path.with_suffix(".partial")
    work.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    work.replace(path)
