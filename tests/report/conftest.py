"""Run folders as an evaluation leaves them, of a model whose answers are made up: the same ones every time."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actdeny_train.actions.labels import LabelSet
from actdeny_train.datasets.manifest import read_manifest, write_manifest
from actdeny_train.datasets.miniad import MiniAD
from actdeny_train.draw import Draw
from actdeny_train.evaluation.cost import summarise_cost
from actdeny_train.metrics.summary import summarise
from actdeny_train.questions.explicit_denial import ExplicitDenial
from actdeny_train.questions.frozen import write_questions
from actdeny_train.questions.graph_vqa import GraphQuestions
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.primary_distractor_removed import PrimaryDistractorRemoved
from actdeny_train.questions.prompts import CausalAct, Plain
from actdeny_train.questions.source import clip_kinds_of
from actdeny_train.questions.yes_no import YesNoPrimary, YesNoRandom
from actdeny_train.types import Clip, ParseStatus, Prediction, Question

FRAMES = (0, 1, 3, 4, 6, 7)


def sources() -> list[Any]:
    """Return the question sources of the made-up evaluations."""
    setups = (Standard, ExplicitDenial, PrimaryDistractorRemoved, YesNoPrimary, YesNoRandom)
    return [setup(prompt=prompt) for prompt in (Plain(), CausalAct()) for setup in setups]


def ask(clips: Sequence[Clip], labels: LabelSet) -> list[Question]:
    asked = [s.ask(c, labels, seed=0) for c in clips for s in sources() if c.kind in clip_kinds_of(s)]
    return asked + [GraphQuestions().ask(c, labels, seed=0, index=i) for c in clips for i in range(3)]


def answer(question: Question, clip: Clip, *, skill: float, name: str, generated: bool) -> Prediction:
    """Return a prediction drawn for this question: the higher ``skill``, the more often it is right."""
    draw = Draw("made-up model", name, question.id)
    hardness = Draw("hardness", clip.action, clip.kind).uniform(0.0, 1.5)
    logits = [draw.uniform(-2, 2) for _ in question.choices]
    logits[question.target] += skill
    lure = question.primary_distractor
    if lure is None and len(question.choices) == 2 and clip.kind.is_denial:
        lure = 0
    if lure is not None:
        logits[lure] += 1.2 + hardness
    total = math.log(sum(map(math.exp, logits)))
    choice: int | None = logits.index(max(logits))
    status, text = ParseStatus.OK, None
    if generated:
        text = f"The answer is {question.answers[choice or 0]}."
        if (lot := draw.uniform()) < 0.06:
            status, text = (
                (ParseStatus.REFUSAL, "I cannot tell <from this>.")
                if lot < 0.03
                else (ParseStatus.UNPARSED, "Hm & so on")
            )
            choice = None
    return Prediction(
        question_id=question.id,
        clip_ids=question.clip_ids,
        action=clip.action,
        source=clip.source,
        setup=question.setup,
        prompt=question.prompt,
        kind=question.kind,
        group=question.group,
        target=question.target,
        choice=choice,
        status=status,
        num_choices=len(question.choices),
        primary_distractor=question.primary_distractor,
        none_choice=question.none_choice,
        permutation=question.permutation,
        logprobs=tuple(x - total - 0.01 for x in logits),
        text=text,
        frame_indices=FRAMES,
        frame_times_s=tuple(i / 8 for i in FRAMES),
        fingerprints={
            "weights": f"weights-{name}",
            "question": hashlib.sha256(repr(question).encode()).hexdigest()[:16],
        },
    )


def write_run(
    folder: Path, clips: Sequence[Clip], labels: LabelSet, root: Path, *, skill: float, generated: bool = False
) -> Path:
    """Write every file of a run folder; return the folder."""
    folder.mkdir(parents=True)
    questions = ask(clips, labels)
    by_id = {clip.id: clip for clip in clips}
    predictions = [
        answer(q, by_id[q.clip_ids[0]], skill=skill, name=folder.name, generated=generated) for q in questions
    ]
    summary = summarise(predictions, num_draws=200)
    summary["clips"] = {"split": "test", "used": len(clips), "quarantined": 1}
    write_questions(folder / "questions.jsonl", questions)
    write_manifest(folder / "clips.jsonl", clips)
    cost = {
        "session": "s0",
        "rank": 0,
        "world_size": 1,
        "num_clips": 1,
        "num_questions": len(questions) // len(clips),
        "num_tokens": 2000,
        "num_tokens_alone": 9000,
        "decode_s": 0.25,
        "prepare_s": 0.125,
        "encode_s": 0.5,
        "llm_s": 1.0,
        "wall_s": 2.0,
        "peak_gib": 3.5,
        "device": "NVIDIA H200",
    }
    about = {
        "video_root": str(root),
        "split": "test",
        "frames": "middle(num_frames=6)",
        "on_damage": "error",
        "view": "video",
        "answers": "both" if generated else "score",
        "precision": "bfloat16",
        "model": "actdeny_train.models.qwen2_5_vl.load",
        "versions": {"torch": "2.8", "transformers": "5.24"},
        "fingerprints": {"weights": f"weights-{folder.name}", "processor": "p"},
    }
    quarantined = {"id": "broken", "path": "broken.mp4", "reason": "video 'broken.mp4' is empty (0 bytes)."}
    write_json(folder / "run.json", about)
    write_lines(folder / "predictions.jsonl", [p.to_json() for p in predictions])
    write_lines(folder / "cost.jsonl", [cost for _ in clips])
    summary["cost"] = summarise_cost(folder / "cost.jsonl")
    write_json(folder / "metrics.json", summary)
    config = "model: {_target_: actdeny_train.models.qwen2_5_vl.load, checkpoint: Qwen/Qwen2.5-VL-3B-Instruct}\n"
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    write_lines(folder / "quarantine.jsonl", [quarantined])
    return folder


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, allow_nan=False), encoding="utf-8")


def write_lines(path: Path, rows: Sequence[object]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="session")
def all_clips(small_clips: Path) -> list[Clip]:
    """All 18 clips of ``small_clips``, as if they were one test split."""
    return [replace(clip, split="test") for clip in read_manifest(small_clips / "manifest.jsonl")]


@pytest.fixture(scope="session")
def labels() -> LabelSet:
    return MiniAD("unused").labels


@pytest.fixture(scope="session")
def two_runs(
    small_clips: Path, all_clips: list[Clip], labels: LabelSet, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """Two runs on the same questions: "before" scored, "after" also generated, with refusals (never write into them)."""
    folder = tmp_path_factory.mktemp("runs")
    before = write_run(folder / "before", all_clips, labels, small_clips, skill=2.0)
    return before, write_run(folder / "after", all_clips, labels, small_clips, skill=3.5, generated=True)


@pytest.fixture
def make_run(small_clips: Path, all_clips: list[Clip], labels: LabelSet, tmp_path: Path) -> Callable[..., Path]:
    """Write a run of your own into the test's folder: ``make_run("name", clips=..., skill=...)``."""

    def make(name: str = "run", *, clips: Sequence[Clip] | None = None, skill: float = 2.0, **values: Any) -> Path:
        return write_run(tmp_path / name, clips or all_clips[:6], labels, small_clips, skill=skill, **values)

    return make
