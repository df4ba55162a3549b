"""Questions, and transformers' own forward pass as the reference."""

import pytest

from actdeny_train.types import Question


@pytest.fixture
def make_question():
    """Make a question from its text and answers: ``make_question(text, answers, target)``."""

    def make(text, answers, target=0):
        return Question(
            id=text,
            clip_ids=("clip",),
            setup="test",
            prompt="plain",
            text=text,
            choices=tuple(answers),
            answers=tuple(answers),
            target=target,
            kind="presence",
            group="clip",
        )

    return make
