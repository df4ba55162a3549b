"""The reader: a dataset's clips as frames, in any process, with the clip named where its video has changed."""

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actdeny_train.datasets.manifest import Manifest
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.datasets.reader import ClipReader
from actdeny_train.errors import DataError
from actdeny_train.types import Clip, Frames
from actdeny_train.video import cache
from actdeny_train.video.decode import read_frames
from actdeny_train.video.sampling import Middle

THREADS = Path("/proc/self/task")


@pytest.fixture
def data(small_clips: Path) -> Manifest:
    return Manifest(str(small_clips), str(small_clips / "manifest.jsonl"))


@pytest.fixture
def clip(data: Manifest) -> Clip:
    return data.clips("train")[0]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of every call that decodes."""
    calls: list[dict[str, Any]] = []

    def listen(path: Path, sampling: Any, **arguments: Any) -> Frames:
        calls.append({"path": path, "sampling": sampling, **arguments})
        return read_frames(path, sampling, **arguments)

    monkeypatch.setattr(cache, "read_frames", listen)
    return calls


def assert_same(a: Frames, b: Frames) -> None:
    for field in dataclasses.fields(Frames):
        ours, theirs = getattr(a, field.name), getattr(b, field.name)
        assert np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else ours == theirs


def test_frames_of_a_clip_and_of_a_span(data: Manifest, clip: Clip, small_clips: Path) -> None:
    read = ClipReader(data, Middle(num_frames=3))
    assert_same(read(clip), read_frames(small_clips / clip.path, Middle(num_frames=3)))
    span = dataclasses.replace(clip, start_s=0.25, end_s=0.75)
    frames = read(span)
    assert_same(frames, read_frames(small_clips / clip.path, Middle(num_frames=3), start_s=0.25, end_s=0.75))
    assert frames.num_decoded == 4, "8 frames a second"


def test_damage_is_treated_as_in_screening(small_clips: Path, clip: Clip, decoded: list[dict[str, Any]]) -> None:
    screening = Screening(on_damage="prefix")
    data = Manifest(str(small_clips), str(small_clips / "manifest.jsonl"), screening=screening)
    ClipReader(data, Middle(num_frames=2))(clip)
    assert [call["on_damage"] for call in decoded] == ["prefix"]


def test_frames_are_kept_in_memory_only_if_asked(data: Manifest, clip: Clip, decoded: list[dict[str, Any]]) -> None:
    for cache_gib, num_decoded in ((0.0, 3), (0.1, 1)):
        decoded.clear()
        read = ClipReader(data, Middle(num_frames=2), cache_gib)
        first, second, third = (read(clip) for _ in range(3))
        assert len(decoded) == num_decoded
        assert_same(first, third)
        second.pixels[:] = 0
        assert_same(first, read(clip))


def test_a_reader_pickles_into_workers(data: Manifest, clip: Clip) -> None:
    read = ClipReader(data, Middle(num_frames=4), cache_gib=0.1)
    frames = read(clip)
    copy = pickle.loads(pickle.dumps(read))
    assert len(pickle.dumps(read)) < 2000, "no frames and no dataset travel along"
    assert_same(copy(clip), frames)


def test_a_video_that_has_changed_is_named_by_its_clip(data: Manifest, clip: Clip, tmp_path: Path) -> None:
    data.root = tmp_path
    read = ClipReader(data, Middle(num_frames=4))
    with pytest.raises(DataError) as caught:
        read(clip)
    assert str(caught.value) == (
        f"Clip {clip.id!r} decoded when it was verified, but not now. video '{tmp_path / clip.path}' does not exist. Check the path "
        "and the dataset's root."
    )
    (tmp_path / clip.path).parent.mkdir(parents=True)
    (tmp_path / clip.path).write_bytes(b"other bytes")
    with pytest.raises(
        DataError, match=rf"^Clip '{clip.id}' decoded when it was verified, but not now\. video .* cannot be opened"
    ):
        read(clip)


@pytest.mark.skipif(not THREADS.is_dir(), reason="counts threads under /proc, which only Linux has")
def test_reading_leaves_no_threads_behind(data: Manifest, clip: Clip) -> None:
    read = ClipReader(data, Middle(num_frames=8))
    before = len(list(THREADS.iterdir()))
    frames = [read(clip) for _ in range(3)]
    assert len(list(THREADS.iterdir())) == before, "a data worker forked now would wait for them for ever"
    assert frames
