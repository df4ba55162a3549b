"""``verified.jsonl``: what is known of videos that were decoded to their end, by path, size, times of change and decoder."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import TextIO

import av

from actdeny_train.video.cache import file_state
from actdeny_train.video.verification import VideoFacts

VERIFIED = "verified.jsonl"


def file_key(path: Path) -> str:
    """Return what identifies a file's content and its decoder, without reading the file; empty where there is no file."""
    state = file_state(path)
    return f"{path.absolute()} {state[0]} {state[1]} {state[2]} PyAV {av.__version__}" if state else ""


class Verified:
    """The videos in ``folder/verified.jsonl``. Only their places in the file are kept in memory.

    A line that a killed run left half, or that another version wrote with other fields, is as good as none. ``write`` adds one,
    nowhere where the folder is read-only: the file only saves time.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / VERIFIED
        self._places: dict[bytes, int] = {}
        self._output: TextIO | None = None
        if self.path.is_file():
            with self.path.open("rb") as file:
                place = 0
                for line in file:
                    if (key := _key_of(line)) is not None:
                        self._places[_digest(key)] = place
                    place += len(line)
        self._input = self.path.open("rb") if self._places else None

    def get(self, key: str) -> VideoFacts | None:
        """Return what is known of the file with that key, None if nothing is."""
        place = self._places.get(_digest(key))
        if place is None or self._input is None:
            return None
        self._input.seek(place)
        try:
            row = json.loads(self._input.readline())
            if row.pop("key") != key:
                return None
            facts = VideoFacts.from_json(row)
            return facts if facts.duration_s >= 0 and facts.num_frames > 0 else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, key: str, facts: VideoFacts) -> None:
        """Append a line, in one write: runs that verify the same videos at the same time may append to the same file."""
        if self._output is None:
            self._output = self._open()
        self._output.write(json.dumps({"key": key, **dataclasses.asdict(facts)}) + "\n")
        self._output.flush()

    def close(self) -> None:
        """Close the file."""
        for file in (self._input, self._output):
            if file is not None:
                file.close()

    def _open(self) -> TextIO:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A killed run may have left half a line: the next one must not be glued to it.
            is_torn = self.path.is_file() and _last_byte(self.path) not in (b"", b"\n")
            file = self.path.open("a", encoding="utf-8")
            file.write("\n" if is_torn else "")
            return file
        except OSError as error:
            print(
                f"{self.path} cannot be written ({error.strerror}), so these videos will be verified again at the next start. "
                "Set `cache` of the dataset's screening to a writable folder to avoid that.",
                flush=True,
            )
            return Path(os.devnull).open("a", encoding="utf-8")


def _key_of(line: bytes) -> str | None:
    try:
        key = json.loads(line)["key"]
    except (ValueError, KeyError, TypeError):
        return None
    return key if isinstance(key, str) else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:12]


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if not file.tell():
            return b""
        file.seek(-1, os.SEEK_END)
        return file.read(1)
