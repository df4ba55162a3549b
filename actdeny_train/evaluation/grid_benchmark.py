"""How much trees save in evaluation: six setups under two prompts through one forest a clip, against one sequence at a time."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.draw import Draw
from actdeny_train.evaluation.plan import Questions
from actdeny_train.evaluation.run import grid
from actdeny_train.evaluation.scoring import score
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.models.tiny import TinySize, load
from actdeny_train.questions.explicit_denial import ExplicitDenial
from actdeny_train.questions.mcq import FourChoices, Standard
from actdeny_train.questions.primary_distractor_removed import PrimaryDistractorRemoved
from actdeny_train.questions.prompts import CausalAct, Plain, Prompt
from actdeny_train.questions.source import QuestionSource
from actdeny_train.questions.yes_no import YesNoPrimary, YesNoRandom
from actdeny_train.types import Clip, ClipKind, Frames, Question

SIZE = TinySize(hidden_size=256, intermediate_size=704, num_layers=4, num_vision_layers=4)
NUM_FRAMES = 8
SIZE_PX = 224
SETUPS: tuple[QuestionSource, ...] = (
    Standard(),
    ExplicitDenial(),
    PrimaryDistractorRemoved(),
    FourChoices(),
    YesNoPrimary(),
    YesNoRandom(),
)
PROMPTS: tuple[Prompt, ...] = (Plain(), CausalAct())

Scores = list[tuple[float, ...]]


def measure(root: str = "data/tiny", num_clips: int = 3, size: TinySize = SIZE) -> dict[str, object]:
    """Return the figures of one run on this machine, in float32: the log-probability of every choice of every question.

    "trees" tokenises, encodes a clip once and reads one forest. "alone" is transformers' own forward on the same weights, given the same
    positions: one sequence for each choice, clip and prompt encoded and read anew, as harnesses that score choices do. "prompts" is
    the least that asking one question at a time can cost: one sequence a question, its last row alone. Tokenising counts in all.
    """
    tokens = (SIZE_PX // 28) ** 2
    family = load(root, size=size, tokens_per_frame=(tokens, tokens)).eval()
    clips = [_clip(i) for i in range(num_clips)]
    asked = [[q for p in PROMPTS for q in _asked(clip, p)] for clip, _ in clips]
    plain = [_asked(clip, Plain()) for clip, _ in clips]
    frames = [one for _, one in clips]
    _trees(family, frames[:1], plain[:1])  # the first pass pays for warming up
    trees_s, ours = _timed(lambda: _trees(family, frames, asked))
    plain_s, _ = _timed(lambda: _trees(family, frames, plain))
    prompts_s, _ = _timed(lambda: _alone(family, frames, asked, prompts_only=True))
    alone_s, theirs = _timed(lambda: _alone(family, frames, asked))
    batches = [_batch(family, f, qs) for f, qs in zip(frames, asked, strict=True)]
    return {
        "parameters": sum(p.numel() for p in family.parameters()),
        "clips": num_clips,
        "questions": len(ours),
        "choices": sum(map(len, ours)),
        "frames": NUM_FRAMES,
        "frame_px": SIZE_PX,
        "threads": torch.get_num_threads(),
        "tokens_trees": sum(len(b.forest.ids) for b in batches),
        "tokens_alone": sum(b.num_tokens_alone for b in batches),
        "seconds_trees": trees_s,
        "seconds_alone": alone_s,
        "seconds_prompts": prompts_s,
        "ratio": alone_s / trees_s,
        "ratio_to_one_sequence_a_question": prompts_s / trees_s,
        "causalact_extra": trees_s / plain_s - 1,
        "changed_answers": sum(int(np.argmax(a) != np.argmax(b)) for a, b in zip(ours, theirs, strict=True)),
        "largest_logprob_difference": max(
            abs(a - b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True)
        ),
    }


def _asked(clip: Clip, prompt: Prompt) -> list[Question]:
    return Questions(grid(SETUPS, (prompt,)), load_ucf101(), seed=0).about(clip)


def _clip(number: int) -> tuple[Clip, Frames]:
    draw = Draw("grid benchmark", number)
    noise = np.array([draw.integer(256) for _ in range(NUM_FRAMES * 16 * 16 * 3)], dtype=np.uint8)
    pixels = noise.reshape(NUM_FRAMES, 16, 16, 3).repeat(SIZE_PX // 16, axis=1).repeat(SIZE_PX // 16, axis=2)
    name = f"benchmark{number}"
    clip = Clip(id=name, path="-", action="PlayingGuitar", kind=ClipKind.CONTEXT_ONLY, split="test", source=name)
    index = np.arange(NUM_FRAMES)
    return clip, Frames(pixels=pixels, time_s=index / 2.0, indices=index, num_decoded=NUM_FRAMES, sampling="all")


def _timed(make: Callable[[], Scores]) -> tuple[float, Scores]:
    started = time.perf_counter()
    made = make()
    return time.perf_counter() - started, made


def _batch(family: Qwen25VL, frames: Frames, questions: Sequence[Question]) -> Batch:
    return Batch.of(family.processor, [Asked.for_scoring([frames], questions)])


def _trees(family: Qwen25VL, frames: Sequence[Frames], asked: Sequence[Sequence[Question]]) -> Scores:
    batches = (_batch(family, one, questions) for one, questions in zip(frames, asked, strict=True))
    return [scores for batch in batches for scores in score(family, batch)]


def _alone(
    family: Qwen25VL, frames: Sequence[Frames], asked: Sequence[Sequence[Question]], prompts_only: bool = False
) -> Scores:
    return [
        tuple(_one(family, one, q, text, prompts_only) for text in (q.answers[:1] if prompts_only else q.answers))
        for one, questions in zip(frames, asked, strict=True)
        for q in questions
    ]


def _one(family: Qwen25VL, frames: Frames, question: Question, text: str, prompt_only: bool) -> float:
    """Return the log-probability of one answer, by transformers' own model on the whole sequence."""
    visual = family.processor.visual(frames)
    sequence = family.processor.sequence([visual], question.text, text, question=0, choice=0)
    end = sequence.answer_start if prompt_only else len(sequence.ids)
    ids = torch.from_numpy(sequence.ids[:end])
    keep = 1 if prompt_only else end - sequence.answer_start + 1
    with torch.no_grad():
        logits = family.model(
            input_ids=ids[None],
            position_ids=torch.from_numpy(sequence.positions[:, :end])[:, None],
            mm_token_type_ids=torch.from_numpy(np.where(sequence.visual[:end] >= 0, 2, 0))[None],
            logits_to_keep=keep,
            **visual.inputs,
        ).logits[0]
    if prompt_only:
        return float(logits[0].max())
    answer = ids[sequence.answer_start :]
    return float(torch.log_softmax(logits[:-1], dim=-1)[torch.arange(len(answer)), answer].sum())
