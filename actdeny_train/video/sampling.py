"""Which frames of a clip are looked at. Every rule is defined for clips of 1..N frames and never repeats a frame."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from actdeny_train.errors import ConfigError


class Sampling(Protocol):
    """A rule that chooses frames. Its ``str`` names the rule and its numbers; it is stored beside the predictions."""

    def choose(self, num_frames: int, time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return (T,) int64 indices in [0, num_frames), strictly increasing, 1 <= T <= num_frames.

        ``num_frames`` >= 1 counts the clip's frames; ``time_s`` (num_frames,) has their times in seconds, strictly increasing.
        """
        ...


@dataclass(frozen=True)
class Middle:
    """The frame at the middle of each of ``num_frames`` equal strides: the rule of the released evaluation of UCF101-AD.

    Stride i of n over N frames has its middle at (i + 0.5) N / n; the frame under it is the floor of that, in whole numbers.
    A clip of at most n frames gives all of its frames. The released script computes in floats: with n = 12, and among clips of
    up to 3,000 frames, it takes one frame the earlier at 280, 560, 584 and some longer lengths; it counts frames by the
    header's rate and duration, not by decoding.
    """

    num_frames: int = 12
    """Frames per clip, at least 1."""

    def __post_init__(self) -> None:
        if self.num_frames < 1:
            raise ConfigError(f"sampling Middle: num_frames is {self.num_frames}, but must be at least 1.")

    def choose(self, num_frames: int, time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the middle frames; ``time_s`` does not matter."""
        assert len(time_s) == num_frames >= 1, (len(time_s), num_frames)
        return _middles(self.num_frames, num_frames)

    def __str__(self) -> str:
        return f"middle(num_frames={self.num_frames})"


@dataclass(frozen=True)
class Fps:
    """The frames nearest to the times 0, 1/fps, 2/fps, ... up to the clip's last frame (of two equally near, the earlier).

    A frame that is nearest twice is taken once. Where this gives fewer than ``min_frames`` or more than ``max_frames``, the
    clip's frames at the middle of that many equal strides are taken instead (all frames of a shorter clip).
    """

    fps: float
    """Frames per second, above 0."""
    min_frames: int = 1
    """Least number of frames, at least 1; a clip with fewer frames gives all of them."""
    max_frames: int | None = None
    """Largest number of frames, at least ``min_frames``; None means no limit."""

    def __post_init__(self) -> None:
        if not 0 < self.fps < float("inf"):
            raise ConfigError(f"sampling Fps: fps is {self.fps}, but must be a finite number above 0.")
        if self.min_frames < 1:
            raise ConfigError(f"sampling Fps: min_frames is {self.min_frames}, but must be at least 1.")
        if self.max_frames is not None and self.max_frames < self.min_frames:
            raise ConfigError(
                f"sampling Fps: max_frames is {self.max_frames}, but must be at least min_frames ({self.min_frames}) "
                "or null for no limit."
            )

    def choose(self, num_frames: int, time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the frames nearest to the grid, or the middle frames where the grid breaks a limit."""
        assert len(time_s) == num_frames >= 1, (len(time_s), num_frames)
        chosen = self._nearest_to_grid(time_s)
        least, most = min(self.min_frames, num_frames), self.max_frames or num_frames
        if least <= len(chosen) <= most:
            return chosen
        return _middles(least if len(chosen) < least else most, num_frames)

    def _nearest_to_grid(self, time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        elapsed_s = time_s - time_s[0]
        # In units of the grid's step, frame i is nearest to every whole number in (border[i - 1], border[i]].
        borders = (elapsed_s[:-1] + elapsed_s[1:]) / 2 * self.fps
        # A millionth of a step forgives rounding, so that ties go to the earlier frame and a last point is not lost.
        points_passed = np.floor(np.append(borders, elapsed_s[-1] * self.fps) + 1e-6)
        is_chosen = np.diff(points_passed, prepend=-1) > 0
        return np.flatnonzero(is_chosen).astype(np.int64)

    def __str__(self) -> str:
        return f"fps(fps={self.fps}, min_frames={self.min_frames}, max_frames={self.max_frames})"


def _middles(num_strides: int, num_frames: int) -> npt.NDArray[np.int64]:
    if num_frames <= num_strides:
        return np.arange(num_frames, dtype=np.int64)
    return (2 * np.arange(num_strides, dtype=np.int64) + 1) * num_frames // (2 * num_strides)
