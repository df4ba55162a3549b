"""Whose fault a NaN is: each question is judged alone, since a forest spreads a NaN over its neighbours."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.heads import LanguageHead
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.questions.caption import Caption
from actdeny_train.training.blame import questions_at_fault
from actdeny_train.types import Clip, ClipKind, Frames, Question


@pytest.fixture(scope="module")
def questions() -> list[list[Question]]:
    """Four questions about each of three clips."""
    clips = [
        Clip(id=f"c{i}", path="-", action="Archery", kind=ClipKind.PRESENCE, split="train", source="g")
        for i in range(3)
    ]
    return [[Caption().ask(clip, load_ucf101(), seed=0, index=index) for index in range(4)] for clip in clips]


@pytest.fixture
def family(tiny_family: Callable[..., Qwen25VL]) -> Qwen25VL:
    return tiny_family()


def make_batch(family: Qwen25VL, make_frames: Callable[..., Frames], questions: list[list[Question]]) -> Batch:
    frames = [make_frames(4, seed=i) for i in range(3)]
    asked = [Asked.for_training([f], q) for f, q in zip(frames, questions, strict=True)]
    return Batch.of(family.processor, asked)


def test_it_is_nobodys_fault_where_all_is_finite(
    family: Qwen25VL, make_frames: Callable[..., Frames], questions: list[list[Question]]
) -> None:
    assert questions_at_fault(family, make_batch(family, make_frames, questions)) == []


def test_a_spoiled_clip_is_to_blame_with_all_its_questions(
    family: Qwen25VL, make_frames: Callable[..., Frames], questions: list[list[Question]]
) -> None:
    batch = make_batch(family, make_frames, questions)
    per_clip = len(batch.visual.inputs["pixel_values_videos"]) // 3
    batch.visual.inputs["pixel_values_videos"][per_clip + 2, 7] = torch.nan
    with torch.no_grad():
        hidden = family(batch.forest, family.encode(batch.visual))
        logprobs = LanguageHead().token_logprobs(family, batch.forest, hidden)
    assert int(torch.isnan(logprobs).sum()) > len(logprobs) // 3, "the forest alone does not tell which clip it was"
    assert questions_at_fault(family, batch) == questions[1]


def test_a_spoiled_word_is_to_blame_and_not_its_clip(
    family: Qwen25VL, make_frames: Callable[..., Frames], questions: list[list[Question]]
) -> None:
    asked = [*questions[:2], [*questions[2][:2], dataclasses.replace(questions[2][2], text="☃?"), questions[2][3]]]
    batch = make_batch(family, make_frames, asked)
    snowman = family.processor.processor.tokenizer("☃")["input_ids"][0]
    assert int((batch.forest.ids == snowman).sum()) == 1

    def spoil(module: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        return torch.where((inputs[0] == snowman)[..., None], torch.inf, output)

    family.model.model.language_model.embed_tokens.register_forward_hook(spoil)
    assert questions_at_fault(family, batch) == [asked[2][2]]
