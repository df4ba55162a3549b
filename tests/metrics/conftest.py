"""Predictions to compute metrics of."""

from collections.abc import Callable
from typing import Any

import pytest

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
