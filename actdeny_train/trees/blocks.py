"""Tree attention cut into blocks of rows, for devices without a sparse kernel: work and memory stay near what the mask needs.

Shapes: N tokens, B blocks, Q rows a block, K keys a block.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, eq=False)
class AttentionBlocks:
    """Rows of a forest in blocks of Q, each with the keys that any of its rows may see.

    A row's ancestors before its block are ancestors of the block's first row too (their subtrees reach over it), so the keys are
    those ancestors and the block itself. ``query_rows`` (B, Q) and ``key_rows`` (B, K) index tokens, padded with 0; ``bias``
    (B, 1, Q, K) is 0 where a row may look, else -inf. Padded rows look at one key and are cut off again.
    """

    query_rows: Tensor
    key_rows: Tensor
    bias: Tensor
    num_rows: int

    @classmethod
    def cut(cls, leave: Tensor, dtype: torch.dtype) -> "AttentionBlocks":
        """Cut a forest by its tokens' ``leave`` (N,), see ``trees.tree``; attention is in ``dtype``."""
        n, device = len(leave), leave.device
        index = torch.arange(n, device=device)
        depth = _depths(leave)
        # Larger blocks repeat deep ancestors less often; smaller ones look at fewer keys in vain.
        size = max(64, int(depth.max()) // 8)
        starts = torch.arange(0, n, size, device=device)
        ancestors = [torch.nonzero((index[:s] < s) & (leave[:s] > s)).flatten() for s in starts.tolist()]
        num_ancestors = max(len(a) for a in ancestors)
        outside = torch.stack([functional.pad(a, (0, num_ancestors - len(a)), value=-1) for a in ancestors])
        inside = starts[:, None] + torch.arange(size, device=device)
        is_row = inside < n
        keys = torch.cat((outside, torch.where(is_row, inside, -1)), dim=1)
        key_rows = keys.clamp(min=0)
        rows = torch.where(is_row, inside, 0)
        sees = (key_rows[:, None, :] <= rows[:, :, None]) & (rows[:, :, None] < leave[key_rows][:, None, :])
        mask = sees & (keys >= 0)[:, None, :] & is_row[:, :, None]
        mask[..., num_ancestors] |= ~is_row  # no row may look at nothing: softmax would be NaN
        # SDPA would turn booleans into numbers again in every layer.
        bias = torch.zeros(mask.shape, dtype=dtype, device=device).masked_fill_(~mask, -torch.inf)
        return cls(rows, key_rows, bias[:, None], n)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Attend: ``query`` (heads, N, d), ``key`` and ``value`` (key heads, N, d), where heads are a multiple of key heads.

        Returns (heads, N, d).
        """
        repeats = query.shape[0] // key.shape[0]
        keys, values = _rows(key, self.key_rows, repeats), _rows(value, self.key_rows, repeats)
        out = functional.scaled_dot_product_attention(
            _rows(query, self.query_rows), keys, values, attn_mask=self.bias, scale=scale
        )
        return out.transpose(0, 1).flatten(1, 2)[:, : self.num_rows]


def _rows(states: Tensor, rows: Tensor, repeats: int = 1) -> Tensor:
    """Return (blocks, heads * repeats, rows, d) of states (heads, N, d)."""
    taken = states.index_select(1, rows.flatten()).unflatten(1, rows.shape).transpose(0, 1)
    return taken.repeat_interleave(repeats, dim=1) if repeats > 1 else taken


def _depths(leave: Tensor) -> Tensor:
    """Return how many tokens each token sees, itself included: trees entered before it minus trees left."""
    n = len(leave)
    left = torch.zeros(n + 1, dtype=torch.int64, device=leave.device)
    left.index_add_(0, leave, torch.ones_like(leave))
    return torch.arange(1, n + 1, device=leave.device) - left.cumsum(0)[:n]
