"""What a video looks like in 64 bytes: difference hashes of frames, equal or close for two encodings of the same pictures."""

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import Interpolation

NUM_HASHES = 8
NUM_BITS = 64
MIN_STEP = 3
"""Grey levels (of 256) by which a cell must be brighter than its left neighbour: flat areas give 0 however they are encoded."""
_SIDE = 9


class FrameHashes:
    """Hash frames as they are decoded; 8 bytes of each are kept."""

    def __init__(self) -> None:
        self._cells: list[npt.NDArray[np.uint64]] = []

    def add(self, frame: av.VideoFrame) -> None:
        """Take the next frame of a video, turned as it is to be displayed."""
        small = frame.reformat(_SIDE, _SIDE, "gray", interpolation=Interpolation.AREA, threads=1)
        grey = np.rot90(small.to_ndarray(), frame.rotation // 90)[: _SIDE - 1].astype(np.int16)
        self._cells.append(np.packbits(np.diff(grey, axis=1) >= MIN_STEP).view(np.uint64)[0])

    def chosen(self) -> tuple[str, ...]:
        """Return the hashes, 16 hex digits each, of the frames in the middle of ``NUM_HASHES`` equal parts.

        A video with fewer frames has some of them twice.
        """
        places = ((np.arange(NUM_HASHES) + 0.5) * len(self._cells) / NUM_HASHES).astype(int)
        return tuple(f"{int(self._cells[place]):016x}" for place in places)
