"""The setup without the primary distractor: does a model deny when the context's own action is not offered?"""

from dataclasses import dataclass
from typing import ClassVar

from actdeny_train.actions.labels import LabelSet
from actdeny_train.draw import Draw
from actdeny_train.questions.mcq import MultipleChoice, draw_distractors
from actdeny_train.types import Clip, ClipKind


@dataclass(frozen=True)
class PrimaryDistractorRemoved(MultipleChoice):
    """The standard question about a denial clip, the clip's action replaced by one more unrelated action (paper 1, section 8)."""

    name: ClassVar[str] = "primary_distractor_removed"
    clip_kinds: ClassVar[tuple[ClipKind, ...]] = tuple(kind for kind in ClipKind if kind.is_denial)

    def offer(self, clip: Clip, labels: LabelSet, num: int, draw: Draw) -> list[str]:
        *others, substitute = draw_distractors(clip, labels, num, draw)
        return [substitute, *others]
