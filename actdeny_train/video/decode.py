"""A video file to frames: PyAV, forward, on one thread, in the order in which the decoder gives the frames.

That order is right also where presentation times are not (packed B-frames in AVI, as in UCF101), and the length is what
comes out, not what the header says.
"""

import contextlib
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.sidedata.sidedata import Type as SideDataType
from av.stream import Disposition
from av.video.stream import VideoStream

from actdeny_train.errors import ConfigError, DataError
from actdeny_train.types import Frames
from actdeny_train.video.sampling import Sampling

OnDamage = Literal["error", "prefix"]

MISSING_TAIL_S = 0.5
"""Seconds by which the pictures may end before the header's duration without a note: sound is often a little longer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """What decoding a whole file tells about it, without its pixels.

    ``time_s`` (N,) float64 seconds from the first frame, strictly increasing, N >= 1. ``duration_s`` reaches one mean frame
    interval past the last frame (one frame: one interval of the stream's rate, 0.0 if it has none). ``height_px`` and
    ``width_px`` hold after rotation; ``rotation_deg`` is the counter-clockwise turn that the file asks for.
    ``notes`` tell what is unusual about the file's data.
    """

    time_s: npt.NDArray[np.float64]
    duration_s: float
    height_px: int
    width_px: int
    rotation_deg: int
    notes: tuple[str, ...]


def read_frames(
    path: Path,
    sampling: Sampling,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    on_damage: OnDamage = "error",
) -> Frames:
    """Decode the frames that ``sampling`` chooses from a file, or from its frames with ``start_s`` <= time < ``end_s``.

    ``start_s`` and ``end_s`` are seconds from the file's first frame; None means from the beginning / to the end. Indices and
    times of the result count from the first frame of that span. Where FFmpeg reports damage after some frames
    (an error, or a frame that it marks as corrupt), ``on_damage`` "error" raises and "prefix" keeps those frames and says so in
    ``notes``. The file is decoded twice, first for count and times, so that memory holds only the chosen frames.

    Raises DataError where there is no such file, no video in it, no frame, damage, a change of the picture's size, no way to
    know the times, or no frame in the span; ConfigError on another ``on_damage``.
    """
    timeline = scan_video(path, on_damage=on_damage)
    first, stop = find_span(path, timeline, start_s, end_s)
    time_s = timeline.time_s[first:stop] - timeline.time_s[first]
    indices = sampling.choose(len(time_s), time_s)
    notes = timeline.notes
    if end_s is not None and end_s > timeline.duration_s:
        notes = (*notes, f"the span ends at {end_s:g} s, the video already at {timeline.duration_s:.3f} s")
    return Frames(
        pixels=_read_pixels(path, first + indices, timeline),
        time_s=time_s[indices],
        indices=indices,
        num_decoded=len(time_s),
        sampling=str(sampling),
        notes=notes,
    )


def scan_video(
    path: Path, *, on_damage: OnDamage = "error", look: Callable[[av.VideoFrame], None] | None = None
) -> Timeline:
    """Decode a whole file without keeping a pixel. Errors and ``on_damage`` are those of ``read_frames``; ``look`` sees every frame."""
    if on_damage not in get_args(OnDamage):
        raise ConfigError(f"on_damage is {on_damage!r}, but must be 'error' or 'prefix'.")
    pts: list[int | None] = []
    size = rotation = damage = None
    with _open_video(path) as (container, stream):
        try:
            for frame in container.decode(stream):
                if frame.is_corrupt:
                    # Concealed errors: what is shown was guessed from other pictures.
                    damage = f"frame {len(pts)} is corrupt"
                    break
                if size is None:
                    size, rotation = _upright_size(path, frame), frame.rotation
                elif (other := _upright_size(path, frame)) != size:
                    raise DataError(
                        f"video '{path}' changes its picture from {size[1]} x {size[0]} to {other[1]} x {other[0]} pixels "
                        f"at frame {len(pts)}; one size per file is allowed. Re-encode the file or leave the clip out."
                    )
                pts.append(frame.pts)
                if look is not None:
                    look(frame)
        except av.FFmpegError as error:
            damage = error.strerror
        header, rate, time_base = stream.frames, stream.average_rate, stream.time_base
        promised_s = ((container.duration or 0) - max(container.start_time or 0, 0)) / av.time_base
    if size is None or rotation is None:
        raise DataError(
            f"video '{path}': no frame could be decoded ({damage or 'its video stream is empty'}). "
            "Replace the file or leave the clip out."
        )
    notes = [f"turned by {rotation} degrees counter-clockwise"] if rotation else []
    if damage is not None:
        if on_damage == "error":
            promised = f"the header counts {header}" if header else "the header has no count"
            raise DataError(
                f"video '{path}' is damaged: {len(pts)} frames were decoded ({promised}), then: {damage}. "
                "Replace the file, leave the clip out, or keep the frames before the damage with on_damage: prefix."
            )
        notes.append(f"damaged: only the first {len(pts)} frames could be decoded ({damage})")
    elif header and header != len(pts):
        notes.append(f"the header counts {header} frames, but {len(pts)} were decoded")
    time_s, time_notes = _frame_times(path, pts, time_base, rate)
    interval_s = time_s[-1] / (len(pts) - 1) if len(pts) > 1 else 1 / rate if rate else 0.0
    duration_s = float(time_s[-1] + interval_s)
    # Matroska has no count, and FFmpeg takes the end of a file that was cut short for the end of the video.
    if damage is None and not header and promised_s - duration_s > MISSING_TAIL_S:
        notes.append(f"the header promises {promised_s:.3f} s, but the pictures end at {duration_s:.3f} s")
    return Timeline(
        time_s=time_s,
        duration_s=duration_s,
        height_px=size[0],
        width_px=size[1],
        rotation_deg=rotation,
        notes=(*notes, *time_notes),
    )


@contextmanager
def _open_video(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    try:
        status = path.stat()
    # ValueError: a name with a zero byte or half a surrogate pair, which no file can have.
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise DataError(f"video '{path}' does not exist. Check the path and the dataset's root.") from None
    except OSError as error:
        raise DataError(
            f"video '{path}' cannot be looked up: {error.strerror}. Check the path and the permissions of its folders."
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"video '{path}' is not a regular file, but a folder or a device. Name a video file.")
    if status.st_size == 0:
        raise DataError(f"video '{path}' is empty (0 bytes). Copy or download it again.")
    try:
        # The prefix keeps a name with a colon from naming a protocol, and a playlist posing as a video from the network.
        container = av.open(f"file:{path}", metadata_errors="replace")
    except av.FFmpegError as error:
        raise DataError(
            f"video '{path}' ({status.st_size} bytes) cannot be opened: {error.strerror}. "
            "Copy or download it again, or leave the clip out."
        ) from error
    with container:
        name = container.format.name
        # FFmpeg also shows text files, as a terminal would, and single pictures under whatever name.
        if name == "tty" or name == "image2" or name.endswith("_pipe"):
            raise DataError(
                f"video '{path}' holds {'text' if name == 'tty' else 'a still picture'} (FFmpeg's format '{name}'). Name a file with "
                "moving pictures; if this was downloaded as one, download it again."
            )
        stream = container.streams.best("video")
        if stream is None or stream.disposition & Disposition.attached_pic:
            found = ", ".join(s.type for s in container.streams) or "no stream at all"
            raise DataError(f"video '{path}' has no video stream (found: {found}). Name a file with moving pictures.")
        if stream.codec_context is None:
            raise DataError(
                f"video '{path}': this FFmpeg (in PyAV {av.__version__}) has no decoder for its pictures. Re-encode the file, e.g. as "
                "H.264, or leave the clip out."
            )
        stream.thread_type = "NONE"
        stream.codec_context.thread_count = 1
        yield container, stream


def _read_pixels(path: Path, wanted: npt.NDArray[np.int64], timeline: Timeline) -> npt.NDArray[np.uint8]:
    pixels = np.empty((len(wanted), timeline.height_px, timeline.width_px, 3), dtype=np.uint8)
    row = 0
    with _open_video(path) as (container, stream), contextlib.suppress(av.FFmpegError):
        for index, frame in enumerate(container.decode(stream)):
            if index == wanted[row]:
                pixels[row] = _upright_pixels(frame)
                row += 1
                if row == len(wanted):
                    return pixels
    raise DataError(
        f"video '{path}' changed while it was read: {row} of {len(wanted)} chosen frames could be decoded again. Run again."
    )


def _upright_size(path: Path, frame: av.VideoFrame) -> tuple[int, int]:
    """Return (height, width) after rotation."""
    if frame.rotation % 90:
        raise DataError(
            f"video '{path}' asks for a rotation by {frame.rotation} degrees; only multiples of 90 are allowed. "
            "Re-encode the file or leave the clip out."
        )
    return (frame.width, frame.height) if frame.rotation % 180 else (frame.height, frame.width)


def _upright_pixels(frame: av.VideoFrame) -> npt.NDArray[np.uint8]:
    # With the default, swscale starts threads that a process forked later cannot stop: it would hang as it frees the frame.
    pixels = frame.to_ndarray(format="rgb24", threads=1)
    # A display matrix [a b . / c d . / ...] of negative determinant mirrors. ``rotation`` is read from the image of the x
    # axis, (a, b), so the mirroring left to do is that of the y axis, before the rotation.
    if (side_data := frame.side_data.get(SideDataType.DISPLAYMATRIX)) is not None:
        a, b, _, c, d = np.frombuffer(side_data, dtype=np.int32, count=5).astype(np.float64)
        if a * d - b * c < 0:
            pixels = pixels[::-1]
    return np.rot90(pixels, frame.rotation // 90)


def _frame_times(
    path: Path, pts: list[int | None], time_base: Fraction | None, rate: Fraction | None
) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Return seconds from the first frame and notes. Times come from the file only where they are complete and increase."""
    known = np.array([p for p in pts if p is not None], dtype=np.int64)
    if time_base and len(known) == len(pts) and np.all(np.diff(known) > 0):
        return (known - known[0]) * time_base.numerator / time_base.denominator, []
    missing = len(pts) - len(known)
    backward = int(np.sum(np.diff(known) <= 0))
    fault = f"{missing} of {len(pts)} frame times are missing" if missing else f"frame times go back {backward} times"
    if not rate:
        raise DataError(
            f"video '{path}': {fault}, and the file has no frame rate to replace them. Re-encode it with a constant frame rate."
        )
    times = np.arange(len(pts)) * rate.denominator / rate.numerator
    return times, [f"{fault} in the file; times are arrival index / {float(rate):g} per second"]


def find_span(path: Path, timeline: Timeline, start_s: float | None, end_s: float | None) -> tuple[int, int]:
    """Return the indices [first, stop) of the frames with start_s <= time < end_s. Raises DataError where there is none."""
    first = 0 if start_s is None else int(np.searchsorted(timeline.time_s, start_s, side="left"))
    stop = len(timeline.time_s) if end_s is None else int(np.searchsorted(timeline.time_s, end_s, side="left"))
    if (start_s is not None and start_s < 0) or first >= stop:
        raise DataError(
            f"video '{path}': the span from {start_s} s to {end_s} s holds no frame. The video has {len(timeline.time_s)} frames "
            f"from 0 s to {timeline.time_s[-1]:.3f} s; 0 <= start_s < end_s is allowed. Correct the clip's span."
        )
    return first, stop
