"""Greedy decoding of all questions of a forest side by side: the forest is read once, then every response grows by a token a step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from actdeny_train.models.family import Family
from actdeny_train.trees import Forest


@dataclass(frozen=True, slots=True)
class Response:
    """What a model typed. ``finished`` is False where the limit of tokens came before the end of the turn."""

    text: str
    finished: bool


def generate(
    family: Family, forest: Forest, hidden: Tensor, cache: object, num_questions: int, *, max_new_tokens: int
) -> list[Response]:
    """Return the greedy response to each question of a forest that ``family`` has just read.

    ``hidden`` (U, D) are its predicting rows and ``cache`` its keys and values. A new token sees its question's prompt and the tokens
    of its own response, at the positions that follow the prompt: what decoding the question alone would give (tested against
    it). Of equal logits the first token is taken.
    """
    ends, rows = prompt_ends(forest, num_questions)
    index = torch.arange(len(forest.ids), device=forest.ids.device)
    sees = (index[None, :] <= ends[:, None]) & (ends[:, None] < forest.leave[None, :])
    stop = torch.tensor(family.processor.stop_ids, device=forest.ids.device)
    made: list[list[int]] = [[] for _ in range(num_questions)]
    finished = [False] * num_questions
    live = torch.arange(num_questions, device=forest.ids.device)
    owners = live[:0]
    token = family.logits(hidden[rows]).argmax(dim=-1)
    for step in range(max_new_tokens):
        ended = torch.isin(token, stop)
        for question, new, is_end in zip(live.tolist(), token.tolist(), ended.tolist(), strict=True):
            if is_end:
                finished[question] = True
            else:
                made[question].append(new)
        live, token = live[~ended], token[~ended]
        if len(live) == 0 or step == max_new_tokens - 1:
            break
        owners = torch.cat((owners, live))
        mask = torch.cat((sees[live], owners[None, :] == live[:, None]), dim=1)
        positions = forest.positions[:, ends[live]] + 1 + step
        token = family.logits(family.extend(token, positions, mask, cache)).argmax(dim=-1)
    return [Response(family.processor.decode(ids), done) for ids, done in zip(made, finished, strict=True)]


def prompt_ends(forest: Forest, num_questions: int) -> tuple[Tensor, Tensor]:
    """Return for each question the last token of its prompt (Q,) and that token's place among the predicting rows (Q,)."""
    starts = torch.cat((forest.answer_leaf.new_ones(1), forest.answer_leaf.diff())) > 0
    first = forest.answer_source[starts]  # of each leaf, whose answer tokens lie together
    rows = torch.full((num_questions,), -1, dtype=torch.int64, device=first.device)
    rows[forest.leaf_question] = first
    assert bool((rows >= 0).all()), "a question without a leaf"
    return forest.predict_rows[rows], rows
