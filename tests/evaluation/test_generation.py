"""Responses of a forest are those that transformers' own model gives to each prompt alone, token by token."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from actdeny_train.evaluation.generation import prompt_ends
from actdeny_train.evaluation.scoring import answer, score
from actdeny_train.models.batch import Asked, AskedTree, Batch, pack
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.types import Frames, Question

NUM_TOKENS = 9


def question(text: str, name: str = "q") -> Question:
    answers = tuple(str(i) for i in range(1, 12))
    return Question(
        id=name,
        clip_ids=("c",),
        setup="s",
        prompt="p",
        text=text,
        choices=tuple(f"Caption {i}." for i in answers),
        answers=answers,
        target=10,
        kind="k",
        group="g",
    )


QUESTIONS = [question(f"Which of these {n} is it?" + " Look well." * n, f"q{n}") for n in range(4)]


def greedy_alone(family: Qwen25VL, frames: Frames | None, asked: Question) -> str:
    """Decode by one whole forward pass of transformers' model a token, at the positions that follow the prompt."""
    visuals = [] if frames is None else [family.processor.visual(frames)]
    sequence = family.processor.sequence(visuals, asked.text, asked.answers[0], question=0, choice=0)
    ids = sequence.ids[: sequence.answer_start].tolist()
    positions = sequence.positions[:, : sequence.answer_start]
    made: list[int] = []
    for _ in range(NUM_TOKENS):
        steps = positions[:, -1:] + 1 + np.arange(len(made))[None]
        is_visual = np.array(ids) == family.processor._pad
        inputs: dict[str, Any] = dict(visuals[0].inputs) if visuals else {}
        with torch.no_grad():
            logits = family.model(
                input_ids=torch.tensor(ids)[None],
                position_ids=torch.from_numpy(np.concatenate([positions, steps], axis=1))[:, None],
                mm_token_type_ids=torch.from_numpy(np.where(is_visual, 2, 0))[None],
                **inputs,
            ).logits[0, -1]
        token = int(logits.argmax())
        if token in family.processor.stop_ids:
            break
        made.append(token)
        ids.append(token)
    return family.processor.decode(made)


@pytest.mark.parametrize("mode", ["generate", "both"])
def test_responses_are_those_of_each_prompt_alone(
    tiny_family: Callable[..., Qwen25VL], make_frames: Callable[..., Frames], mode: Any
) -> None:
    family = tiny_family().double().eval()  # no two logits of random weights are near in float64
    clips = [make_frames(4), make_frames(6, height=84, seed=1)]
    make = Asked.for_training if mode == "generate" else Asked.for_scoring
    batch = Batch.of(family.processor, [make([clip], QUESTIONS) for clip in clips])
    answers = answer(family, batch, mode, max_new_tokens=NUM_TOKENS)
    expected = [greedy_alone(family, clip, asked) for clip in clips for asked in QUESTIONS]
    assert [one.text for one in answers] == expected
    assert len(set(expected)) > 1, "different questions get different responses"
    if mode == "both":
        np.testing.assert_allclose([one.logprobs for one in answers], score(family, batch), rtol=0, atol=1e-9)
    else:
        assert all(one.logprobs == () for one in answers)


def test_a_model_that_sees_no_video(tiny_family: Callable[..., Qwen25VL]) -> None:
    family = tiny_family().double().eval()
    batch = Batch.of(family.processor, [Asked.for_scoring([], QUESTIONS)])
    answers = answer(family, batch, "both", max_new_tokens=NUM_TOKENS)
    assert [one.text for one in answers] == [greedy_alone(family, None, asked) for asked in QUESTIONS]


def test_a_response_ends_with_its_turn_or_is_cut_off(
    tiny_family: Callable[..., Qwen25VL], make_frames: Callable[..., Frames], monkeypatch: pytest.MonkeyPatch
) -> None:
    family = tiny_family().eval()
    batch = Batch.of(family.processor, [Asked.for_training([make_frames(4)], QUESTIONS)])
    cut = answer(family, batch, "generate", max_new_tokens=3)
    assert [one.finished for one in cut] == [False] * 4
    first = cut[0].text or ""
    (token, *_) = family.processor.processor.tokenizer(first, add_special_tokens=False)["input_ids"]
    end = family.processor.stop_ids[0]
    plan = iter([[token, end, token, end], [end, token], [token]])

    def logits(hidden: torch.Tensor) -> torch.Tensor:
        rows = torch.zeros(len(hidden), 2000)
        rows[torch.arange(len(hidden)), torch.tensor(next(plan))] = 1.0
        return rows

    monkeypatch.setattr(family, "logits", logits)
    made = answer(family, batch, "generate", max_new_tokens=3)
    piece = family.processor.decode([token])
    assert [(one.text, one.finished) for one in made] == [(piece, True), ("", True), (piece * 3, False), ("", True)]


def test_prompt_ends_are_the_last_tokens_before_the_answers(
    tiny_family: Callable[..., Qwen25VL], make_frames: Callable[..., Frames]
) -> None:
    family = tiny_family()
    clips = [make_frames(4), make_frames(6, seed=1)]
    batch = Batch.of(family.processor, [Asked.for_scoring([clip], QUESTIONS) for clip in clips])
    ends, rows = prompt_ends(batch.forest, 8)
    assert torch.equal(batch.forest.predict_rows[rows], ends)
    for number, end in enumerate(ends.tolist()):
        clip, asked = clips[number // 4], QUESTIONS[number % 4]
        prompt = family.processor.sequence([family.processor.visual(clip)], asked.text, "1", question=0, choice=0)
        assert batch.forest.positions[:, end].tolist() == prompt.positions[:, prompt.answer_start - 1].tolist()
        assert int(batch.forest.ids[end]) == int(prompt.ids[prompt.answer_start - 1])


def test_packing_keeps_order_and_the_limit(
    tiny_family: Callable[..., Qwen25VL], make_frames: Callable[..., Frames]
) -> None:
    processor = tiny_family().processor
    trees = [AskedTree.of(processor, Asked.for_scoring([make_frames(n)], QUESTIONS[:2])) for n in (4, 4, 12, 4, 4)]
    sizes = [len(t.tree) for t in trees]
    groups = list(pack(trees, sizes[0] + sizes[1]))
    assert [tree for group in groups for tree in group] == trees
    assert [len(group) for group in groups] == [2, 1, 2] and sizes[2] < sizes[0] + sizes[1] < sizes[2] + sizes[0]
    assert [len(g) for g in pack(trees, 1)] == [1] * 5
    assert list(pack([], 10)) == []
    alone = sum(
        len(processor.sequence([trees[0].visual], q.text, a, question=0, choice=0).ids)
        for q in QUESTIONS[:2]
        for a in q.answers
    )
    assert trees[0].num_tokens_alone == alone
    assert Batch.plant(trees).num_tokens_alone == sum(t.num_tokens_alone for t in trees)
