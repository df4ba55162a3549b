"""Questions, and transformers' own forward pass as the reference."""

import numpy as np
import pytest
import torch

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


@pytest.fixture
def alone():
    """Run one sequence through transformers' own model: ``alone(model, sequence, visuals)`` gives the (K,) log-probabilities of
    its answer tokens.
    """

    def run(model, sequence, visuals):
        dtype = next(model.parameters()).dtype
        ids = torch.from_numpy(sequence.ids)[None]
        logits = model(
            input_ids=ids,
            position_ids=torch.from_numpy(sequence.positions)[:, None],
            pixel_values_videos=torch.cat([v.inputs["pixel_values_videos"] for v in visuals]).to(dtype),
            video_grid_thw=torch.cat([v.inputs["video_grid_thw"] for v in visuals]),
            mm_token_type_ids=torch.from_numpy(np.where(sequence.visual >= 0, 2, 0))[None],
        ).logits[0]
        rows = torch.arange(sequence.answer_start, len(sequence.ids))
        return torch.log_softmax(logits[rows - 1], dim=-1)[torch.arange(len(rows)), ids[0, rows]]

    return run
