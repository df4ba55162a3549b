"""Clips of two splits that are one: equal files, or videos that look alike frame by frame (re-encoded, resized, another container)."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from actdeny_train.errors import ConfigError
from actdeny_train.video.frame_hashes import NUM_BITS, NUM_HASHES

MAX_BITS = 3.0
"""Pairs up to this mean distance are all found: one of their frames differs in at most 3 bits, so one of its 4 bands in none."""
NUM_BANDS = 4
MIN_BITS = 4.0
"""Bits set per frame, on average, below which a video is too plain (black, one colour) to be told from others."""
MAX_GROUP = 5_000
"""Largest group of clips with a band in common that is compared pair by pair."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two clips of different splits. ``how``: the same bytes, or a mean distance of ``bits`` (of 64) between their frames' hashes."""

    a: str
    b: str
    how: Literal["same file", "looks alike"]
    bits: float


class NearDuplicates:
    """Collect clips, then find pairs across splits. 100 bytes a clip are kept, and its id."""

    def __init__(self, max_bits: float = MAX_BITS) -> None:
        if not 0 <= max_bits <= MAX_BITS:
            raise ConfigError(
                f"Near duplicates may differ in 0 to {MAX_BITS:g} of {NUM_BITS} bits on average, but {max_bits:g} was asked for: beyond "
                f"{MAX_BITS:g}, some pairs would be missed. Choose a smaller number."
            )
        self.max_bits = max_bits
        self.num_plain = 0
        self.num_groups_left_out = 0
        self._ids: list[str] = []
        self._splits: list[str] = []
        self._files: list[bytes] = []
        self._hashes = array("Q")

    def add(self, id: str, split: str, sha256: str, frame_hashes: tuple[str, ...]) -> None:
        """Take one clip with the facts of its video (``video.verification.VideoFacts``)."""
        assert len(frame_hashes) == NUM_HASHES, f"{id}: {len(frame_hashes)} hashes"
        self._ids.append(id)
        self._splits.append(split)
        self._files.append(bytes.fromhex(sha256)[:16])
        self._hashes.extend(int(one, 16) for one in frame_hashes)

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs, equal files first, each pair once, in the order in which their clips were added.

        Of more than two equal files, each is paired with the first ones of the other splits.
        """
        names = {split: i for i, split in enumerate(dict.fromkeys(self._splits))}
        splits = np.array([names[split] for split in self._splits], dtype=np.int64)
        same = set(self._same_files(splits))
        for a, b in sorted(same):
            yield Pair(self._ids[a], self._ids[b], "same file", 0.0)
        hashes = np.frombuffer(self._hashes, dtype=np.uint64).reshape(-1, NUM_HASHES)
        for (a, b), bits in sorted(self._look_alikes(hashes, splits).items()):
            if (a, b) not in same:
                yield Pair(self._ids[a], self._ids[b], "looks alike", bits)

    def _same_files(self, splits: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        by_file: dict[bytes, list[int]] = {}
        for i, file in enumerate(self._files):
            by_file.setdefault(file, []).append(i)
        for group in by_file.values():
            firsts: dict[int, int] = {}  # of each split: thousands of copies of a file make as many pairs, not millions
            for b in group:
                yield from ((a, b) for split, a in firsts.items() if split != splits[b])
                firsts.setdefault(int(splits[b]), b)

    def _look_alikes(
        self, hashes: npt.NDArray[np.uint64], splits: npt.NDArray[np.int64]
    ) -> dict[tuple[int, int], float]:
        telling = np.flatnonzero(np.bitwise_count(hashes).mean(axis=1) >= MIN_BITS)
        self.num_plain = len(hashes) - len(telling)
        self.num_groups_left_out = 0
        found: dict[tuple[int, int], float] = {}
        width = NUM_BITS // NUM_BANDS
        for frame in range(NUM_HASHES):
            for band in range(NUM_BANDS):
                keys = (hashes[telling, frame] >> np.uint64(band * width)) & np.uint64(2**width - 1)
                order = np.argsort(keys, kind="stable")
                ends = np.flatnonzero(np.diff(keys[order])) + 1
                for group in np.split(telling[order], ends):
                    if len(group) > 1 and (splits[group] != splits[group[0]]).any():
                        self._compare(group, hashes, splits, found)
        return found

    def _compare(
        self,
        group: npt.NDArray[np.int64],
        hashes: npt.NDArray[np.uint64],
        splits: npt.NDArray[np.int64],
        found: dict[tuple[int, int], float],
    ) -> None:
        if len(group) > MAX_GROUP:
            self.num_groups_left_out += 1
            return
        for n, b in enumerate(group[1:].tolist(), start=1):
            others = group[:n][splits[group[:n]] != splits[b]]
            bits = np.bitwise_count(hashes[others] ^ hashes[b]).mean(axis=1)
            for a, distance in zip(
                others[bits <= self.max_bits].tolist(), bits[bits <= self.max_bits].tolist(), strict=True
            ):
                found[min(a, b), max(a, b)] = float(distance)
