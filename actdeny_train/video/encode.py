"""Pixels to an H.264 file, the same bytes for the same pixels."""

import os
import tempfile
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt


def write_video(path: Path, pixels: npt.NDArray[np.uint8], fps: int | Fraction) -> None:
    """Write pixels as an H.264 mp4 file, which appears at ``path`` only when it is complete.

    ``pixels`` is (T, H, W, 3) uint8 RGB with T >= 1 and even H and W (the colour planes of yuv420p have half the size).
    ``fps`` is frames per second, above 0. The encoder runs on one thread and writes no version or date, so the same
    pixels give the same bytes on the same FFmpeg build. Raises ValueError on pixels or a rate of another form.
    """
    if pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.dtype != np.uint8:
        raise ValueError(f"{path}: pixels must be (T, H, W, 3) uint8, but got {pixels.shape} {pixels.dtype}")
    num_frames, height, width, _ = pixels.shape
    if num_frames < 1 or height < 2 or width < 2 or height % 2 or width % 2:
        raise ValueError(f"{path}: H.264 needs at least one frame of even height and width, but got {pixels.shape}")
    if fps <= 0:
        raise ValueError(f"{path}: fps must be above 0, but got {fps}")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    unfinished = Path(name)
    try:
        _encode(unfinished, pixels, Fraction(fps))
        unfinished.chmod(0o644)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _encode(path: Path, pixels: npt.NDArray[np.uint8], fps: Fraction) -> None:
    with av.open(str(path), "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        # A constant quantiser: x264's own rate control (crf) reads memory that it never wrote, so the bytes of about one clip
        # in five depended on what the heap held before.
        stream = container.add_stream("libx264", rate=fps, options={"qp": "18", "preset": "fast", "threads": "1"})
        stream.height, stream.width = pixels.shape[1:3]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.flags |= av.codec.context.Flags.bitexact
        for image in pixels:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")))
        container.mux(stream.encode(None))
