"""Shares of clips as forests, made ahead in data workers: what one process takes at a time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch.utils.data import Dataset

from actdeny_train.datasets.reader import ClipReader
from actdeny_train.evaluation.plan import Questions
from actdeny_train.evaluation.scoring import Mode
from actdeny_train.evaluation.views import View, show
from actdeny_train.models.batch import Asked, AskedTree, Batch, pack
from actdeny_train.models.family import Processor
from actdeny_train.types import Clip, Frames, Question


@dataclass(frozen=True, eq=False)
class AskedClip:
    """A clip with what a model is shown of it (None: nothing), its questions, and the fingerprint of its video."""

    clip: Clip
    questions: tuple[Question, ...]
    frames: Frames | None = None
    video: str | None = None


@dataclass(frozen=True, eq=False)
class Share:
    """Consecutive clips and their forests; ``clips[i]`` are those of forest i. A model without weights has no batches.

    ``decode_s`` and ``prepare_s`` are the seconds that a worker took for reading videos, and for resizing and tokenising.
    """

    clips: tuple[tuple[AskedClip, ...], ...]
    batches: tuple[Batch | None, ...]
    decode_s: float
    prepare_s: float


@dataclass(frozen=True, eq=False)
class Shares(Dataset[Share]):
    """Share i of a split. Clips that nothing is asked about are left out.

    How a share's clips are packed into forests depends on the share alone, never on what else is answered or by whom: the members
    of a forest move the last bits of every score.
    """

    shares: Sequence[Sequence[Clip]]
    read_frames: ClipReader
    processor: Processor | None
    questions: Questions
    mode: Mode
    view: View
    max_tokens: int

    def __len__(self) -> int:
        return len(self.shares)

    def __getitem__(self, i: int) -> Share:
        asked = [AskedClip(clip, tuple(self.questions.about(clip))) for clip in self.shares[i]]
        asked = [one for one in asked if one.questions]
        started = time.perf_counter()
        if self.processor is None:
            return Share((tuple(asked),), (None,), 0.0, 0.0)
        if self.view != "text_only":
            asked = [self._look(one) for one in asked]
        decoded = time.perf_counter()
        trees = [AskedTree.of(self.processor, self._asked(one)) for one in asked]
        groups = list(pack(trees, self.max_tokens))
        ends = [sum(len(g) for g in groups[: n + 1]) for n in range(len(groups))]
        clips = tuple(tuple(asked[end - len(g) : end]) for g, end in zip(groups, ends, strict=True))
        batches = tuple(Batch.plant(group) for group in groups)
        return Share(clips, batches, decoded - started, time.perf_counter() - decoded)

    def _look(self, one: AskedClip) -> AskedClip:
        frames = show(self.read_frames(one.clip), self.view, one.clip, self.questions.seed)
        return AskedClip(one.clip, one.questions, frames, self.read_frames.fingerprint(one.clip))

    def _asked(self, one: AskedClip) -> Asked:
        frames = [] if one.frames is None else [one.frames]
        # A generated response needs a prompt alone: the right answer's leaf brings it, and the response does not see that leaf.
        make = Asked.for_training if self.mode == "generate" else Asked.for_scoring
        return make(frames, one.questions)
