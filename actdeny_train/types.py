"""The frozen dataclasses that travel between the layers: Clip, ClipGroup, Frames, Question, Prediction."""

import collections
import dataclasses
import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

NODES = ("P", "O", "L", "S", "I", "M", "A")
"""Nodes of the CausalAct graph: persons, objects, location, spatial relation, interaction, motion, action (paper 1, 4.1)."""


class ClipKind(enum.StrEnum):
    """What a clip shows of its action (paper 1, section 3.1)."""

    PRESENCE = "presence"
    CONTEXT_ONLY = "context_only"
    DIFFERENT_MOTION = "different_motion"
    DENIAL = "denial"

    @property
    def is_denial(self) -> bool:
        """True where the action does not happen; ``DENIAL`` is a denial clip whose type is not known."""
        return self is not ClipKind.PRESENCE


class ParseStatus(enum.StrEnum):
    """How a response became a prediction. Only ``OK`` carries a choice."""

    OK = "ok"
    UNPARSED = "unparsed"
    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """What a camera sees in a clip, one short English phrase per graph node except the action.

    The phrases never tell the action (no class name, no description, no form of its verb).
    """

    persons: str
    objects: str
    location: str
    spatial: str
    interaction: str
    motion: str

    def of(self, node: str) -> str:
        """Return the phrase of a node letter, ``"P"`` to ``"M"``. The action ``"A"`` has none: KeyError."""
        return str(getattr(self, _COMPONENT_FIELDS[node]))


_COMPONENT_FIELDS = dict(
    zip("POLSIM", ("persons", "objects", "location", "spatial", "interaction", "motion"), strict=True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """A time span of one video file, about one action.

    ``id`` is unique within a dataset. ``path`` is relative to the dataset's root. ``source`` names the long video that the
    clip was cut from: the unit of leakage and the cluster of the statistics. ``start_s``/``end_s`` are seconds from the
    first frame; None means from the beginning / to the end.
    """

    id: str
    path: str
    action: str
    kind: ClipKind
    split: str
    source: str
    start_s: float | None = None
    end_s: float | None = None
    components: Components | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipGroup:
    """What one question is about: one clip in most datasets, or several that are shown together.

    ``id`` is unique within a dataset, and the clip's own where there is one clip. ``source`` is the cluster of the statistics.
    """

    id: str
    clips: tuple[Clip, ...]
    action: str
    source: str

    def __post_init__(self) -> None:
        assert self.clips, f"group {self.id!r} has no clip"

    @staticmethod
    def of(clip: Clip) -> "ClipGroup":
        """Return a group of one clip."""
        return ClipGroup(id=clip.id, clips=(clip,), action=clip.action, source=clip.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntruderTuple(ClipGroup):
    """Clips with a caption each, all of one action type but the intruder (paper 2).

    ``intruder`` is a 0-based index into ``clips`` and ``captions``. ``verbs`` has the verb of each caption, empty where unknown.
    """

    captions: tuple[str, ...]
    intruder: int
    verbs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.clips)
        assert len(self.captions) == n >= 2 and len(self.verbs) in (0, n), f"{self.id}: {n} clips, {self.captions}"
        assert 0 <= self.intruder < n, f"{self.id}: intruder {self.intruder} of {n} clips"

    @property
    def verb_pattern(self) -> str:
        """Return how often each verb occurs, most often first: "4", "3_1", "2_2", "2_1_1", "1_1_1_1"; "unknown" without verbs."""
        counts = collections.Counter(self.verbs).values()
        return "_".join(map(str, sorted(counts, reverse=True))) or "unknown"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frames:
    """Frames sampled from one clip, with their times, which never leave them.

    ``pixels`` (T, H, W, 3) uint8 RGB, rotation applied. ``time_s`` (T,) float64 seconds from the clip's first frame, strictly
    increasing. ``indices`` (T,) int64 arrival order within the clip, 0-based. ``num_decoded`` counts the frames that the clip
    has. ``sampling`` is the rule as text; ``notes`` tell what was done to the file's data (rotation, a damaged tail).
    """

    pixels: npt.NDArray[np.uint8]
    time_s: npt.NDArray[np.float64]
    indices: npt.NDArray[np.int64]
    num_decoded: int
    sampling: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        t = len(self.indices)
        assert t >= 1 and self.pixels.dtype == np.uint8, "frames need at least one uint8 image"
        assert self.pixels.ndim == 4 and self.pixels.shape[0] == t and self.pixels.shape[3] == 3, self.pixels.shape
        assert self.time_s.shape == (t,) and bool(np.all(np.diff(self.time_s) > 0)), self.time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about one clip (or several), its choices and its right answer.

    ``text`` is everything the user turn says after the video. ``choices`` are the meanings, ``answers`` the strings a model may
    type for them, in the same order ("1".."11", "yes"/"no", or the choices themselves for open questions). ``target``,
    ``primary_distractor`` and ``none_choice`` are 0-based indices into both. ``permutation[i]`` is the place that choice i
    has in the order before shuffling (target action or primary distractor first, none choice last); empty where nothing
    was shuffled. ``kind`` is the clip's kind for denial setups (``denial`` where a presence clip is asked without its action) and the
    question's kind for graph questions; ``group`` the clip's source, or the kind's group for graph questions. ``clip_places`` are
    the places in ``text``, in characters and ascending, at which the clips are shown, one a clip; empty where all clips come before it.
    ``rotation_of`` is the same for questions that offer the same choices, each time one place further; empty for all others.
    """

    id: str
    clip_ids: tuple[str, ...]
    setup: str
    prompt: str
    text: str
    choices: tuple[str, ...]
    answers: tuple[str, ...]
    target: int
    kind: str
    group: str
    primary_distractor: int | None = None
    none_choice: int | None = None
    permutation: tuple[int, ...] = ()
    rotation_of: str = ""
    clip_places: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.choices)
        places = [0, *self.clip_places, len(self.text)]
        assert len(self.clip_places) in (0, len(self.clip_ids)) and places == sorted(places), (
            f"{self.id}: {len(self.clip_ids)} clips at {self.clip_places} of {len(self.text)} characters"
        )
        assert n >= 2 and len(self.answers) == n, f"{self.id}: {n} choices, {len(self.answers)} answers"
        assert len(set(self.answers)) == n and all(self.answers), (
            f"{self.id}: answers repeat or are empty: {self.answers}"
        )
        for index in (self.target, self.primary_distractor, self.none_choice):
            assert index is None or 0 <= index < n, f"{self.id}: index {index} of {n} choices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a model said to one question: one line of ``predictions.jsonl``. Metrics are functions of these and nothing else.

    ``choice`` is a 0-based index, None unless ``status`` is ok. ``logprobs`` has the log-probability of each complete
    answer (end-of-turn token included), empty where answers were generated; ``text`` is the raw response where generated,
    ``bare`` is True if it is an answer and nothing else. ``rotation_of`` is the question's. ``frames_per_clip`` says how
    many of the frames are of each clip, where there are several clips.
    """

    question_id: str
    clip_ids: tuple[str, ...]
    action: str
    source: str
    setup: str
    prompt: str
    kind: str
    group: str
    target: int
    choice: int | None
    status: ParseStatus
    num_choices: int
    primary_distractor: int | None = None
    none_choice: int | None = None
    permutation: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    text: str | None = None
    bare: bool | None = None
    rotation_of: str = ""
    frame_indices: tuple[int, ...] = ()
    frame_times_s: tuple[float, ...] = ()
    frames_per_clip: tuple[int, ...] = ()
    fingerprints: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """True if the response was parsed and names the target."""
        return self.status is ParseStatus.OK and self.choice == self.target

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; ``frames_per_clip`` stands there only where there are several clips."""
        values = dataclasses.asdict(self)
        return values if self.frames_per_clip else {k: v for k, v in values.items() if k != "frames_per_clip"}

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> "Prediction":
        """Inverse of ``to_json``. Raises TypeError or ValueError on a line of another shape."""
        tuples = ("clip_ids", "permutation", "logprobs", "frame_indices", "frame_times_s", "frames_per_clip")
        values: dict[str, Any] = {key: tuple(value) if key in tuples else value for key, value in line.items()}
        return cls(**{**values, "status": ParseStatus(line.get("status", ""))})
