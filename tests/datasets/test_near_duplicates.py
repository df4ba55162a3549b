"""Clips of two splits that are one: found against brute force, and on real encodings of one and the same video."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.datasets import near_duplicates
from actdeny_train.datasets.near_duplicates import MIN_BITS, NearDuplicates, Pair
from actdeny_train.errors import ConfigError
from actdeny_train.video.encode import write_video
from actdeny_train.video.verification import VideoFacts, verify


def hashes_of(values: list[int]) -> tuple[str, ...]:
    return tuple(f"{value:016x}" for value in values)


@given(seed=st.integers(0, 2**32), num=st.integers(2, 14), max_bits=st.sampled_from([0.0, 1.0, 3.0]))
def test_brute_force_finds_the_same_pairs(seed: int, num: int, max_bits: float) -> None:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 2**63, 8).tolist()
    clips = []
    for i in range(num):
        flips = rng.integers(0, 6, 8)  # up to 5 bits a frame
        values = [
            int(v) ^ sum(1 << int(b) for b in rng.choice(64, k, replace=False))
            for v, k in zip(base, flips, strict=True)
        ]
        clips.append((f"c{i}", "ab"[rng.integers(2)], values))
    found = NearDuplicates(max_bits)
    for i, (id, split, values) in enumerate(clips):
        found.add(id, split, f"{i:064x}"[::-1], hashes_of(values))
    expected = {}
    for (a, split_a, x), (b, split_b, y) in itertools.combinations(clips, 2):
        bits = np.mean([(p ^ q).bit_count() for p, q in zip(x, y, strict=True)])
        if split_a != split_b and bits <= max_bits:
            expected[a, b] = bits
    assert {(pair.a, pair.b): pair.bits for pair in found.pairs()} == expected


def test_equal_files_are_told_once_and_only_across_splits() -> None:
    found = NearDuplicates()
    for id, split in (("a", "train"), ("b", "test"), ("c", "train")):
        found.add(id, split, "ab" * 32, hashes_of([2**63 - 1] * 8))
    assert list(found.pairs()) == [Pair("a", "b", "same file", 0.0), Pair("b", "c", "same file", 0.0)]


def test_plain_videos_and_crowds_are_counted_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    found = NearDuplicates()
    for i, split in enumerate(("train", "test", "test")):
        found.add(f"black{i}", split, f"{i:064x}"[::-1], hashes_of([2 ** int(MIN_BITS - 1) - 1] * 8))
    assert list(found.pairs()) == [] and found.num_plain == 3
    monkeypatch.setattr(near_duplicates, "MAX_GROUP", 2)
    for i, split in enumerate(("train", "test", "test")):
        found.add(f"crowd{i}", split, f"{9 + i:064x}"[::-1], hashes_of([2**40 - 1] * 8))
    assert list(found.pairs()) == [] and (found.num_plain, found.num_groups_left_out) == (3, 32)


def test_a_distance_that_could_miss_pairs_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="may differ in 0 to 3 of 64 bits on average, but 4 was asked for: beyond 3, some pairs would"
    ):
        NearDuplicates(4)


def facts_of(pixels: np.ndarray, path: Path) -> VideoFacts:
    write_video(path, pixels, 10)
    return verify(path)


def test_another_size_container_and_brightness_look_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scenes = rng.integers(20, 200, (2, 12, 6, 8, 3), dtype=np.uint8)  # two videos of 12 frames of large blocks
    large = [np.kron(scene, np.ones((1, 16, 16, 1), dtype=np.uint8)) for scene in scenes]
    small = np.kron(scenes[0], np.ones((1, 10, 10, 1), dtype=np.uint8))
    made = {
        "first": facts_of(large[0], tmp_path / "first.mp4"),
        "smaller": facts_of(small, tmp_path / "smaller.mkv"),
        "brighter": facts_of(large[0] + 15, tmp_path / "brighter.mp4"),
        "other": facts_of(large[1], tmp_path / "other.mp4"),
    }
    found = NearDuplicates()
    for name, facts in made.items():
        found.add(name, "train" if name == "first" else "test", facts.sha256, facts.frame_hashes)
    assert [(pair.a, pair.b, pair.how) for pair in found.pairs()] == [
        ("first", "smaller", "looks alike"),
        ("first", "brighter", "looks alike"),
    ]
