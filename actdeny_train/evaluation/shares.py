"""Shares of clips, or groups of clips, as forests, made ahead in data workers: what one process takes at a time."""

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
from actdeny_train.types import ClipGroup, Frames, Question


@dataclass(frozen=True, eq=False)
class AskedGroup:
    """A group of clips (mostly of one) with its questions, what a model is shown of each clip, and their videos' fingerprints.

    ``frames`` and ``videos`` are in the order of the group's clips, and empty where nothing is shown.
    """

    group: ClipGroup
    questions: tuple[Question, ...]
    frames: tuple[Frames, ...] = ()
    videos: tuple[str, ...] = ()

    def frames_of(self, question: Question) -> tuple[Frames, ...]:
        """Return what a model is shown, in the order of the question's clips."""
        return tuple(self.frames[i] for i in self._order(question))

    def video_fingerprint(self, question: Question) -> dict[str, str]:
        """Return the entry ``video`` of a prediction's fingerprints: those of the question's videos with spaces between, none if unseen."""
        videos = " ".join(self.videos[i] for i in self._order(question))
        return {"video": videos} if videos else {}

    def _order(self, question: Question) -> list[int]:
        ids = [clip.id for clip in self.group.clips]
        return [ids.index(clip_id) for clip_id in question.clip_ids] if self.frames else []


@dataclass(frozen=True, eq=False)
class Share:
    """Consecutive groups of clips and their forests; ``groups[i]`` are those of forest i. A model without weights has no batches.

    ``decode_s`` and ``prepare_s`` are the seconds that a worker took for reading videos, and for resizing and tokenising.
    """

    groups: tuple[tuple[AskedGroup, ...], ...]
    batches: tuple[Batch | None, ...]
    decode_s: float
    prepare_s: float


@dataclass(frozen=True, eq=False)
class Shares(Dataset[Share]):
    """Share i of a split. Groups that nothing is asked about are left out.

    How a share's groups are packed into forests depends on the share alone, never on what else is answered or by whom: the members
    of a forest move the last bits of every score.
    """

    shares: Sequence[Sequence[ClipGroup]]
    read_frames: ClipReader
    processor: Processor | None
    questions: Questions
    mode: Mode
    view: View
    max_tokens: int

    def __len__(self) -> int:
        return len(self.shares)

    def __getitem__(self, i: int) -> Share:
        asked = [AskedGroup(group, tuple(self.questions.about(group))) for group in self.shares[i]]
        asked = [one for one in asked if one.questions]
        started = time.perf_counter()
        if self.processor is None:
            return Share((tuple(asked),), (None,), 0.0, 0.0)
        if self.view != "text_only":
            asked = [self._look(one) for one in asked]
        decoded = time.perf_counter()
        trees = [AskedTree.of(self.processor, self._asked(one)) for one in asked]
        packed = list(pack(trees, self.max_tokens))
        ends = [sum(len(g) for g in packed[: n + 1]) for n in range(len(packed))]
        groups = tuple(tuple(asked[end - len(g) : end]) for g, end in zip(packed, ends, strict=True))
        batches = tuple(Batch.plant(group) for group in packed)
        return Share(groups, batches, decoded - started, time.perf_counter() - decoded)

    def _look(self, one: AskedGroup) -> AskedGroup:
        clips, seed = one.group.clips, self.questions.seed
        frames = tuple(show(self.read_frames(clip), self.view, clip, seed) for clip in clips)
        return AskedGroup(one.group, one.questions, frames, tuple(map(self.read_frames.fingerprint, clips)))

    def _asked(self, one: AskedGroup) -> Asked:
        # A generated response needs a prompt alone: the right answer's leaf brings it, and the response does not see that leaf.
        make = Asked.for_training if self.mode == "generate" else Asked.for_scoring
        return make(one.frames, one.questions, [clip.id for clip in one.group.clips] if one.frames else ())
