"""Whose fault a loss is that is not finite."""

from collections.abc import Iterator

import torch

from actdeny_train.models.batch import Batch
from actdeny_train.models.family import Family
from actdeny_train.models.heads import LanguageHead
from actdeny_train.trees import Forest, dense_mask
from actdeny_train.types import Question


def questions_at_fault(family: Family, batch: Batch) -> list[Question]:
    """Return the questions whose log-probability is not finite where each is computed alone, leaf by leaf.

    In a forest, a NaN spreads to neighbours: a hidden token has weight 0 in attention, but 0 times NaN is NaN.
    """
    head = LanguageHead()
    found = []
    with torch.no_grad():
        visual_tokens = family.encode(batch.visual)
        for forest in _leaves_alone(batch.forest):
            logprobs = head.token_logprobs(family, forest, family(forest, visual_tokens))
            if not bool(torch.isfinite(logprobs).all()):
                found.append(batch.questions[int(forest.leaf_question)])
    return found


def _leaves_alone(forest: Forest) -> Iterator[Forest]:
    """Yield each leaf's sequence as a forest of its own; ``visual_index`` still counts the visual tokens of all clips."""
    sees = dense_mask(forest.leave)
    is_visual, place = torch.zeros_like(forest.ids, dtype=torch.bool), torch.zeros_like(forest.ids)
    is_visual[forest.visual_rows] = True
    place[forest.visual_rows] = forest.visual_index
    for leaf in range(forest.num_leaves):
        answer = (forest.answer_leaf == leaf).nonzero().flatten()
        rows = forest.predict_rows[forest.answer_source[answer]]
        path = sees[rows[-1]].nonzero().flatten()
        yield Forest(
            ids=forest.ids[path],
            positions=forest.positions[:, path],
            leave=torch.full_like(path, len(path)),
            visual_rows=is_visual[path].nonzero().flatten(),
            visual_index=place[path][is_visual[path]],
            predict_rows=torch.searchsorted(path, rows),
            answer_source=torch.arange(len(rows), device=path.device),
            answer_ids=forest.answer_ids[answer],
            answer_leaf=torch.zeros_like(answer),
            leaf_question=forest.leaf_question[leaf : leaf + 1],
            leaf_choice=forest.leaf_choice[leaf : leaf + 1],
            tree_sizes=(len(path),),
        )
