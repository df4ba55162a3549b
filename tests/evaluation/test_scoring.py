"""Scores belong to answers, not to places."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.evaluation.scoring import score
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.questions.caption import Caption
from actdeny_train.questions.mcq import Standard
from actdeny_train.types import Clip, ClipKind, Frames, Question

CLIP = Clip(id="c", path="-", action="Archery", kind=ClipKind.CONTEXT_ONLY, split="test", source="g01")
PRESENCE = dataclasses.replace(CLIP, id="p", kind=ClipKind.PRESENCE)


def standard(clip: Clip = CLIP) -> Question:
    return Standard().ask(clip, load_ucf101(), seed=0)


def test_an_answer_keeps_its_score_wherever_it_stands(
    tiny_family: Callable[..., Qwen25VL], make_frames: Callable[..., Frames]
) -> None:
    family = tiny_family().eval()
    question = Caption().ask(PRESENCE, load_ucf101(), seed=0)
    assert question.answers == question.choices, "the answers of a caption are its choices"
    backward = dataclasses.replace(question, answers=question.answers[::-1], choices=question.choices[::-1])
    asked = [
        Asked.for_scoring([make_frames(4)], [question, backward, standard()]),
        Asked.for_scoring([make_frames(4, seed=1)], [backward]),
    ]
    first, second, third, other = score(family, Batch.of(family.processor, asked))
    assert first == second[::-1], "the same leaves of one tree"
    assert len(first) == len(question.answers) and len(third) == 11 and len(set(first)) > 1
    assert max(abs(a - b) for a, b in zip(second, other, strict=True)) > 1e-4, "each clip has its own scores"
    (alone,) = score(family, Batch.of(family.processor, [Asked.for_scoring([make_frames(4)], [question])]))
    assert alone == pytest.approx(first, abs=1e-5)


def test_scoring_keeps_no_gradients(tiny_family: Callable[..., Qwen25VL], make_frames: Callable[..., Frames]) -> None:
    family = tiny_family()
    score(family, Batch.of(family.processor, [Asked.for_scoring([make_frames(4)], [standard()])]))
    assert all(p.grad is None for p in family.parameters()) and torch.is_grad_enabled()
