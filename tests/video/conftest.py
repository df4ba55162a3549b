"""Small videos whose frames can be told apart: frame k is one grey of level 10 + 8 k."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from actdeny_train.video.encode import write_video


@pytest.fixture(scope="session")
def grey_pixels() -> npt.NDArray[np.uint8]:
    """(20, 48, 64, 3) pixels."""
    levels = (10 + 8 * np.arange(20)).astype(np.uint8)
    return np.broadcast_to(levels[:, None, None, None], (20, 48, 64, 3)).copy()


@pytest.fixture
def clip(tmp_path: Path, grey_pixels: npt.NDArray[np.uint8]) -> Path:
    """20 frames of 64 x 48 pixels at 25 per second, written by ``write_video``."""
    path = tmp_path / "clip.mp4"
    write_video(path, grey_pixels, 25)
    return path


@pytest.fixture
def damaged(clip: Path) -> Path:
    """``clip`` whose 13th packet, in file order, claims to be longer than it is."""
    with av.open(str(clip)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        position, size = packets[12].pos, packets[12].size
    with clip.open("r+b") as file:
        file.seek(position)
        file.write(b"\xff" * size)
    return clip


@pytest.fixture
def write_grey(tmp_path: Path, grey_pixels: npt.NDArray[np.uint8]) -> Callable[..., Path]:
    """A function that writes grey frames through PyAV alone: in any container, with any times or display matrix."""

    def write(
        name: str,
        *,
        container_format: str | None = None,
        pts_ms: list[int] | None = None,
        display_matrix: list[int] | None = None,
        pixels: npt.NDArray[np.uint8] = grey_pixels,
    ) -> Path:
        path = tmp_path / name
        with av.open(str(path), "w", format=container_format) as container:
            stream = container.add_stream("libx264", rate=25)
            stream.height, stream.width = pixels.shape[1:3]
            stream.pix_fmt = "yuv420p"
            if pts_ms is not None:
                stream.codec_context.time_base = Fraction(1, 1000)
            if display_matrix is not None:
                stream.set_display_matrix(display_matrix)
            for k, image in enumerate(pixels if pts_ms is None else pixels[: len(pts_ms)]):
                frame = av.VideoFrame.from_ndarray(image, format="rgb24")
                frame.pts = k
                if pts_ms is not None:
                    frame.pts, frame.time_base = pts_ms[k], Fraction(1, 1000)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return path

    return write
