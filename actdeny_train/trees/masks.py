"""Tree attention masks from one integer a token: token i sees token j exactly if ``j <= i < leave[j]``."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128
"""Rows and columns of a FlexAttention block: PyTorch's own choice, a multiple of every tile size of its kernels."""


def dense_mask(leave: Tensor) -> Tensor:
    """Return the (N, N) boolean mask of a forest, True where row i may look at column j. ``leave`` is (N,)."""
    index = torch.arange(len(leave), device=leave.device)
    return (index[None, :] <= index[:, None]) & (index[:, None] < leave[None, :])


def flex_mask(leave: Tensor) -> "BlockMask":
    """Return the same mask as a FlexAttention block mask, in N / 128 squared work and memory.

    PyTorch's ``create_block_mask`` gives the same blocks from an N x N tensor. Here a block of columns is looked at by a later block
    of rows if the longest of its subtrees reaches into the rows, and wholly so if the shortest reaches to their end.
    """
    from torch.nn.attention.flex_attention import BlockMask

    def sees(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i < leave[j])

    n = len(leave)
    num_blocks = -(-n // BLOCK)
    padded = functional.pad(leave, (0, num_blocks * BLOCK - n)).view(
        num_blocks, BLOCK
    )  # columns past the end reach nowhere
    start = torch.arange(0, num_blocks * BLOCK, BLOCK, device=leave.device)
    is_earlier = start[None, :] < start[:, None]
    is_full = is_earlier & (padded.amin(1)[None, :] >= start[:, None] + BLOCK)
    is_partial = is_earlier & (padded.amax(1)[None, :] > start[:, None]) & ~is_full
    is_partial.fill_diagonal_(True)
    return BlockMask.from_kv_blocks(
        *_ordered(is_partial), *_ordered(is_full), BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(n, n)
    )


def _ordered(is_used: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many blocks each row of blocks uses, (1, 1, B), and their columns first, (1, 1, B, B), both int32."""
    columns = torch.argsort(is_used.to(torch.int8), dim=1, descending=True, stable=True)
    return is_used.sum(1, dtype=torch.int32)[None, None], columns.to(torch.int32).contiguous()[None, None]
