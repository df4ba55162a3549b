"""Answers of a model to a forest: the log-probability of every complete answer, the greedy response, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from actdeny_train.evaluation.generation import generate
from actdeny_train.models.batch import Batch
from actdeny_train.models.family import Family
from actdeny_train.models.heads import LanguageHead
from actdeny_train.trees import Forest

Mode = Literal["score", "generate", "both"]
"""How questions are answered: by scoring every choice, by generating a response, or both ways."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model says to one question.

    ``logprobs``: natural-log probability of each complete answer, empty where none was scored. ``text``: the response, None
    where none was generated; ``finished`` is False where it was cut off.
    """

    logprobs: tuple[float, ...] = ()
    text: str | None = None
    finished: bool = True


def answer(
    family: Family,
    batch: Batch,
    mode: Mode = "score",
    *,
    max_new_tokens: int = 64,
    visual_tokens: Tensor | None = None,
) -> list[Answer]:
    """Return the answer to each question of a batch. For scoring, every choice must be a leaf of the forest.

    ``visual_tokens`` are those of the batch where they are there already; None encodes its clips.
    """
    with torch.no_grad():
        cache = None if mode == "score" else family.new_cache()
        hidden = family(batch.forest, family.see(batch.visual) if visual_tokens is None else visual_tokens, cache)
        num = len(batch.questions)
        scores: Sequence[tuple[float, ...]] = [()] * num
        if mode != "generate":
            scores = _score(family, batch, hidden)
        if mode == "score":
            return [Answer(logprobs) for logprobs in scores]
        responses = generate(family, batch.forest, hidden, cache, num, max_new_tokens=max_new_tokens)
    return [Answer(s, r.text, r.finished) for s, r in zip(scores, responses, strict=True)]


def score(family: Family, batch: Batch) -> list[tuple[float, ...]]:
    """Return for each question the log-probability (nats, end of turn included) of each of its answers, in their order.

    A plain sum over the answer's tokens, never divided by its length: with the end of turn, it is the probability that the model
    gives exactly this answer, so "1" and "11" are compared fairly. Where answers are whole phrases, long ones are less likely.
    """
    return [one.logprobs for one in answer(family, batch)]


def _score(family: Family, batch: Batch, hidden: Tensor) -> list[tuple[float, ...]]:
    head = LanguageHead()
    forest: Forest = batch.forest
    leaves = head.leaf_logprobs(forest, head.token_logprobs(family, forest, hidden))
    scores: list[list[float]] = [[0.0] * len(q.answers) for q in batch.questions]
    for question, choice, value in zip(
        forest.leaf_question.tolist(), forest.leaf_choice.tolist(), leaves.tolist(), strict=True
    ):
        scores[question][choice] = value
    return [tuple(s) for s in scores]
