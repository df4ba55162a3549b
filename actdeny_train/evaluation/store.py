"""The prediction store: one JSON line a prediction, appended and flushed as it is computed, keyed by question id.

A folder holds ``predictions.jsonl`` and, while processes are at work or after they were killed, one part a process. Nothing is lost
when a process dies, and nothing depends on how many there were.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from actdeny_train.errors import DataError
from actdeny_train.types import Prediction

PREDICTIONS = "predictions.jsonl"
PARTS = "predictions.part-*.jsonl"


@dataclass
class _Reading:
    """How far a file has been read: bytes, and the questions that its lines answer."""

    inode: int
    num_bytes: int = 0
    ids: set[str] = field(default_factory=set)


class PredictionStore:
    """The predictions of a folder, and this process's part of them.

    A last line that a killed process left incomplete is passed over, nothing else. ``fingerprints`` (weights, processor) are those of
    the model at work: predictions of another one are refused. A question that two processes answered counts once.
    """

    def __init__(self, folder: Path, fingerprints: Mapping[str, str]) -> None:
        self.folder = folder
        self.fingerprints = dict(fingerprints)
        self._known: dict[str, Prediction] = {}
        self._read: dict[Path, _Reading] = {}
        self._part: BinaryIO | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.refresh()

    def refresh(self) -> None:
        """Read what other processes have written. Raises DataError for lines that are no predictions of this model."""
        for path in _files(self.folder):
            for number, prediction in self._new_lines(path):
                self._check(path, number, prediction)
                self._known.setdefault(prediction.question_id, prediction)

    def has(self, question_id: str, fingerprint: str) -> bool:
        """Return whether the question is answered. Raises DataError if it was another question of the same id."""
        known = self._known.get(question_id)
        if known is not None and known.fingerprints.get("question") != fingerprint:
            raise DataError(
                f"{self.folder} holds a prediction for {question_id!r} that was made for another wording or other choices. Evaluate under "
                "another name, or remove the folder to start afresh."
            )
        return known is not None

    def require_only(self, question_ids: set[str]) -> None:
        """Raise DataError if a question is answered that is not among ``question_ids``: it would be in every score."""
        others = [known for known in self._known if known not in question_ids]
        if others:
            raise DataError(
                f"{self.folder} holds {len(others)} predictions for questions that this evaluation does not ask (the first one: "
                f"{others[0]!r}), and they would count in every score. They come from another split, from clips that are quarantined or "
                "gone, or from a source that no longer stands under ask. Evaluate under another name (name=...), or remove these lines."
            )

    def videos(self) -> dict[str, str]:
        """Return the fingerprint of the video that each clip's first prediction rests on; one about several clips has one for each."""
        known: dict[str, str] = {}
        for prediction in self._known.values():
            for clip_id, video in zip(
                prediction.clip_ids, prediction.fingerprints.get("video", "").split(), strict=False
            ):
                known.setdefault(clip_id, video)
        return known

    def append(self, predictions: Iterable[Prediction]) -> None:
        """Write predictions that are not there yet and flush them to the disk. Nothing is written if one of them holds NaN (ValueError)."""
        made = {p.question_id: p for p in predictions if p.question_id not in self._known}
        lines = "".join(_line(p) for p in made.values())
        if self._part is None:
            self._part = _open_part(self.folder)
        path = Path(self._part.name)
        self._part.write(lines.encode())
        self._part.flush()
        os.fsync(self._part.fileno())
        reading = self._read.setdefault(path, _Reading(os.fstat(self._part.fileno()).st_ino))
        reading.num_bytes += len(lines.encode())
        reading.ids.update(made)
        self._known.update(made)

    def close(self) -> None:
        """Close this process's part; its lines stay until ``merge``."""
        if self._part is not None:
            self._part.close()
            self._part = None

    def merge(self, question_ids: Sequence[str]) -> Path:
        """Put all predictions into ``predictions.jsonl``, in the order of ``question_ids``, and remove parts that nobody writes to.

        Returns the file. Called by one process when the others have closed their parts; a kill in the middle leaves everything there.
        """
        self.close()
        order = {question_id: place for place, question_id in enumerate(question_ids)}
        target = self.folder / PREDICTIONS
        work = target.with_suffix(".partial")
        with _locked(self.folder):
            parts = _unused(self.folder)
            self.refresh()
            lines = sorted(self._known.values(), key=lambda p: order.get(p.question_id, len(order)))
            with work.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(_line(p) for p in lines)
                file.flush()
                os.fsync(file.fileno())
            work.replace(target)
            for path, lock in parts:
                path.unlink()
                lock.close()
        return target

    def __len__(self) -> int:
        return len(self._known)

    def _new_lines(self, path: Path) -> Iterator[tuple[int, Prediction]]:
        """Yield (line number, prediction) of the complete lines that have not been read yet."""
        try:
            with path.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                reading = self._read.get(path)
                if reading is None or reading.inode != inode:  # predictions.jsonl is another file after a merge
                    reading = self._read[path] = _Reading(inode)
                file.seek(reading.num_bytes)
                content = file.read()
        except FileNotFoundError:  # merged by another process, meanwhile
            return
        complete = content[: content.rfind(b"\n") + 1]
        for number, prediction in _parse(path, complete.split(b"\n")[:-1], len(reading.ids) + 1):
            if prediction.question_id in reading.ids:
                raise _twice(path, number, prediction.question_id)
            reading.ids.add(prediction.question_id)
            yield number, prediction
        reading.num_bytes += len(complete)

    def _check(self, path: Path, number: int, prediction: Prediction) -> None:
        for name, ours in self.fingerprints.items():
            theirs = prediction.fingerprints.get(name)
            if theirs != ours:
                raise DataError(
                    f"{path} holds predictions made with other {name} (fingerprint {theirs}, now {ours}), and a score must not mix "
                    "two models. Evaluate under another name (name=...), or remove the folder to start afresh."
                )


def read_predictions(path: Path) -> Iterator[Prediction]:
    """Yield the predictions of a file. Raises DataError naming file and line for anything that is not one, and for a repeated one."""
    if not path.is_file():
        parts = len(list(path.parent.glob(PARTS)))
        unfinished = f" There are {parts} parts of an evaluation that did not finish beside it." if parts else ""
        raise DataError(f"There is no file of predictions at {path}.{unfinished} Run tools/evaluate.py first.")
    seen = set()
    with path.open("rb") as lines:
        for number, prediction in _parse(path, lines, 1):
            if prediction.question_id in seen:
                raise _twice(path, number, prediction.question_id)
            seen.add(prediction.question_id)
            yield prediction


def _files(folder: Path) -> list[Path]:
    whole = folder / PREDICTIONS
    return [*([whole] if whole.is_file() else []), *sorted(folder.glob(PARTS))]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time merge."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open_part(folder: Path) -> BinaryIO:
    """Make this process's own part, locked as long as it is open, so that nobody removes it."""
    for number in range(1 << 16):
        path = folder / PARTS.replace("*", f"{socket.gethostname()}-{os.getpid()}-{number}")
        try:
            file = path.open("xb")
        except FileExistsError:  # of a killed process that had the same number
            continue
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
        file.close()  # another process removed it as an empty part, before it was locked
    raise AssertionError(f"{folder} is full of parts")


def _unused(folder: Path) -> list[tuple[Path, BinaryIO]]:
    """Return the parts that no process writes to, locked."""
    found: list[tuple[Path, BinaryIO]] = []
    for path in sorted(folder.glob(PARTS)):
        file = path.open("rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            continue
        found.append((path, file))
    return found


def _line(prediction: Prediction) -> str:
    return json.dumps(prediction.to_json(), ensure_ascii=False, allow_nan=False) + "\n"


def _parse(path: Path, lines: Iterable[bytes], first: int) -> Iterator[tuple[int, Prediction]]:
    """Yield (line number, prediction), counting from ``first``."""
    for number, line in enumerate(lines, start=first):
        try:
            prediction = Prediction.from_json(json.loads(line.decode()))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{path}:{number} is not a prediction ({' '.join(str(error).split())[:120]}). Remove the line to have it computed "
                "again, or restore the file."
            ) from error
        yield number, prediction


def _twice(path: Path, number: int, question_id: str) -> DataError:
    return DataError(
        f"{path}:{number} answers {question_id!r}, which an earlier line answers too, so it would count twice. Remove one of the two lines."
    )
