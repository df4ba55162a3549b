"""Whose fault a NaN is: each question is judged alone, since a forest spreads a NaN over its neighbours."""

from collections.abc import Callable, Iterator

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
def family(tiny_family: Callable[..., Qwen25VL]) -> Iterator[Qwen25VL]:
    yield tiny_family()


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
    batch = make_batch(family, make_frames, questions)
    ids = family.processor.processor.tokenizer(questions[2][1].text)["input_ids"]
    others = {t for clip in questions for q in clip if q.text != questions[2][1].text for t in _ids(family, q)}
    rare = next(token for token in ids if token not in others)
    expected = [q for clip in questions for q in clip if rare in _ids(family, q)]

    def spoil(module: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        return torch.where((inputs[0] == rare)[..., None], torch.inf, output)

    family.model.model.language_model.embed_tokens.register_forward_hook(spoil)
    assert 1 <= len(expected) < 12 and questions_at_fault(family, batch) == expected


def _ids(family: Qwen25VL, question: Question) -> list[int]:
    text = question.text + "\n" + question.answers[question.target]
    return list(family.processor.processor.tokenizer(text)["input_ids"])
