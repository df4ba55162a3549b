"""Decoded frames kept in memory, the least recently used given up first."""

import dataclasses
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from actdeny_train.errors import ConfigError
from actdeny_train.types import Frames
from actdeny_train.video.decode import OnDamage, read_frames
from actdeny_train.video.sampling import Sampling


def file_state(path: Path) -> tuple[int, int, int] | None:
    """Return size in bytes, time of modification and of status change (ns): what a change of content changes. None without a file.

    The time of status change tells also a file that was replaced by one of the same size and time of modification.
    """
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


class FrameCache:
    """Wrap ``read_frames`` in a memory of at most ``max_gib`` GiB of pixels; 0 keeps nothing.

    A file that changes (its size, its time of modification or of status change) is read again. Threads may share a cache.
    Pickling carries the limit but no frames, so every worker process of a DataLoader fills its own cache: the limit holds
    per process.
    """

    def __init__(self, max_gib: float) -> None:
        if not 0 <= max_gib < float("inf"):
            raise ConfigError(f"FrameCache: max_gib is {max_gib}, but must be a finite number of GiB, 0 or more.")
        self.max_gib = max_gib
        self._frames: OrderedDict[tuple[object, ...], Frames] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def read(
        self,
        path: Path,
        sampling: Sampling,
        *,
        start_s: float | None = None,
        end_s: float | None = None,
        on_damage: OnDamage = "error",
    ) -> Frames:
        """Return what ``read_frames`` returns, in arrays that the caller may change. Errors are its own and are not kept."""
        state = file_state(path)
        if self.max_gib == 0 or state is None:
            return read_frames(path, sampling, start_s=start_s, end_s=end_s, on_damage=on_damage)
        key = (path.resolve(), *state, str(sampling), start_s, end_s, on_damage)
        with self._lock:
            kept = self._frames.get(key)
            if kept is not None:
                self._frames.move_to_end(key)
        if kept is None:
            # Outside the lock, so that threads decode side by side; two that want the same frames both decode them.
            kept = read_frames(path, sampling, start_s=start_s, end_s=end_s, on_damage=on_damage)
            if kept.pixels.nbytes > self.max_gib * 2**30:
                return kept
            self._keep(key, kept)
        return dataclasses.replace(
            kept, pixels=kept.pixels.copy(), time_s=kept.time_s.copy(), indices=kept.indices.copy()
        )

    def _keep(self, key: tuple[object, ...], frames: Frames) -> None:
        with self._lock:
            if key in self._frames:
                return
            self._frames[key] = frames
            self._num_bytes += frames.pixels.nbytes
            while self._num_bytes > self.max_gib * 2**30:
                _, oldest = self._frames.popitem(last=False)
                self._num_bytes -= oldest.pixels.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return FrameCache, (self.max_gib,)
