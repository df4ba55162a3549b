"""Token sequences that share beginnings, merged into trees; trees side by side in a forest, the only batch type there is."""

from actdeny_train.trees.blocks import AttentionBlocks
from actdeny_train.trees.forest import Forest
from actdeny_train.trees.masks import dense_mask, flex_mask
from actdeny_train.trees.tree import Leaf, PromptTree, TokenSequence

__all__ = ["AttentionBlocks", "Forest", "Leaf", "PromptTree", "TokenSequence", "dense_mask", "flex_mask"]
