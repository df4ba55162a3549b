"""Predictions to compute metrics of."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import ClipKind, ParseStatus, Prediction

NONE, DISTRACTOR = 3, 0
"""Places of the none choice and of the clip's action among four choices."""


@pytest.fixture(scope="session")
def predict() -> Callable[..., Prediction]:
    """Return a function from (kind of clip, choice or None) to a prediction of the standard setup with four choices.

    Choice 0 is the clip's action (right on presence clips, the primary distractor on others), choice 3 the none choice.
    """

    def make(kind: str, choice: int | None, **values: Any) -> Prediction:
        denial = kind != ClipKind.PRESENCE
        defaults: dict[str, Any] = {
            "question_id": "q",
            "clip_ids": ("c",),
            "action": "Archery",
            "source": "Archery/g01",
            "setup": "standard",
            "prompt": "plain",
            "group": "Archery/g01",
            "target": NONE if denial else DISTRACTOR,
            "status": ParseStatus.UNPARSED if choice is None else ParseStatus.OK,
            "num_choices": 4,
            "none_choice": NONE,
            "primary_distractor": DISTRACTOR if denial else None,
        }
        return Prediction(kind=kind, choice=choice, **{**defaults, **values})

    return make


@pytest.fixture(scope="session")
def twelve(predict: Callable[..., Prediction]) -> list[Prediction]:
    """Return the predictions that the tests work out on paper.

    context-only     4 clips: 1 none choice (right), 1 primary distractor, 1 other action, 1 unparsed
    different-motion 3 clips: 2 none choices (right), 1 primary distractor
    presence         5 clips: 3 actions (right), 1 none choice, 1 close action
    """
    rows: list[tuple[str, int | None, str]] = [
        ("context_only", 3, "a"),
        ("context_only", 0, "a"),
        ("context_only", 2, "b"),
        ("context_only", None, "b"),
        ("different_motion", 3, "a"),
        ("different_motion", 3, "b"),
        ("different_motion", 0, "c"),
        ("presence", 0, "a"),
        ("presence", 0, "b"),
        ("presence", 0, "c"),
        ("presence", 3, "c"),
        ("presence", 1, "c"),
    ]
    return [predict(kind, choice, source=source, question_id=f"q{i}") for i, (kind, choice, source) in enumerate(rows)]


@pytest.fixture(scope="session")
def twelve_scored(twelve: list[Prediction]) -> list[Prediction]:
    """Return the twelve with probabilities of the choices, a response from all but the last one, and two classes.

    Archery has sources a and b, Fencing source c. Equal probabilities come from equal sets of four, so that they tie exactly.
    """
    probabilities = [
        (0.1, 0.1, 0.2, 0.6),
        (0.5, 0.1, 0.1, 0.3),
        (0.25, 0.1, 0.4, 0.25),
        (0.1, 0.1, 0.1, 0.7),
        (0.05, 0.05, 0.1, 0.8),
        (0.1, 0.2, 0.1, 0.6),
        (0.6, 0.1, 0.1, 0.2),
        (0.7, 0.1, 0.1, 0.1),
        (0.9, 0.025, 0.025, 0.05),
        (0.4, 0.25, 0.1, 0.25),
        (0.3, 0.1, 0.1, 0.5),
        (0.3, 0.5, 0.1, 0.1),
    ]
    return [
        dataclasses.replace(
            p,
            clip_ids=(f"c{i}",),
            action="Fencing" if p.source == "c" else "Archery",
            logprobs=tuple(math.log(x) - 0.25 for x in row),
            text=None if i == 11 else "a response",
        )
        for i, (p, row) in enumerate(zip(twelve, probabilities, strict=True))
    ]


@pytest.fixture(scope="session")
def twelve_yes_no(twelve_scored: list[Prediction]) -> list[Prediction]:
    """Return the answers to yes/no questions about the twelve clips: twelve about their own action, seven about another one.

    Yes to their own action: clips 1, 2, 5 and 6 of the denial clips 0 to 6, clips 7, 8 and 9 of the presence clips 7 to 11.
    Clip 11 has no choice. Log P(yes) - log P(no) is that of p(action) against p(none) in ``twelve_scored``; clip 11 has that
    of clip 6, an exact tie. Yes to another action: clips 1 and 3.
    """
    common: dict[str, Any] = {"num_choices": 2, "none_choice": None, "primary_distractor": None, "text": None}
    answers = []
    for i, p in enumerate(twelve_scored):
        scores = twelve_scored[6 if i == 11 else i].logprobs
        choice = None if i == 11 else 0 if i in (1, 2, 5, 6, 7, 8, 9) else 1
        answers.append(
            dataclasses.replace(
                p,
                setup="yes_no_primary",
                question_id=f"y{i}",
                target=0 if p.kind == ClipKind.PRESENCE else 1,
                choice=choice,
                status=ParseStatus.UNPARSED if choice is None else ParseStatus.OK,
                logprobs=(scores[0], scores[3]),
                **common,
            )
        )
    for i, p in enumerate(twelve_scored[:7]):
        choice = 0 if i in (1, 3) else 1
        answers.append(
            dataclasses.replace(
                p,
                setup="yes_no_random",
                question_id=f"r{i}",
                target=1,
                choice=choice,
                status=ParseStatus.OK,
                logprobs=(),
                **common,
            )
        )
    return answers


@pytest.fixture(scope="session")
def at_random(predict: Callable[..., Prediction]) -> Callable[..., list[Prediction]]:
    """Return a function from a seed and a number of clips to the predictions of four setups, each like nothing in particular.

    Some have no choice, some no log-probabilities, some a response; log-probabilities of a question never tie at their top,
    but many are the same from question to question. ``unknown`` leaves out the types of denial clips.
    """

    def make(seed: int, num_clips: int, *, unknown: bool = False) -> list[Prediction]:
        draw = np.random.default_rng(seed)
        made = []
        for c in range(num_clips):
            kinds = ["presence", "denial"] if unknown else ["presence", "context_only", "different_motion"]
            kind = str(draw.choice(kinds))
            source = int(draw.integers(5))
            clip = {
                "clip_ids": (f"c{c}",),
                "source": f"s{source}",
                "group": f"s{source}",
                "action": f"Action{source % 3}",
            }
            for setup in ("standard", "four_choices", "yes_no_primary", "yes_no_random"):
                made.append(predict(kind, **_question(draw, kind, setup), **clip, question_id=f"{c}|{setup}"))
        return made

    return make


def _question(draw: np.random.Generator, kind: str, setup: str) -> dict[str, Any]:
    yes_no, denial = setup.startswith("yes_no"), kind != ClipKind.PRESENCE
    num_choices = 2 if yes_no else 4
    places = [int(i) for i in draw.permutation(num_choices)]
    target, none_choice, distractor = (places[0], places[0], places[1]) if denial else (places[0], places[1], None)
    if yes_no:
        target, none_choice, distractor = int(denial or setup == "yes_no_random"), None, None
    status = ParseStatus(draw.choice([s.value for s in ParseStatus], p=[0.8, 0.05, 0.05, 0.05, 0.05]))
    scores = [-float(x) for x in draw.permutation(6)[:num_choices]]
    return {
        "setup": setup,
        "target": target,
        "none_choice": none_choice,
        "primary_distractor": distractor,
        "num_choices": num_choices,
        "status": status,
        "choice": int(draw.integers(num_choices)) if status is ParseStatus.OK else None,
        "logprobs": tuple(scores) if draw.random() < 0.8 else (),
        "text": "a response" if draw.random() < 0.5 else None,
    }


@pytest.fixture(scope="session")
def without_intervals() -> Callable[[Any], Any]:
    """Return a function that takes the intervals, and the reason why there is none, out of JSON values."""

    def strip(values: Any) -> Any:
        if isinstance(values, list):
            return [strip(value) for value in values]
        if not isinstance(values, dict):
            return values
        if "value" not in values:
            return {name: strip(value) for name, value in values.items()}
        reason = "; ".join(
            text for text in values.get("reason", "").split("; ") if text and not text.startswith("no interval: ")
        )
        return Estimate(values["value"], None, None, values["n"], reason).to_json()

    return strip
