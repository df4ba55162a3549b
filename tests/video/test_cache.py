import os
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from actdeny_train.errors import ConfigError, DataError
from actdeny_train.types import Frames
from actdeny_train.video import cache as cache_module
from actdeny_train.video.cache import FrameCache
from actdeny_train.video.decode import read_frames
from actdeny_train.video.encode import write_video
from actdeny_train.video.sampling import Fps, Middle

FRAME_BYTES = 48 * 64 * 3


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the files decoded so far."""
    names: list[str] = []

    def counting(path: Path, *args: object, **kwargs: object) -> object:
        names.append(path.name)
        return read_frames(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(cache_module, "read_frames", counting)
    yield names


def gib(num_bytes: int) -> float:
    return num_bytes / 2**30


def test_second_read_decodes_nothing_and_is_equal(clip: Path, decoded: list[str]) -> None:
    cache = FrameCache(1.0)
    first, second = cache.read(clip, Middle(3)), cache.read(clip, Middle(3))
    assert decoded == ["clip.mp4"]
    assert np.array_equal(first.pixels, second.pixels)
    assert (first.indices.tolist(), first.time_s.tolist()) == (second.indices.tolist(), second.time_s.tolist())


def test_changing_a_result_does_not_change_the_cache(clip: Path) -> None:
    cache = FrameCache(1.0)
    cache.read(clip, Middle(3)).pixels[:] = 255
    cache.read(clip, Middle(3)).time_s[:] = -1
    frames = cache.read(clip, Middle(3))
    assert np.array_equal(frames.pixels, read_frames(clip, Middle(3)).pixels)
    assert frames.time_s.tolist() == read_frames(clip, Middle(3)).time_s.tolist()


def test_every_part_of_the_request_counts(clip: Path, decoded: list[str]) -> None:
    cache = FrameCache(1.0)
    cache.read(clip, Middle(3))
    cache.read(clip, Middle(4))
    cache.read(clip, Fps(3.0))
    cache.read(clip, Middle(3), start_s=0.2)
    cache.read(clip, Middle(3), end_s=0.2)
    cache.read(clip, Middle(3), on_damage="prefix")
    assert len(decoded) == 6


def test_changed_file_is_read_again(clip: Path, decoded: list[str]) -> None:
    cache = FrameCache(1.0)
    cache.read(clip, Middle(1))
    write_video(clip, np.full((5, 48, 64, 3), 200, np.uint8), 25)
    assert cache.read(clip, Middle(1)).pixels.mean() > 190
    stat = clip.stat()
    os.utime(clip, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000_000))
    cache.read(clip, Middle(1))
    assert len(decoded) == 3


def test_least_recently_used_goes_first(tmp_path: Path, clip: Path, decoded: list[str]) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(clip.read_bytes())
    cache = FrameCache(gib(2 * FRAME_BYTES))
    for name in "abacab":
        cache.read(tmp_path / name, Middle(1))
    # c pushes b out, since a was used after it; the last b is decoded again.
    assert decoded == ["a", "b", "c", "b"]


def test_frames_above_the_limit_are_not_kept(clip: Path, decoded: list[str]) -> None:
    cache = FrameCache(gib(2 * FRAME_BYTES))
    cache.read(clip, Middle(2))
    assert len(cache.read(clip, Middle(3)).indices) == 3
    cache.read(clip, Middle(2))
    cache.read(clip, Middle(3))
    assert len(decoded) == 3


def test_zero_keeps_nothing(clip: Path, decoded: list[str]) -> None:
    cache = FrameCache(0)
    cache.read(clip, Middle(1))
    cache.read(clip, Middle(1))
    assert len(decoded) == 2


def test_pickled_cache_is_empty(clip: Path, decoded: list[str]) -> None:
    cache = FrameCache(0.5)
    cache.read(clip, Middle(10))
    pickled = pickle.dumps(cache)
    assert len(pickled) < 200
    copy = pickle.loads(pickled)
    assert copy.max_gib == 0.5
    copy.read(clip, Middle(10))
    assert len(decoded) == 2


def test_errors_are_those_of_reading_and_are_not_kept(damaged: Path, tmp_path: Path) -> None:
    cache = FrameCache(1.0)
    for _ in range(2):
        with pytest.raises(DataError, match="is damaged"):
            cache.read(damaged, Middle(1))
    with pytest.raises(DataError, match="does not exist"):
        cache.read(tmp_path / "absent.mp4", Middle(1))
    for max_gib in (-1.0, float("nan"), float("inf")):
        with pytest.raises(
            ConfigError, match=r"FrameCache: max_gib is .*, but must be a finite number of GiB, 0 or more"
        ):
            FrameCache(max_gib)


def test_file_replaced_by_one_of_the_same_size_and_time(clip: Path, decoded: list[str]) -> None:
    cache = FrameCache(1.0)
    cache.read(clip, Middle(1))
    stat = clip.stat()
    clip.write_bytes(clip.read_bytes())
    os.utime(clip, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (clip.stat().st_size, clip.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    cache.read(clip, Middle(1))
    assert len(decoded) == 2


def test_threads_share_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(path: Path, sampling: Middle, **_: object) -> Frames:
        level = int(path.name)
        return Frames(
            pixels=np.full((1, 2, 2, 3), level, np.uint8),
            time_s=np.zeros(1),
            indices=np.zeros(1, int),
            num_decoded=1,
            sampling="x",
        )

    monkeypatch.setattr(cache_module, "read_frames", fake)
    for level in range(8):
        (tmp_path / str(level)).touch()
    cache = FrameCache(gib(12))  # One of the eight at a time.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            read = threads.map(lambda k: cache.read(tmp_path / str(k % 8), Middle(1)).pixels.flat[0], range(3000))
            assert list(read) == [k % 8 for k in range(3000)]
    finally:
        sys.setswitchinterval(interval)


def test_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be looked up: File name too long"):
        FrameCache(1.0).read(tmp_path / ("n" * 300), Middle(1))
