"""Clips that fooled a model: its wrong answers with what it saw, what it was asked, and how sure it was."""

import base64
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from actdeny_train.errors import ActdenyError, DataError
from actdeny_train.report.cells import is_denial
from actdeny_train.report.runs import CLIPS, QUESTIONS, SavedRun
from actdeny_train.types import Clip, ClipKind, ParseStatus, Prediction, Question
from actdeny_train.video.decode import OnDamage, read_frames

NUM_SHOWN = 60
"""Most wrong answers shown of a run."""
NUM_FRAMES = 6
HEIGHT_PX = 120
SMALL_P = 0.05
"""Choices less likely than this are folded away."""


@dataclass(frozen=True, slots=True)
class StoredFrames:
    """The sampling that chooses the frames a prediction names, whatever rule chose them first."""

    indices: tuple[int, ...]

    def choose(self, num_frames: int, time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the stored indices. Raises DataError if the clip has too few frames: it is not the one the model saw."""
        if self.indices[-1] >= num_frames:
            raise DataError(
                f"the model saw frame {self.indices[-1]} of the clip, which now has {num_frames} frames. Restore the video."
            )
        return np.array(self.indices, dtype=np.int64)

    def __str__(self) -> str:
        return f"stored({len(self.indices)} frames)"


@dataclass(frozen=True, slots=True)
class Picture:
    """A small JPEG as data URI, and when it was, in seconds from the clip's first frame."""

    uri: str
    time_s: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice: ``p`` is its probability among the choices, None where they were not scored."""

    label: str
    text: str
    p: float | None
    is_target: bool
    is_chosen: bool

    @property
    def matters(self) -> bool:
        """True for what is shown at once: the right choice, the chosen one, and likely ones."""
        return self.is_target or self.is_chosen or (self.p is not None and self.p >= SMALL_P)


@dataclass(frozen=True, slots=True)
class Fooled:
    """One wrong answer. ``confidence`` is the probability of what was chosen. ``note`` tells why there are no pictures, or what is special
    about them.
    """

    run: str
    prediction: Prediction
    question: Question
    error: str
    confidence: float | None
    choices: tuple[Choice, ...]
    pictures: tuple[Picture, ...]
    num_frames: int
    note: str

    @property
    def asked(self) -> str:
        """Return the last line with a question mark of a yes/no question; empty for others, whose choices tell enough."""
        asking = [line.strip() for line in self.question.text.splitlines() if "?" in line]
        return asking[-1] if asking and self.question.none_choice is None else ""


@dataclass(frozen=True, slots=True)
class Gallery:
    """The wrong answers shown of a run, of ``num_wrong`` in all. ``note`` tells why none are shown."""

    run: str
    shown: tuple[Fooled, ...]
    num_wrong: int
    note: str = ""


def make_gallery(run: SavedRun) -> Gallery:
    """Return up to ``NUM_SHOWN`` wrong answers to denial setups, balanced over classes, kinds of error and setups, the surest of each."""
    wrong = [p for p in run.predictions if not p.is_right and _is_denial(run, p)]
    absent = [name for name in (QUESTIONS, CLIPS) if name in run.missing]
    if absent:
        return Gallery(
            run.label, (), len(wrong), f"The run folder has no {' and no '.join(absent)}: evaluate again to see clips."
        )
    strips: dict[tuple[str, tuple[int, ...]], tuple[tuple[Picture, ...], str]] = {}
    shown = []
    for prediction in choose_wrong(wrong, NUM_SHOWN):
        question = _question(run, prediction)
        key = prediction.clip_ids[0], prediction.frame_indices
        if key not in strips:
            strips[key] = _pictures(run, prediction)
        pictures, note = strips[key]
        shown.append(
            Fooled(
                run=run.label,
                prediction=prediction,
                question=question,
                error=error_kind(prediction),
                confidence=confidence(prediction),
                choices=_choices(question, prediction),
                pictures=pictures,
                num_frames=len(prediction.frame_indices),
                note=note,
            )
        )
    return Gallery(run.label, tuple(shown), len(wrong))


def choose_wrong(wrong: Sequence[Prediction], most: int) -> list[Prediction]:
    """Return at most ``most`` predictions, one after the other: of the class that was chosen least, then of the kind of error, of the
    setup and prompt, and of the clip that were, the one with the highest confidence; of equals the first by id. Their order does not
    matter.
    """
    times: Counter[tuple[str, ...]] = Counter()
    left = sorted(wrong, key=lambda p: (-(confidence(p) or 0.0), p.question_id))
    chosen: list[Prediction] = []
    while left and len(chosen) < most:
        at = min(range(len(left)), key=lambda i: [times[part] for part in _parts(left[i])])  # the first of equals
        chosen.append(left.pop(at))
        times.update(_parts(chosen[-1]))
    return chosen


def _parts(p: Prediction) -> list[tuple[str, ...]]:
    return [("class", p.action), ("error", error_kind(p)), ("cell", p.setup, p.prompt), ("clip", *p.clip_ids)]


def probabilities(p: Prediction) -> tuple[float, ...]:
    """Return the softmax of the log-probabilities over the choices, empty where they were not scored."""
    if not p.logprobs:
        return ()
    top = max(p.logprobs)
    weights = [math.exp(x - top) for x in p.logprobs]
    return tuple(w / sum(weights) for w in weights)


def confidence(p: Prediction) -> float | None:
    """Return the probability of the chosen choice, None without a choice or without scores."""
    found = probabilities(p)
    return found[p.choice] if found and p.choice is not None else None


def error_kind(p: Prediction) -> str:
    """Return in words what is wrong about an answer of a denial setup."""
    if p.status is not ParseStatus.OK:
        return p.status.value
    if p.none_choice is None:
        return "says yes" if p.choice == 0 else "says no"
    if p.choice == p.none_choice:
        return "false denial"
    return "primary distractor" if p.choice == p.primary_distractor and ClipKind(p.kind).is_denial else "another action"


def _is_denial(run: SavedRun, p: Prediction) -> bool:
    cell = run.cell((p.setup, p.prompt))
    return cell is not None and is_denial(cell)


def _question(run: SavedRun, p: Prediction) -> Question:
    question = run.questions.get(p.question_id)
    if question is None or len(question.choices) != p.num_choices:
        raise DataError(
            f"{run.folder / QUESTIONS} has no question {p.question_id!r} with {p.num_choices} choices, which predictions.jsonl answers. "
            "The two files belong to different evaluations: evaluate again under another name."
        )
    return question


def _choices(question: Question, prediction: Prediction) -> tuple[Choice, ...]:
    found = probabilities(prediction)
    return tuple(
        Choice(
            answer,
            text if text != answer else "",
            found[i] if found else None,
            i == question.target,
            i == prediction.choice,
        )
        for i, (answer, text) in enumerate(zip(question.answers, question.choices, strict=True))
    )


def _pictures(run: SavedRun, p: Prediction) -> tuple[tuple[Picture, ...], str]:
    """Return pictures of the frames that the model saw, and a note on them; none, and why."""
    clip = run.clips.get(p.clip_ids[0])
    if clip is None:
        return (), f"clips.jsonl has no clip {p.clip_ids[0]!r}"
    if not p.frame_indices:
        return (), "the model saw no frames"
    root = run.about.get("video_root")
    if root is None:
        return (), "run.json names no folder of videos"
    seen = [p.frame_indices[i] for i in _evenly(len(p.frame_indices), NUM_FRAMES)]
    path = Path(root) / clip.path
    try:
        pictures = _decode(path, clip, seen, run.about)
    except ActdenyError as error:
        return (), str(error).replace(str(path), clip.path)
    return pictures, "The model saw these pictures in random order." if run.about.get(
        "view"
    ) == "shuffled_frames" else ""


def _decode(path: Path, clip: Clip, seen: Sequence[int], about: Mapping[str, Any]) -> tuple[Picture, ...]:
    on_damage: OnDamage = about.get("on_damage", "error")
    sampling = StoredFrames(tuple(seen))
    frames = read_frames(path, sampling, start_s=clip.start_s, end_s=clip.end_s, on_damage=on_damage)
    return tuple(Picture(_data_uri(x), float(t)) for x, t in zip(frames.pixels, frames.time_s, strict=True))


def _evenly(n: int, most: int) -> list[int]:
    """Return at most ``most`` places in [0, n), the middles of equal strides."""
    return list(range(n)) if n <= most else [(2 * i + 1) * n // (2 * most) for i in range(most)]


def _data_uri(pixels: npt.NDArray[np.uint8]) -> str:
    image = Image.fromarray(pixels)
    image = image.resize((max(1, round(image.width * HEIGHT_PX / image.height)), HEIGHT_PX), Image.Resampling.BICUBIC)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=75)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"
