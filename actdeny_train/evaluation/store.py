"""The prediction store: one JSON line a prediction, appended and flushed as it is computed, keyed by question id."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from actdeny_train.errors import DataError
from actdeny_train.types import Prediction


class PredictionStore:
    """Append-only lines of one file. Opening it drops a last line that a killed process left incomplete, nothing else.

    ``fingerprints`` (weights, processor) are those of the model at work: a file with predictions of another one is refused.
    """

    def __init__(self, path: Path, fingerprints: Mapping[str, str]) -> None:
        self.path = path
        self.fingerprints = dict(fingerprints)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._drop_incomplete_line()
        self._known: dict[str, dict[str, str]] = {}
        for prediction in read_predictions(path) if path.exists() else ():
            self._check(prediction)
            self._known[prediction.question_id] = prediction.fingerprints

    def has(self, question_id: str, fingerprint: str) -> bool:
        """Return whether the question is answered. Raises DataError if it was another question of the same id."""
        known = self._known.get(question_id)
        if known is not None and known.get("question") != fingerprint:
            raise DataError(
                f"{self.path} holds a prediction for {question_id!r} that was made for another wording or other choices. Evaluate under "
                "another name, or remove the file to start afresh."
            )
        return known is not None

    def append(self, predictions: Iterable[Prediction]) -> None:
        """Write predictions that are not there yet and flush them to the disk."""
        new = [p for p in predictions if p.question_id not in self._known]
        with self.path.open("a", encoding="utf-8") as file:
            for prediction in new:
                file.write(json.dumps(prediction.to_json(), ensure_ascii=False, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._known.update({p.question_id: p.fingerprints for p in new})

    def __len__(self) -> int:
        return len(self._known)

    def _check(self, prediction: Prediction) -> None:
        for name, ours in self.fingerprints.items():
            theirs = prediction.fingerprints.get(name)
            if theirs != ours:
                raise DataError(
                    f"{self.path} holds predictions made with other {name} (fingerprint {theirs}, now {ours}), and a file must not mix "
                    "two models. Evaluate under another name (name=...), or remove the file to start afresh."
                )

    def _drop_incomplete_line(self) -> None:
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            with self.path.open("r+b") as file:
                file.truncate(complete)


def read_predictions(path: Path) -> Iterator[Prediction]:
    """Yield the predictions of a file. Raises DataError naming file and line for anything that is not one."""
    if not path.is_file():
        raise DataError(f"There is no file of predictions at {path}. Run tools/evaluate.py first.")
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield Prediction.from_json(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise DataError(
                    f"{path}:{number} is not a prediction ({' '.join(str(error).split())[:120]}). Remove the line to have it computed "
                    "again, or restore the file."
                ) from error
