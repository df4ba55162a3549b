import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from actdeny_train.video.encode import write_video


def test_same_pixels_give_the_same_bytes(tmp_path: Path, grey_pixels: np.ndarray) -> None:
    for name in ("a.mp4", "b.mp4"):
        write_video(tmp_path / name, grey_pixels, 25)
    other = grey_pixels.copy()
    other[7] += 40
    write_video(tmp_path / "c.mp4", other, 25)
    first = (tmp_path / "a.mp4").read_bytes()
    assert first == (tmp_path / "b.mp4").read_bytes()
    assert first != (tmp_path / "c.mp4").read_bytes()
    assert b"Lavf" not in first


WRITE_MANY = """
import hashlib, pathlib, sys
import numpy as np
from actdeny_train.video.encode import write_video
rows, columns = np.mgrid[0:64, 0:64]
for k in range(40):
    frames = [((rows * (k + 3) + columns * 5 + 9 * t * (k % 7)) % 256) // 40 * 40 for t in range(8)]
    pixels = np.stack(frames)[..., None].repeat(3, axis=-1).astype(np.uint8)
    write_video(pathlib.Path(sys.argv[1]), pixels, 8)
    print(hashlib.sha256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest())
"""


def test_bytes_do_not_depend_on_what_memory_held_before(tmp_path: Path) -> None:
    # glibc fills freed and new memory with this byte; with x264's rate control the files differ between fillings.
    seen = set()
    for filling in ("0", "85", "170"):
        environment = {**os.environ, "MALLOC_PERTURB_": filling}
        command = [sys.executable, "-c", WRITE_MANY, str(tmp_path / "clip.mp4")]
        root = Path(__file__).resolve().parents[2]
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
        assert len(done.stdout.split()) == 40
        seen.add(done.stdout)
    assert len(seen) == 1


def test_written_file_reads_back(tmp_path: Path) -> None:
    rows, columns = np.mgrid[0:48, 0:64]
    image = np.stack([rows * 5, columns * 3, np.full_like(rows, 90)], axis=-1).astype(np.uint8)
    pixels = np.stack([np.roll(image, 2 * k, axis=1) for k in range(9)])
    path = tmp_path / "clip.mp4"
    write_video(path, pixels, Fraction(30000, 1001))
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.format.name) == ("h264", "yuv420p")
        assert stream.average_rate == Fraction(30000, 1001)
        frames = list(container.decode(stream))
    assert [frame.time for frame in frames] == pytest.approx([k * 1001 / 30000 for k in range(9)])
    read = np.stack([frame.to_ndarray(format="rgb24") for frame in frames])
    assert read.shape == pixels.shape
    assert (
        np.mean(np.abs(read.astype(int) - pixels)) < 6
    )  # Wrapped edges lose colour to yuv420p; a wrong frame gives over 20.


def test_refused_pixels_leave_no_file(tmp_path: Path) -> None:
    even = np.zeros((2, 48, 64, 3), np.uint8)
    for pixels, fps, message in [
        (even[:, :47], 25, "even height and width"),
        (even[:, :, :63], 25, "even height and width"),
        (even[:0], 25, "at least one frame"),
        (even[..., :1], 25, "must be"),
        (even.astype(np.float32), 25, "float32"),
        (even, 0, "fps must be above 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            write_video(tmp_path / "clip.mp4", pixels, fps)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_keeps_the_old_file(tmp_path: Path, grey_pixels: np.ndarray) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"old")
    with pytest.raises(OverflowError):
        write_video(path, grey_pixels, Fraction(2**40, 1))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
