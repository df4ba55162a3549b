import json
from pathlib import Path

import av
import numpy as np
import pytest

from actdeny_train.datasets import quarantine
from actdeny_train.datasets.quarantine import Quarantined, Screening, write_quarantine
from actdeny_train.types import Clip, ClipKind
from actdeny_train.video.encode import write_video


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
