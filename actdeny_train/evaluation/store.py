"""The prediction store: one JSON line a prediction, appended and flushed as it is computed, keyed by question id."""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from actdeny_train.errors import DataError
from actdeny_train.types import Prediction


class PredictionStore:
    """Append-only lines of one file. A last line that a killed process left incomplete is dropped, nothing else.

    Any number of processes may write one file: each appends under a lock, and leaves out what another has written meanwhile.
    ``fingerprints`` (weights, processor) are those of the model at work: a file with predictions of another one is refused.
    """

    def __init__(self, path: Path, fingerprints: Mapping[str, str]) -> None:
        self.path = path
        self.fingerprints = dict(fingerprints)
        self._known: dict[str, dict[str, str]] = {}
        self._read_bytes = self._read_lines = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self.refresh()

    def refresh(self) -> None:
        """Read what other processes have written. Raises DataError for lines that are no predictions of this model."""
        with self._locked() as file:
            self._read_new_lines(file)

    def has(self, question_id: str, fingerprint: str) -> bool:
        """Return whether the question is answered. Raises DataError if it was another question of the same id."""
        known = self._known.get(question_id)
        if known is not None and known.get("question") != fingerprint:
            raise DataError(
                f"{self.path} holds a prediction for {question_id!r} that was made for another wording or other choices. Evaluate under "
                "another name, or remove the file to start afresh."
            )
        return known is not None

    def require_only(self, question_ids: set[str]) -> None:
        """Raise DataError if the file answers a question that is not among ``question_ids``: it would be in every score."""
        others = [known for known in self._known if known not in question_ids]
        if others:
            raise DataError(
                f"{self.path} holds {len(others)} predictions for questions that this evaluation does not ask (the first one: "
                f"{others[0]!r}), and they would count in every score. They come from another split, from clips that are quarantined or "
                "gone, or from a source that no longer stands under ask. Evaluate under another name (name=...), or remove these lines."
            )

    def append(self, predictions: Iterable[Prediction]) -> None:
        """Write predictions that are not there yet and flush them to the disk. Nothing is written if one of them holds NaN (ValueError)."""
        made = {p.question_id: p for p in predictions}
        lines = {name: json.dumps(p.to_json(), ensure_ascii=False, allow_nan=False) for name, p in made.items()}
        with self._locked() as file:
            self._read_new_lines(file)
            new = [name for name in made if name not in self._known]
            file.write("".join(lines[name] + "\n" for name in new).encode())
            file.flush()
            os.fsync(file.fileno())
            self._read_bytes = file.tell()
            self._read_lines += len(new)
        self._known.update({name: made[name].fingerprints for name in new})

    def __len__(self) -> int:
        return len(self._known)

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """Open the file, made if it is not there, while no other store writes to it."""
        with self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # given back when the file is closed, or the process killed
            yield file

    def _read_new_lines(self, file: BinaryIO) -> None:
        file.seek(self._read_bytes)
        content = file.read()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):  # whoever wrote this is dead: the lock is ours
            file.truncate(self._read_bytes + complete)
        lines = content[:complete].split(b"\n")[:-1]
        for number, prediction in _parse(self.path, lines, self._read_lines + 1):
            self._check(prediction)
            if prediction.question_id in self._known:
                raise _twice(self.path, number, prediction.question_id)
            self._known[prediction.question_id] = prediction.fingerprints
        self._read_bytes += complete
        self._read_lines += len(lines)
        file.seek(0, os.SEEK_END)

    def _check(self, prediction: Prediction) -> None:
        for name, ours in self.fingerprints.items():
            theirs = prediction.fingerprints.get(name)
            if theirs != ours:
                raise DataError(
                    f"{self.path} holds predictions made with other {name} (fingerprint {theirs}, now {ours}), and a file must not mix "
                    "two models. Evaluate under another name (name=...), or remove the file to start afresh."
                )


def read_predictions(path: Path) -> Iterator[Prediction]:
    """Yield the predictions of a file. Raises DataError naming file and line for anything that is not one, and for a repeated one."""
    if not path.is_file():
        raise DataError(f"There is no file of predictions at {path}. Run tools/evaluate.py first.")
    seen = set()
    with path.open("rb") as lines:
        for number, prediction in _parse(path, lines, 1):
            if prediction.question_id in seen:
                raise _twice(path, number, prediction.question_id)
            seen.add(prediction.question_id)
            yield prediction


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
