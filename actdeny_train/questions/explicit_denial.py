"""The explicit-denial setup: the none choice says that cues of the action may be there while the action is not."""

from dataclasses import dataclass
from typing import ClassVar

from actdeny_train.actions.labels import LabelSet
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.prompts import WORDING
from actdeny_train.types import Clip


@dataclass(frozen=True)
class ExplicitDenial(Standard):
    """The standard question, its none choice replaced by a statement that denies the clip's action by name (paper 1, section 8).

    The statement is right on denial clips and wrong on presence clips, as the none choice is.
    """

    name: ClassVar[str] = "explicit_denial"

    def none_text(self, clip: Clip, labels: LabelSet) -> str:
        return WORDING["explicit_denial_option"].format(action=labels.phrase(clip.action))
