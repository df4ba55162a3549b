"""Tree attention as an attention function of transformers, so that any of its language models runs a forest.

The mask travels in the place of ``attention_mask``. A plain tensor or None there falls through to transformers' own SDPA, so the
same model object also generates as usual.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from actdeny_train.trees import AttentionBlocks, Forest, flex_mask

NAME = "actdeny_trees"
"""Name under which the function is registered with transformers."""

RECOMPILE_LIMIT = 64
"""Kernels that PyTorch may compile for FlexAttention: a few for each precision, with and without gradients. Its own limit of 8 is
near, and past a limit it would build all scores, N x N for every head; here that is an error."""


class TreeMask:
    """Who sees whom in a forest, prepared once for all layers: one FlexAttention block mask on CUDA, blocks of rows elsewhere."""

    def __init__(self, forest: Forest, dtype: torch.dtype) -> None:
        self.flex = flex_mask(forest.leave) if has_flex(forest.leave.device) else None
        self.blocks = AttentionBlocks.cut(forest.leave, dtype) if self.flex is None else None


def has_flex(device: torch.device) -> bool:
    """Tell whether FlexAttention runs forward and backward on a device; on the CPU it has no backward pass."""
    return device.type == "cuda"


def tree_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend within trees. ``query`` (1, heads, N, d), ``key`` and ``value`` (1, key heads, N, d); returns (1, N, heads, d)."""
    if not isinstance(attention_mask, TreeMask):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    assert not kwargs.get("dropout"), "a forest and its sequences alone would drop different weights"
    if attention_mask.blocks is not None:
        out = attention_mask.blocks.attend(query[0], key[0], value[0], scaling)[None]
    else:
        # Under autocast rotary positions leave query and key in float32 beside a bfloat16 value, which the backward pass refuses.
        query, key = query.to(value.dtype), key.to(value.dtype)
        grouped = key.shape[1] != query.shape[1]
        with torch._dynamo.config.patch(recompile_limit=RECOMPILE_LIMIT):
            out = _flex()(query, key, value, block_mask=attention_mask.flex, scale=scaling, enable_gqa=grouped)
    return out.transpose(1, 2).contiguous(), None


@functools.cache
def _flex() -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, fullgraph=True)


AttentionInterface.register(NAME, tree_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
