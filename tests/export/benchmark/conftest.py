"""Benchmarks to export, and oracles that answer them as models do."""

import json
import os
import subprocess
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.draw import Draw
from actdeny_train.evaluation.parsing import parse_response
from actdeny_train.metrics.denial import denial_accuracy
from actdeny_train.questions.explicit_denial import ExplicitDenial
from actdeny_train.questions.mcq import FourChoices, Standard
from actdeny_train.questions.primary_distractor_removed import PrimaryDistractorRemoved
from actdeny_train.questions.prompts import CausalAct, Plain
from actdeny_train.questions.source import clip_kinds_of
from actdeny_train.questions.yes_no import YesNoPrimary, YesNoRandom
from actdeny_train.types import Clip, ClipKind, ParseStatus, Prediction, Question

SETUPS = (Standard, ExplicitDenial, PrimaryDistractorRemoved, FourChoices, YesNoPrimary, YesNoRandom)

STYLES: dict[str, Callable[[Mapping[str, Any], int], str]] = {
    "label": lambda r, i: r["answers"][i],
    "caption": lambda r, i: r["choices"][i],
    "answer": lambda r, i: f"Answer: {r['answers'][i]}",
    "sentence": lambda r, i: f"The answer is {r['answers'][i]}.",
    "behind": lambda r, i: r["choices"][i] if r["choices"] == r["answers"] else f"{r['choices'][i]} {r['answers'][i]}",
    "bare none": lambda r, i: "None" if i == r["none_choice"] else r["answers"][i],
}
"""How a model may say that its answer is number i."""


@pytest.fixture(scope="session")
def clips() -> list[Clip]:
    """27 clips of 3 actions, 2 sources each, of every kind but the unknown one, and one clip of that."""
    made = []
    for action in ("Archery", "PlayingCello", "Fencing"):
        for kind in (ClipKind.PRESENCE, ClipKind.CONTEXT_ONLY, ClipKind.DIFFERENT_MOTION):
            for n in range(3):
                path = f"{action}/{kind}/{n}.mp4"
                source = f"{action}/g{n % 2 + 1:02d}"
                made.append(Clip(id=path[:-4], path=path, action=action, kind=kind, split="test", source=source))
    unknown = {"id": "x", "path": "x y.mp4", "action": "Archery", "kind": ClipKind.DENIAL, "split": "test"}
    return [*made, Clip(**unknown, source="Archery/g01")]  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def questions(clips: list[Clip]) -> list[Question]:
    """All six setups under two prompts, and the standard one with letters and with 20 choices."""
    prompts = (Plain(), CausalAct())
    sources = [setup(prompt=prompt) for prompt in prompts for setup in SETUPS]
    sources += [Standard(labelled="letters"), Standard(num_choices=20), Standard(prompt=CausalAct(style="released"))]
    labels = load_ucf101()
    return [s.ask(clip, labels, seed=3) for s in sources for clip in clips if clip.kind in clip_kinds_of(s)]


@pytest.fixture(scope="session")
def video_root(clips: list[Clip], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a file for each clip."""
    root = tmp_path_factory.mktemp("videos")
    for clip in clips:
        (root / clip.path).parent.mkdir(parents=True, exist_ok=True)
        (root / clip.path).write_bytes(clip.id.encode())
    return root


@pytest.fixture
def run_alone(tmp_path: Path) -> Callable[..., Any]:
    """Run Python code where this package cannot be imported; return what it prints as JSON.

    ``run_alone(folder, code, value)``: modules in ``folder`` can be imported, ``value`` comes as ``VALUE``.
    """

    def run(folder: Path, code: str, value: object = None, **environment: str) -> Any:
        head = (
            "import importlib.util, json, sys\nsys.path.insert(0, sys.argv[1])\n"
            "assert importlib.util.find_spec('actdeny_train') is None\nVALUE = json.loads(sys.stdin.read())\n"
        )
        ran = subprocess.run(
            [sys.executable, "-S", "-c", head + code, str(folder)],
            input=json.dumps(value),
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


def babble(record: Mapping[str, Any], seed: int) -> str:
    """Return a response of a model that often errs, refuses or says nothing."""
    draw = Draw("babble", seed, record["id"])
    if draw.integer(3) == 0:
        return ("", "I cannot see the video.", "<think>hm", "1000", "maybe")[draw.integer(5)]
    right = record["target"] if draw.integer(2) else draw.integer(len(record["choices"]))
    return list(STYLES.values())[draw.integer(len(STYLES))](record, right)


def expected(records: list[dict[str, Any]], responses: list[str]) -> dict[str, float | None]:
    """Return the metrics that this package computes of the responses."""
    predictions = []
    for r, text in zip(records, responses, strict=True):
        parsed = parse_response(text, r["choices"], r["answers"], none_choice=r["none_choice"])
        predictions.append(
            Prediction(
                question_id=r["id"],
                clip_ids=(r["clip"],),
                action=r["action"],
                source=r["source"],
                setup=r["setup"],
                prompt=r["prompt"],
                kind=r["kind"],
                group=r["source"],
                target=r["target"],
                choice=parsed.choice,
                status=parsed.status,
                num_choices=len(r["choices"]),
                primary_distractor=r["primary_distractor"],
                none_choice=r["none_choice"],
            )
        )
    values: dict[str, float | None] = {name: e.value for name, e in denial_accuracy(predictions).items()}
    numbers = {s.value: sum(p.status is s for p in predictions) for s in ParseStatus if s is not ParseStatus.OK}
    return values | numbers


@pytest.fixture(scope="session")
def oracle() -> types.SimpleNamespace:
    """``styles``, ``babble`` and ``expected``, as above."""
    return types.SimpleNamespace(styles=STYLES, babble=babble, expected=expected)
