"""Tree attention masks from one integer a token: token i sees token j exactly if ``j <= i < leave[j]``."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


def dense_mask(leave: Tensor) -> Tensor:
    """Return the (N, N) boolean mask of a forest, True where row i may look at column j. ``leave`` is (N,)."""
    index = torch.arange(len(leave), device=leave.device)
    return (index[None, :] <= index[:, None]) & (index[:, None] < leave[None, :])


def flex_mask(leave: Tensor) -> "BlockMask":
    """Return the same mask as a FlexAttention block mask, which never builds an N x N tensor of its own on CUDA."""
    from torch.nn.attention.flex_attention import create_block_mask

    def sees(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i < leave[j])

    n = len(leave)
    return create_block_mask(sees, B=None, H=None, Q_LEN=n, KV_LEN=n, device=str(leave.device))
