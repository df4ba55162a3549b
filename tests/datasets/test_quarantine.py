import dataclasses
import json
import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from actdeny_train.datasets import quarantine
from actdeny_train.datasets.quarantine import Quarantined, Screening, write_quarantine
from actdeny_train.types import Clip, ClipKind
from actdeny_train.video.decode import read_frames
from actdeny_train.video.encode import write_video
from actdeny_train.video.sampling import Middle


def make_clip(id: str, start_s: float | None = None) -> Clip:
    return Clip(
        id=id, path=f"{id}.mp4", action="Archery", kind=ClipKind.PRESENCE, split="train", source="g", start_s=start_s
    )


def make_video(path: Path, num_frames: int = 30) -> Path:
    """Write noise of 96 px at 10 frames/s."""
    noise = np.random.default_rng(0).integers(0, 256, (num_frames, 96, 96, 3), dtype=np.uint8)
    write_video(path, noise, 10)
    return path


def test_intact_videos_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = [(make_clip("a"), make_video(tmp_path / "a.mp4"))]
    usable, broken = Screening(num_workers=1).screen(pair, tmp_path)
    assert (usable, broken) == ([pair[0][0]], [])
    row = json.loads((tmp_path / "verified.jsonl").read_text())
    assert row["num_frames"] == 30 and row["duration_s"] == pytest.approx(3.0)

    def refuse(*args: object, **settings: object) -> None:
        raise AssertionError("a known video was decoded again")

    monkeypatch.setattr(quarantine, "verify_all", refuse)
    assert Screening().screen(pair, tmp_path) == (usable, [])


def test_changed_or_half_remembered_videos_are_verified_again(tmp_path: Path) -> None:
    pair = [(make_clip("a"), make_video(tmp_path / "a.mp4"))]
    Screening(num_workers=1).screen(pair, tmp_path)
    cache = tmp_path / "verified.jsonl"
    (tmp_path / "a.mp4").write_bytes(b"no longer a video")
    assert Screening(num_workers=1).screen(pair, tmp_path)[0] == []
    make_video(tmp_path / "a.mp4", num_frames=12)
    cache.write_text(cache.read_text()[:40] + "\n[1]\n" + '{"key": "x"}\n')
    assert Screening(num_workers=1).screen(pair, tmp_path)[0] == [pair[0][0]]
    assert json.loads(cache.read_text().splitlines()[-1])["num_frames"] == 12


def test_cache_folder_of_ones_own(tmp_path: Path) -> None:
    pair = [(make_clip("a"), make_video(tmp_path / "a.mp4"))]
    Screening(num_workers=1, cache=str(tmp_path / "cache" / "here")).screen(pair, tmp_path)
    assert (tmp_path / "cache" / "here" / "verified.jsonl").is_file()
    assert not (tmp_path / "verified.jsonl").exists()


def test_unwritable_cache_is_told_and_no_obstacle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = [(make_clip("a"), make_video(tmp_path / "a.mp4"))]
    (tmp_path / "file").touch()
    usable, _ = Screening(num_workers=1, cache=str(tmp_path / "file")).screen(pair, tmp_path)
    assert usable == [pair[0][0]]
    assert "cannot be written" in (out := capsys.readouterr().out) and "Set `cache` of the dataset's screening" in out


def test_span_behind_the_end(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.mp4")
    pairs = [(make_clip("inside", start_s=2.9), path), (make_clip("behind", start_s=3.0), path)]
    usable, broken = Screening(num_workers=1).screen(pairs, tmp_path)
    assert usable == [pairs[0][0]]
    assert broken == [
        Quarantined(
            id="behind", path="behind.mp4", reason=f"start_s is 3 s, but the last frame of '{path}' is at 2.900 s"
        )
    ]


def test_file_of_quarantined_clips(tmp_path: Path) -> None:
    entries = [Quarantined(id="a", path="x/ä.mp4", reason="why"), Quarantined(id="b", path="b.mp4", reason="also")]
    path = write_quarantine(tmp_path / "run", entries)
    assert path == tmp_path / "run" / "quarantine.jsonl"
    assert [Quarantined(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()] == entries
    assert write_quarantine(tmp_path / "run", []).read_text() == ""


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A video that promises 30 frames and breaks off in the middle: its index stands before the data."""
    path = tmp_path / "damaged.mp4"
    noise = np.random.default_rng(0).integers(0, 256, (30, 96, 96, 3), dtype=np.uint8)
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=10, options={"threads": "1", "g": "1"})
        stream.width = stream.height = 96
        for image in noise:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def test_damaged_tail(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(make_clip("damaged"), damaged)]
    usable, broken = Screening(num_workers=1).screen(pairs, damaged.parent)
    assert usable == [] and "is damaged" in broken[0].reason
    usable, broken = Screening(num_workers=1, on_damage="prefix").screen(pairs, damaged.parent)
    assert usable == [pairs[0][0]] and broken == []
    assert "damaged.mp4: damaged: only the first " in capsys.readouterr().out


@pytest.mark.shared
def test_damaged_tail_of_a_real_clip(shared: Path, tmp_path: Path) -> None:
    path = next((shared / "videos").rglob("corrupted.mp4"))
    pairs = [(make_clip("real"), path)]
    _, broken = Screening(num_workers=1, cache=str(tmp_path)).screen(pairs, path.parent)
    assert "28 frames were decoded (the header counts 50)" in broken[0].reason
    usable, _ = Screening(num_workers=1, cache=str(tmp_path), on_damage="prefix").screen(pairs, path.parent)
    assert usable == [pairs[0][0]]


@pytest.fixture
def irregular(tmp_path: Path) -> Path:
    """A video with frames at 0, 0.1, 0.2, 2.0 and 2.1 seconds."""
    path = tmp_path / "irregular.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width = stream.height = 96
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for pts_ms in (0, 100, 200, 2000, 2100):
            frame = av.VideoFrame.from_ndarray(np.zeros((96, 96, 3), np.uint8), format="rgb24")
            frame.pts, frame.time_base = pts_ms, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_span_between_two_frames(irregular: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spans = [
        (0.3, 1.9),
        (0.3, 2.0),
        (0.3, 2.05),
        (0.2, 0.3),
        (0.0, 0.01),
        (2.1, None),
        (2.1000005, None),
        (2.11, None),
        (2.0, 99.0),
    ]
    pairs = [(dataclasses.replace(make_clip(f"{a}-{b}"), start_s=a, end_s=b), irregular) for a, b in spans]
    for _ in range(2):  # Decoded, then from verified.jsonl.
        usable, broken = Screening(num_workers=1).screen(pairs, irregular.parent)
        assert [entry.id for entry in broken] == ["0.3-1.9", "0.3-2.0", "2.1000005-None", "2.11-None"]
        assert (
            "the span from 0.3 s to 1.9 s holds no frame. The video has 5 frames from 0 s to 2.100 s"
            in broken[0].reason
        )
        for clip in usable:
            assert len(read_frames(irregular, Middle(), start_s=clip.start_s, end_s=clip.end_s).indices) >= 1
        told = "1 of 9 clips end with their video, before their end_s (2.0-99.0: until 99 s of 2.625 s)"
        assert told in capsys.readouterr().out


def test_span_behind_the_damage(damaged: Path) -> None:
    pairs = [(dataclasses.replace(make_clip("behind"), start_s=2.8), damaged), (make_clip("whole"), damaged)]
    usable, broken = Screening(num_workers=1, on_damage="prefix").screen(pairs, damaged.parent)
    assert [clip.id for clip in usable] == ["whole"]
    assert "start_s is 2.8 s, but the last frame of" in broken[0].reason


def test_remarks_are_told_at_every_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "raw.h264"
    with av.open(str(make_video(tmp_path / "a.mp4"))) as source, av.open(str(path), "w", format="h264") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    for _ in range(2):
        Screening(num_workers=1).screen([(make_clip("raw"), path)], tmp_path)
        assert f"1 of 1 videos decode with remarks ({path}: 30 of 30 frame times are missing" in capsys.readouterr().out


def test_torn_and_foreign_bytes_in_the_memory(tmp_path: Path) -> None:
    pair = [(make_clip("a"), make_video(tmp_path / "a.mp4"))]
    cache = tmp_path / "verified.jsonl"
    cache.write_bytes(b'\xff\xfe{"key": "half')
    assert Screening(num_workers=1).screen(pair, tmp_path) == ([pair[0][0]], [])
    lines = cache.read_bytes().split(b"\n")
    assert lines[0] == b'\xff\xfe{"key": "half' and json.loads(lines[1])["num_frames"] == 30


def test_video_replaced_by_one_of_the_same_size_and_time(tmp_path: Path) -> None:
    pair = [(make_clip("a"), make_video(tmp_path / "a.mp4"))]
    Screening(num_workers=1).screen(pair, tmp_path)
    stat = pair[0][1].stat()
    pair[0][1].write_bytes(bytes(stat.st_size))
    os.utime(pair[0][1], ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert Screening(num_workers=1).screen(pair, tmp_path)[0] == []


def test_name_that_no_file_can_have(tmp_path: Path) -> None:
    clip = dataclasses.replace(make_clip("long"), path="n" * 300)
    _, broken = Screening(num_workers=1).screen([(clip, tmp_path / clip.path)], tmp_path)
    assert "cannot be looked up: File name too long" in broken[0].reason


def test_reason_with_a_name_in_another_encoding(tmp_path: Path) -> None:
    entry = Quarantined(id="a", path="a.mp4", reason="video '/caf\udce9/a.mp4' is empty")
    assert json.loads(write_quarantine(tmp_path, [entry]).read_text(encoding="utf-8"))["reason"] == entry.reason


def test_two_runs_verify_the_same_videos_at_once(tmp_path: Path) -> None:
    pairs = [(make_clip(name), make_video(tmp_path / f"{name}.mp4", num_frames=3)) for name in "abcdef"]
    with ThreadPoolExecutor(2) as runs:
        results = list(runs.map(lambda _: Screening(num_workers=1).screen(pairs, tmp_path), range(2)))
    assert [usable for usable, _ in results] == [[clip for clip, _ in pairs]] * 2
    rows = [json.loads(line) for line in (tmp_path / "verified.jsonl").read_text().splitlines()]
    assert {row["key"].split()[0] for row in rows} == {str(path) for _, path in pairs}
