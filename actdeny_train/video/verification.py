"""Decoding files to the end in processes that can be killed, since a decoder may hang or crash on a broken file.

``python -m actdeny_train.video.verification`` is such a process: pairs [path, seconds allowed] in JSON on stdin, one JSON object a
line on stdout.
"""

import contextlib
import dataclasses
import hashlib
import json
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from actdeny_train.errors import ConfigError, DataError
from actdeny_train.video.decode import scan_video
from actdeny_train.video.frame_hashes import FrameHashes

_IMPORT_ROOT = Path(__file__).resolve().parents[2]
_LONGEST_TIMEOUT_S = 1e6
"""Eleven days; the timers of the operating system have a limit of their own far beyond."""
_GRACE_S = 1.0
"""Seconds beyond ``timeout_s`` after which a decoding process ends itself, should nobody be left to kill it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFacts:
    """What is known of a file that decodes to its end.

    ``num_frames`` counts decoded frames. ``duration_s`` is seconds from the first frame to one mean frame interval past the
    last, ``longest_interval_s`` the longest time between two successive frames (one frame: 0.0). ``width_px`` and ``height_px``
    hold after the rotation by ``rotation_deg`` degrees counter-clockwise. ``sha256`` is the file's digest in hex; ``frame_hashes``
    tell what it looks like (``video.frame_hashes``).
    """

    num_frames: int
    duration_s: float
    longest_interval_s: float
    width_px: int
    height_px: int
    rotation_deg: int
    sha256: str
    frame_hashes: tuple[str, ...]
    notes: tuple[str, ...]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "VideoFacts":
        """Return the facts that ``dataclasses.asdict`` wrote as JSON. Raises TypeError or KeyError on values of another shape."""
        return cls(**{**values, "notes": tuple(values["notes"]), "frame_hashes": tuple(values["frame_hashes"])})


def verify(path: Path, *, timeout_s: float = 60.0) -> VideoFacts:
    """Decode a file to its end in a process of its own. Raises DataError where that fails or takes over ``timeout_s``."""
    (_, outcome), *_ = verify_all([path], num_workers=1, timeout_s=timeout_s)
    if isinstance(outcome, str):
        raise DataError(outcome)
    return outcome


def verify_all(
    paths: Iterable[Path], *, num_workers: int = 2, timeout_s: float = 60.0
) -> Iterator[tuple[Path, VideoFacts | str]]:
    """Yield every path, in the order given, with its facts or the reason to quarantine it.

    ``num_workers`` files are decoded at a time, each for at most ``timeout_s`` seconds; a process that hangs or dies costs
    its own file only. ``paths`` is read a few paths ahead, so it may be of any length.
    """
    if num_workers < 1 or not 0 < timeout_s <= _LONGEST_TIMEOUT_S:
        raise ConfigError(
            f"verification needs num_workers >= 1 and timeout_s > 0, but got {num_workers} and {timeout_s}. "
            f"timeout_s may be at most {_LONGEST_TIMEOUT_S:,.0f} s."
        )
    return _verify_all(paths, num_workers, timeout_s)


def _verify_all(paths: Iterable[Path], num_workers: int, timeout_s: float) -> Iterator[tuple[Path, VideoFacts | str]]:
    workers = [_Worker(timeout_s) for _ in range(num_workers)]
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def verify_one(path: Path) -> VideoFacts | str:
        worker = idle.get()
        try:
            return worker.verify(path)
        finally:
            idle.put(worker)

    executor = ThreadPoolExecutor(num_workers)
    pending: deque[tuple[Path, Future[VideoFacts | str]]] = deque()
    try:
        for path in paths:
            pending.append((path, executor.submit(verify_one, path)))
            if len(pending) == 2 * num_workers:
                path, future = pending.popleft()
                yield path, future.result()
        for path, future in pending:
            yield path, future.result()
    finally:
        # After an interrupt nobody waits for the files at work: their processes end, and with them the threads that listen.
        executor.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        executor.shutdown()
        for worker in workers:
            worker.stop()


class _Worker:
    """A decoding process, started when first needed and again after it was killed or died."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    def verify(self, path: Path) -> VideoFacts | str:
        process = self._ask(json.dumps([str(path.absolute()), self._timeout_s]) + "\n")
        assert process.stdout is not None
        if not wait([process.stdout], self._timeout_s):  # type: ignore[list-item]
            self.stop()
            return (
                f"video '{path}': decoding took over {self._timeout_s:g} s and was stopped. "
                "Raise timeout_s for a long video, else leave the clip out."
            )
        line = process.stdout.readline()
        if not line.endswith("\n"):
            return f"video '{path}': the process that decoded it ended with status {self.stop()}. Leave the clip out."
        answer = json.loads(line)
        if "reason" in answer:
            return str(answer["reason"])
        return VideoFacts.from_json(answer)

    def _ask(self, line: str) -> "subprocess.Popen[str]":
        """Send a line to the process; start one where there is none, and another one where it ended between two files."""
        for _ in range(3):
            if self._process is not None and self._process.poll() is not None:
                self.stop()
            process = self._process = self._process or _start()
            if self._is_closed:
                process.kill()
            assert process.stdin is not None
            try:
                process.stdin.write(line)
                process.stdin.flush()
            except BrokenPipeError:
                self.stop()
            else:
                return process
        raise RuntimeError("three processes that verify videos ended before their first file; see their messages above")

    def kill(self) -> None:
        """Kill the process, or the one about to start, without waiting: for another thread than the one in ``verify``."""
        self._is_closed = True
        if (process := self._process) is not None:
            process.kill()

    def stop(self) -> int | None:
        """Kill the process if it lives; return its exit status (negative: the signal), None where there was none."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        process.kill()
        # Closing a pipe that nobody reads any more complains about the line still in it.
        with contextlib.suppress(BrokenPipeError), process:
            pass
        return process.wait()


def _start() -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "actdeny_train.video.verification"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="ascii", cwd=_IMPORT_ROOT
    )
    assert process.stdout is not None
    # The time limit is for files, not for the start of Python: it begins after this line.
    if process.stdout.readline() != "ready\n":
        raise RuntimeError(f"{' '.join(command)} did not start (status {process.wait()}); see its message above")
    return process


def _serve() -> None:
    """Answer every path on stdin with one line of JSON on stdout until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    print("ready", flush=True)
    for line in sys.stdin:
        path, timeout_s = json.loads(line)
        # Ends even a decoder that never returns: the signal keeps its default action.
        signal.setitimer(signal.ITIMER_REAL, timeout_s + _GRACE_S)
        try:
            answer = dataclasses.asdict(_facts(Path(path)))
        except DataError as error:
            answer = {"reason": str(error)}
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(answer), flush=True)


def _facts(path: Path) -> VideoFacts:
    hashes = FrameHashes()
    timeline = scan_video(path, look=hashes.add)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return VideoFacts(
        num_frames=len(timeline.time_s),
        duration_s=timeline.duration_s,
        longest_interval_s=float(np.diff(timeline.time_s).max(initial=0.0)),
        width_px=timeline.width_px,
        height_px=timeline.height_px,
        rotation_deg=timeline.rotation_deg,
        sha256=digest,
        frame_hashes=hashes.chosen(),
        notes=timeline.notes,
    )


if __name__ == "__main__":
    _serve()
