"""Draws that depend on their key alone: the same on every machine, Python, NumPy, worker count and subset of clips.

``random`` and NumPy do not promise the same shuffles across releases; SHA-256 does. Nothing here has hidden state beyond
the counter of one ``Draw``.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of draws keyed by ``parts`` (for a question: seed, clip id, setup, index).

    Parts are joined by a separator that is escaped inside them, so ``("a", "b")`` and ``("ab",)`` give different streams.
    """

    def __init__(self, *parts: object) -> None:
        key = "\x1f".join(str(part).replace("\\", "\\\\").replace("\x1f", "\\u") for part in parts)
        self._key = hashlib.sha256(key.encode()).digest()
        self._count = 0

    def _word(self) -> int:
        block = hashlib.sha256(self._key + self._count.to_bytes(8, "big")).digest()
        self._count += 1
        return int.from_bytes(block[:8], "big")

    def integer(self, n: int) -> int:
        """Return a uniform integer in [0, n). Words above the last multiple of n are redrawn, so there is no modulo bias."""
        if n <= 0:
            raise ValueError(f"integer(n) needs n >= 1, but got {n}")
        limit = (1 << 64) - (1 << 64) % n
        while (word := self._word()) >= limit:
            pass
        return word % n

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return a float in [low, high) with 53 random bits."""
        return low + (high - low) * (self._word() >> 11) / (1 << 53)

    def choice(self, items: Sequence[T]) -> T:
        """Return one item, each equally likely."""
        return items[self.integer(len(items))]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """Return k distinct positions' items in random order (partial Fisher-Yates)."""
        if not 0 <= k <= len(items):
            raise ValueError(f"sample needs 0 <= k <= {len(items)} items, but got k = {k}")
        pool = list(items)
        for i in range(k):
            j = i + self.integer(len(pool) - i)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:k]

    def shuffle(self, items: Sequence[T]) -> list[T]:
        """Return all items in random order; the argument is left as it is."""
        return self.sample(items, len(items))
