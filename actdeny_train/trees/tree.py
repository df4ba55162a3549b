"""The prompt tree: all token sequences that start with the same clip, shared prefixes stored once.

Shapes: L tokens of one sequence, N tokens of a tree, R position rows (3 for M-RoPE, 1 for plain rotary positions).
Tokens lie in depth-first order, so token j is an ancestor of token i (or i itself) exactly if ``j <= i < leave[j]``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TokenSequence:
    """One question with one answer as the model would see it alone.

    ``ids`` (L,); ``positions`` (R, L); ``visual`` (L,) the place of the visual token that stands at each position within the
    visual tokens of the sequence's clips, -1 for text; ``answer_start`` is the first answer token: it and all after it (end of
    turn included) are predicted. ``question`` and ``choice`` say which leaf this is.
    """

    ids: Ints
    positions: Ints
    visual: Ints
    answer_start: int
    question: int
    choice: int

    def __post_init__(self) -> None:
        length = len(self.ids)
        assert self.visual.shape == (length,) and self.positions.shape[1:] == (length,), "arrays of one sequence differ"
        assert 1 <= self.answer_start < length, f"answer starts at {self.answer_start} of {length} tokens"


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """Where one sequence's answer lies in a tree. ``tokens`` (K,) are indices of its answer tokens, in order."""

    question: int
    choice: int
    tokens: Ints


@dataclass(frozen=True, slots=True, eq=False)
class PromptTree:
    """A radix tree over tokens.

    ``ids``, ``visual``, ``parent``, ``leave`` are (N,), ``positions`` (R, N). ``parent`` is the token before in every sequence that
    holds this one, -1 at the root. ``leave`` is one past the last descendant. Leaves keep the order of the sequences.
    """

    ids: Ints
    positions: Ints
    visual: Ints
    parent: Ints
    leave: Ints
    leaves: tuple[Leaf, ...]

    @classmethod
    def merge(cls, sequences: Sequence[TokenSequence]) -> "PromptTree":
        """Merge whole sequences. Two tokens become one only if their ids, positions, visual tokens and all that stands before
        them are equal, so every leaf computes exactly what its sequence would compute alone.
        """
        assert sequences, "a tree needs at least one sequence"
        keys = [np.vstack((s.ids, s.visual, s.positions)) for s in sequences]
        runs: list[npt.NDArray[np.int64]] = []
        spans: list[tuple[int, int, int]] = []  # start, number of tokens, run of the parent (-1: none)
        paths: dict[int, list[int]] = {}  # sequence -> runs from the root
        num_tokens = 0
        todo: list[tuple[list[int], int, list[int]]] = [
            (group, 0, []) for group in reversed(_by_token(keys, range(len(keys)), 0))
        ]
        while todo:
            members, depth, path = todo.pop()
            first = keys[members[0]]
            end = min(_common_length(first, keys[m]) for m in members)
            path = [*path, len(runs)]
            spans.append((num_tokens, end - depth, path[-2] if len(path) > 1 else -1))
            runs.append(first[:, depth:end])
            num_tokens += end - depth
            longer = [m for m in members if keys[m].shape[1] > end]
            for m in set(members) - set(longer):
                paths[m] = path
            todo.extend((group, end, path) for group in reversed(_by_token(keys, longer, end)))
        table = np.concatenate(runs, axis=1)
        parent, leave = _ancestry(spans, num_tokens)
        leaves = []
        for m, sequence in enumerate(sequences):
            rows = np.concatenate([np.arange(spans[r][0], spans[r][0] + spans[r][1]) for r in paths[m]])
            leaves.append(Leaf(sequence.question, sequence.choice, rows[sequence.answer_start :]))
        return cls(table[0], table[2:], table[1], parent, leave, tuple(leaves))

    def __len__(self) -> int:
        return len(self.ids)


def _by_token(keys: Sequence[Ints], members: Sequence[int], depth: int) -> list[list[int]]:
    """Group sequences by everything about their token at ``depth``, in order of first appearance."""
    groups: dict[bytes, list[int]] = {}
    for m in members:
        groups.setdefault(keys[m][:, depth].tobytes(), []).append(m)
    return list(groups.values())


def _common_length(a: Ints, b: Ints) -> int:
    """Return how many leading columns of two key tables are equal."""
    n = min(a.shape[1], b.shape[1])
    differs = (a[:, :n] != b[:, :n]).any(axis=0)
    return int(differs.argmax()) if differs.any() else n


def _ancestry(spans: Sequence[tuple[int, int, int]], num_tokens: int) -> tuple[Ints, Ints]:
    """Return parent and leave of every token of runs that lie in depth-first order."""
    parent = np.arange(-1, num_tokens - 1, dtype=np.int64)
    ends = [start + length for start, length, _ in spans]
    for run in range(len(spans) - 1, -1, -1):
        start, _, above = spans[run]
        if above >= 0:
            ends[above] = max(ends[above], ends[run])
            parent[start] = spans[above][0] + spans[above][1] - 1
        else:
            parent[start] = -1
    leave = np.empty(num_tokens, dtype=np.int64)
    for (start, length, _), end in zip(spans, ends, strict=True):
        leave[start : start + length] = end
    return parent, leave
