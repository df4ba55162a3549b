"""M-RoPE position ids of Qwen2.5-VL by the official rule, whatever the installed transformers release does.

Transformers 5.24 continues the text after a video at ``start + max(h, w) / 2``; the code the checkpoints were trained with, and
transformers 4.51.3, continue one past the largest position of all three rows. Proof: ``tests/goldens/qwen2_5_vl``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grid:
    """One image's or clip's patches: (t, h, w) in patches, seconds between two temporal patches (0 for an image)."""

    t: int
    h: int
    w: int
    seconds: float = 0.0


def mrope_positions(ids: Ints, pads: Ints, grids: Sequence[Grid], tokens_per_second: float, merge_size: int) -> Ints:
    """Return the (3, L) rows (temporal, height, width) of a sequence.

    ``ids`` (L,) are token ids with every visual token in place, ``pads`` the ids that stand for visual tokens, ``grids`` the
    images and clips in the order in which they stand. Text counts up by one in all rows; a visual token has the position of
    its time step (``int(t * seconds * tokens_per_second)`` in float32, as the official code), row and column, counted from where
    its clip begins.
    """
    rows = np.empty((3, len(ids)), dtype=np.int64)
    is_visual = np.isin(ids, pads)
    at = next_position = 0
    for grid in grids:
        h, w = grid.h // merge_size, grid.w // merge_size
        count = grid.t * h * w
        places = at + np.flatnonzero(is_visual[at:])[:count]
        assert len(places) == count == places[-1] - places[0] + 1, f"no {count} visual tokens for {grid}"
        begin = int(places[0])
        rows[:, at:begin] = np.arange(next_position, next_position + begin - at)
        next_position += begin - at
        # In float64, 1.99999999 s (a difference of frame times) would put every step one position before that of 2 s.
        steps = np.arange(grid.t, dtype=np.float32) * np.float32(grid.seconds) * np.float32(tokens_per_second)
        block = np.stack(np.meshgrid(steps.astype(np.int64), np.arange(h), np.arange(w), indexing="ij")).reshape(
            3, count
        )
        rows[:, begin : begin + count] = block + next_position
        next_position += int(block.max()) + 1
        at = begin + count
    assert not is_visual[at:].any(), "more visual tokens than the grids have"
    rows[:, at:] = np.arange(next_position, next_position + len(ids) - at)
    return rows
