"""The forest: prompt trees side by side in one row of tokens, without padding. The only batch type there is.

Shapes: N tokens in all trees, R position rows, V visual places, M answer tokens over all leaves, U rows that predict one.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actdeny_train.trees.tree import PromptTree


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as tensors (all int64).

    ``ids`` (N,); ``positions`` (R, N); ``leave`` (N,) one past the last descendant of each token. ``visual_rows`` (V,) are the tokens that
    a visual token replaces, ``visual_index`` (V,) its place among the visual tokens of all clips, tree after tree.
    ``predict_rows`` (U,) are the tokens whose hidden rows predict an answer token. For each answer token of each leaf:
    ``answer_source`` (M,) its place in ``predict_rows``, ``answer_ids`` (M,) the token, ``answer_leaf`` (M,) the leaf. ``leaf_question``
    and ``leaf_choice`` (num_leaves,) name the leaves; ``tree_sizes`` are tokens per tree.
    """

    ids: Tensor
    positions: Tensor
    leave: Tensor
    visual_rows: Tensor
    visual_index: Tensor
    predict_rows: Tensor
    answer_source: Tensor
    answer_ids: Tensor
    answer_leaf: Tensor
    leaf_question: Tensor
    leaf_choice: Tensor
    tree_sizes: tuple[int, ...]

    @classmethod
    def plant(cls, trees: Sequence[PromptTree], num_visual: Sequence[int]) -> "Forest":
        """Put trees side by side; ``num_visual[t]`` is how many visual tokens the clips of tree t have."""
        assert len(trees) == len(num_visual) > 0, f"{len(trees)} trees, {len(num_visual)} counts of visual tokens"
        starts = np.concatenate(([0], np.cumsum([len(t) for t in trees])))
        visual_starts = np.concatenate(([0], np.cumsum(num_visual)))
        visual_rows, visual_index, rows, ids, leaf_of = [], [], [], [], []
        questions: list[int] = []
        choices: list[int] = []
        for t, tree in enumerate(trees):
            here = np.flatnonzero(tree.visual >= 0)
            assert tree.visual.max(initial=-1) < num_visual[t], (
                "a sequence refers to a visual token that its clips lack"
            )
            visual_rows.append(here + starts[t])
            visual_index.append(tree.visual[here] + visual_starts[t])
            for leaf in tree.leaves:
                rows.append(tree.parent[leaf.tokens] + starts[t])
                ids.append(tree.ids[leaf.tokens])
                leaf_of.append(np.full(len(leaf.tokens), len(questions)))
                questions.append(leaf.question)
                choices.append(leaf.choice)
        predict_rows, answer_source = np.unique(np.concatenate(rows), return_inverse=True)
        return cls(
            ids=_tensor(np.concatenate([t.ids for t in trees])),
            positions=_tensor(np.concatenate([t.positions for t in trees], axis=1)),
            leave=_tensor(np.concatenate([t.leave + starts[i] for i, t in enumerate(trees)])),
            visual_rows=_tensor(np.concatenate(visual_rows)),
            visual_index=_tensor(np.concatenate(visual_index)),
            predict_rows=_tensor(predict_rows),
            answer_source=_tensor(answer_source),
            answer_ids=_tensor(np.concatenate(ids)),
            answer_leaf=_tensor(np.concatenate(leaf_of)),
            leaf_question=_tensor(np.array(questions)),
            leaf_choice=_tensor(np.array(choices)),
            tree_sizes=tuple(len(t) for t in trees),
        )

    @property
    def num_leaves(self) -> int:
        """How many (question, answer) pairs the forest holds."""
        return len(self.leaf_question)

    @property
    def num_answer_tokens(self) -> int:
        """How many answer tokens are predicted, over all leaves (a shared token counts once a leaf)."""
        return len(self.answer_ids)

    def to(self, device: torch.device | str) -> "Forest":
        """Return the forest on another device."""
        moved: dict[str, Any] = {
            field.name: value.to(device)
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return dataclasses.replace(self, **moved)


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))
