"""Heads: from hidden rows to the log-probabilities of answers.

Shapes: U predicting rows, M answer tokens over all leaves (see ``trees.forest``).
"""

import torch
from torch import Tensor

from actdeny_train.models.family import Family
from actdeny_train.trees import Forest


class LanguageHead:
    """The paper's head: the language model's own vocabulary projection, on rows that predict an answer token only."""

    def token_logprobs(self, family: Family, forest: Forest, hidden: Tensor) -> Tensor:
        """Return (M,) log-probabilities (at least float32) of every answer token of every leaf, in the forest's order."""
        logits = family.logits(hidden)
        logprobs = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
        return logprobs[forest.answer_source, forest.answer_ids]

    def leaf_logprobs(self, forest: Forest, token_logprobs: Tensor) -> Tensor:
        """Return (num_leaves,) log-probabilities of complete answers, end of turn included."""
        zeros = torch.zeros(forest.num_leaves, dtype=token_logprobs.dtype, device=token_logprobs.device)
        return zeros.index_add(0, forest.answer_leaf, token_logprobs)
