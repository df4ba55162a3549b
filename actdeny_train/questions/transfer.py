"""Transfer denial (paper 1, section 4.2): a presence clip of any dataset, asked once with its action among the choices and once without."""

from dataclasses import dataclass
from typing import ClassVar

from actdeny_train.actions.labels import LabelSet
from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError, DataError, near_misses
from actdeny_train.questions.mcq import DISTRACTORS, Distractors, MultipleChoice, draw_distractors
from actdeny_train.types import Clip, ClipKind, Question

NAME = "transfer"
"""How the setups of both questions are called, whatever their settings add to it."""


@dataclass(frozen=True)
class TransferPresence(MultipleChoice):
    """The clip's action, which is right, other actions, and the none choice: the benchmark's standard question about a presence clip.

    With equal settings, ``TransferDenial`` asks about the same clip in the same words, one choice excepted. Both are reported as one
    setup: Overall-AD is the accuracy without the action, AP that with it, HM their harmonic mean.
    """

    distractors: Distractors = "close"
    """Other actions that are offered first: close ones, as the benchmark does on presence clips, or unrelated ones."""
    minimal_pairs: bool = False
    """Whether the action's counterparts (opening, pretending to open) are offered before all others, where the label set has any."""

    name: ClassVar[str] = NAME
    clip_kinds: ClassVar[tuple[ClipKind, ...]] = (ClipKind.PRESENCE,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distractors not in DISTRACTORS:
            raise ConfigError(
                f"distractors of a {type(self).__name__} question is {self.distractors!r}, but must be one of {', '.join(DISTRACTORS)}."
                f"{near_misses(str(self.distractors), DISTRACTORS)}"
            )

    @property
    def setup(self) -> str:
        unrelated = "_unrelated" if self.distractors == "unrelated" else ""
        return super().setup + unrelated + ("_minimal_pairs" if self.minimal_pairs else "")

    def offer(self, clip: Clip, labels: LabelSet, num: int, draw: Draw) -> list[str]:
        return [clip.action, *self._others(clip, labels, num - 1, draw)]

    def _others(self, clip: Clip, labels: LabelSet, num: int, draw: Draw) -> list[str]:
        if self.minimal_pairs and not labels.minimal_pairs:
            raise DataError(
                f"{type(self).__name__} has minimal_pairs: true, but label set {labels.name!r} of clip {clip.id!r} has no minimal pairs. "
                "Set it to false, or ask clips of Something-Something V2."
            )
        first = labels.minimal_pairs.get(clip.action, ()) if self.minimal_pairs else ()
        return draw_distractors(clip, labels, num, draw, prefer=self.distractors, first=first)


@dataclass(frozen=True)
class TransferDenial(TransferPresence):
    """The question of ``TransferPresence`` with one more distractor in the place of the clip's action: the none choice is right.

    Its kind is ``denial``, without a type: the clip shows its action, and the question denies what it offers.
    """

    def side(self, clip: Clip) -> ClipKind:
        return ClipKind.DENIAL

    def offer(self, clip: Clip, labels: LabelSet, num: int, draw: Draw) -> list[str]:
        *others, substitute = self._others(clip, labels, num, draw)
        return [substitute, *others]


def is_transfer(setup: str) -> bool:
    """Return whether a setup asks transfer questions, by its name."""
    return setup == NAME or setup.startswith(f"{NAME}_")


def fits(question: Question, clip: Clip) -> bool:
    """Return whether the question's kind is that of the clip, or a presence clip is asked without its action."""
    without_action = (
        is_transfer(question.setup)
        and question.kind == ClipKind.DENIAL
        and question.target == question.none_choice
        and question.primary_distractor is None
    )
    return question.kind == clip.kind or (clip.kind is ClipKind.PRESENCE and without_action)
