"""How much a forest saves: questions per second of one forest a clip against one question a sequence, and how far they differ."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.draw import Draw
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.heads import LanguageHead
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.models.tiny import TinySize, load
from actdeny_train.questions.graph_vqa import GraphQuestions
from actdeny_train.types import Clip, ClipKind, Frames, Question

SIZE = TinySize(hidden_size=512, intermediate_size=1408, num_layers=6, num_vision_layers=4)
NUM_QUESTIONS = 14
NUM_FRAMES = 8
SIZE_PX = 224


def measure(root: str = "data/tiny", num_repeats: int = 3) -> dict[str, object]:
    """Return the figures of one run on this machine: a training step (forward and backward) on one clip and 14 graph questions.

    "alone" is transformers' own forward, one question a sequence, on the same weights and given the same positions. Times are the
    best of ``num_repeats`` in float32; differences are relative, in float64.
    """
    family = load(root, size=SIZE, tokens_per_frame=((SIZE_PX // 28) ** 2, (SIZE_PX // 28) ** 2))
    frames, questions = _clip(), _questions()
    batch = Batch.of(family.processor, [Asked.for_training([frames], questions)])
    steps: dict[str, Callable[[], Tensor]] = {
        "forest": lambda: _forest_loss(family, batch),
        "alone": lambda: _alone_loss(family, frames, questions),
    }
    seconds = {name: min(_seconds(family, step) for _ in range(num_repeats)) for name, step in steps.items()}
    family.double()
    losses, gradients = {}, {}
    for name, step in steps.items():
        family.zero_grad()
        loss = step()
        losses[name] = float(loss)
        gradients[name] = {n: p.grad.clone() for n, p in family.named_parameters() if p.grad is not None}
    scale = max(float(g.abs().max()) for g in gradients["alone"].values())
    differences = [float((gradients["forest"][n] - g).abs().max()) for n, g in gradients["alone"].items()]
    return {
        "parameters": sum(p.numel() for p in family.parameters()),
        "questions_per_clip": NUM_QUESTIONS,
        "frames": NUM_FRAMES,
        "frame_px": SIZE_PX,
        "threads": torch.get_num_threads(),
        "tokens_forest": len(batch.forest.ids),
        "tokens_alone": sum(len(s) for s in _sequences(family, frames, questions)),
        "questions_per_s_forest": NUM_QUESTIONS / seconds["forest"],
        "questions_per_s_alone": NUM_QUESTIONS / seconds["alone"],
        "ratio": seconds["alone"] / seconds["forest"],
        "largest_loss_difference": abs(losses["forest"] - losses["alone"]) / abs(losses["alone"]),
        "largest_gradient_difference": max(differences) / scale,
    }


def _clip() -> Frames:
    draw = Draw("tree benchmark")
    noise = np.array([draw.integer(256) for _ in range(NUM_FRAMES * 16 * 16 * 3)], dtype=np.uint8)
    pixels = noise.reshape(NUM_FRAMES, 16, 16, 3).repeat(SIZE_PX // 16, axis=1).repeat(SIZE_PX // 16, axis=2)
    return Frames(
        pixels=pixels,
        time_s=np.arange(NUM_FRAMES) / 2.0,
        indices=np.arange(NUM_FRAMES),
        num_decoded=NUM_FRAMES,
        sampling="all",
    )


def _questions() -> list[Question]:
    clip = Clip(
        id="benchmark", path="-", action="PlayingGuitar", kind=ClipKind.CONTEXT_ONLY, split="train", source="benchmark"
    )
    return [GraphQuestions().ask(clip, load_ucf101(), seed=0, index=i) for i in range(NUM_QUESTIONS)]


def _forest_loss(family: Qwen25VL, batch: Batch) -> Tensor:
    head = LanguageHead()
    hidden = family(batch.forest, family.encode(batch.visual))
    loss = -head.token_logprobs(family, batch.forest, hidden).mean()
    loss.backward()
    return loss.detach()


def _sequences(family: Qwen25VL, frames: Frames, questions: Sequence[Question]) -> list[np.ndarray]:
    visual = family.processor.visual(frames)
    return [
        family.processor.sequence([visual], q.text, q.answers[q.target], question=0, choice=0).ids for q in questions
    ]


def _alone_loss(family: Qwen25VL, frames: Frames, questions: Sequence[Question]) -> Tensor:
    visual = family.processor.visual(frames)
    sequences = [
        family.processor.sequence([visual], q.text, q.answers[q.target], question=0, choice=0) for q in questions
    ]
    num_tokens = sum(len(s.ids) - s.answer_start for s in sequences)
    total = torch.zeros(())
    for sequence in sequences:
        ids = torch.from_numpy(sequence.ids)
        logits = family.model(
            input_ids=ids[None],
            position_ids=torch.from_numpy(sequence.positions)[:, None],
            mm_token_type_ids=torch.from_numpy(np.where(sequence.visual >= 0, 2, 0))[None],
            logits_to_keep=len(ids) - sequence.answer_start + 1,
            **visual.inputs,
        ).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[sequence.answer_start :], reduction="sum") / num_tokens
        loss.backward()
        total = total + loss.detach()
    return total


def _seconds(family: Qwen25VL, step: Callable[[], Tensor]) -> float:
    family.zero_grad()
    started = time.perf_counter()
    step()
    return time.perf_counter() - started
