"""What a model is shown of a clip: its video, or less, to see how much of a score needs the video at all."""

import dataclasses
from typing import Literal

import numpy as np

from actdeny_train.draw import Draw
from actdeny_train.types import Clip, Frames

View = Literal["video", "text_only", "one_frame", "shuffled_frames"]
"""video: all sampled frames. text_only: the question alone. one_frame: the middle one of the sampled frames. shuffled_frames: all
of them, their pictures in random order at the times of the true order."""


def show(frames: Frames, view: View, clip: Clip, seed: int) -> Frames:
    """Return what ``view`` leaves of a clip's frames. The order of shuffled ones depends on the clip's id and ``seed`` alone."""
    match view:
        case "video":
            return frames
        case "one_frame":
            middle = np.array([len(frames.indices) // 2])
            return dataclasses.replace(
                frames, pixels=frames.pixels[middle], time_s=frames.time_s[middle], indices=frames.indices[middle]
            )
        case "shuffled_frames":
            order = np.array(Draw(seed, clip.id, view).shuffle(range(len(frames.indices))))
            notes = (*frames.notes, f"pictures in the order {', '.join(map(str, frames.indices[order].tolist()))}")
            return dataclasses.replace(frames, pixels=frames.pixels[order], notes=notes)
        case "text_only":
            raise AssertionError("a text-only model is shown no frames")
