"""Multiple-choice questions about what happens in a clip: what all setups share, and the standard setup with its short form."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeVar, get_args

from actdeny_train.actions.labels import LabelSet
from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.prompts import (
    MAX_CHOICES,
    WORDING,
    Labelled,
    Plain,
    Prompt,
    answer_labels,
    option_block,
)
from actdeny_train.types import Clip, ClipKind, Question

T = TypeVar("T")

MIN_CHOICES = 3

Distractors = Literal["close", "unrelated"]
DISTRACTORS: tuple[Distractors, ...] = get_args(Distractors)
"""Which actions are offered beside the clip's: those that look like it, or those that do not."""


@dataclass(frozen=True)
class MultipleChoice(abc.ABC):
    """Which caption describes the video? A setup says which actions are offered and what the none choice says.

    All setups draw by the same key, so that they offer a clip the same distractors, as far as they offer as many: a difference
    between two setups is then one of the setups. Nor does the prompt enter the draw. Over indices 0 to ``num_choices`` - 1, the none
    choice stands once at each place; where it begins is drawn from the clip's id, so that over many clips each place comes
    equally often too.
    """

    prompt: Prompt = field(default_factory=Plain)
    num_choices: int = 11
    """Choices in all, the none choice included; 3 to 20."""
    labelled: Labelled = "numbers"
    """What stands before each choice and is the answer: numbers or letters."""

    rotations: int = 1
    """Indices in a row that ask the same choices, each time one place further; ``num_choices`` puts every choice at every place."""

    name: ClassVar[str]
    """Name of the setup where it has its usual number of choices and numbers before them."""
    usual_choices: ClassVar[int] = 11
    """Choices that the benchmark offers in this setup."""
    clip_kinds: ClassVar[tuple[ClipKind, ...]] = tuple(ClipKind)
    """Kinds of clip that the setup is about."""

    def __post_init__(self) -> None:
        if not MIN_CHOICES <= self.num_choices <= MAX_CHOICES:
            raise ConfigError(
                f"num_choices of a {type(self).__name__} question is {self.num_choices}, but must be from {MIN_CHOICES} (the clip's "
                f"action, one distractor and the none choice) to {MAX_CHOICES}. The benchmark uses {self.usual_choices}."
            )
        if not 1 <= self.rotations <= self.num_choices:
            raise ConfigError(
                f"rotations of a {type(self).__name__} question is {self.rotations}, but must be from 1 (new choices at each index) to "
                f"num_choices = {self.num_choices}, beyond which places repeat. Ask as many indices: count={self.num_choices}."
            )

    @property
    def setup(self) -> str:
        """Name under which results are reported, e.g. "standard", "standard_7", "standard_letters"."""
        number = "" if self.num_choices == self.usual_choices else f"_{self.num_choices}"
        return self.name + number + ("_letters" if self.labelled == "letters" else "")

    @abc.abstractmethod
    def offer(self, clip: Clip, labels: LabelSet, num: int, draw: Draw) -> list[str]:
        """Return the ``num`` actions that are offered, the clip's own first where it is among them."""

    def none_text(self, clip: Clip, labels: LabelSet) -> str:
        """Return the none choice."""
        return WORDING["none_option"]

    def side(self, clip: Clip) -> ClipKind:
        """Return the kind of clip that the question counts for: the clip's own, unless a setup takes the clip's action away."""
        return clip.kind

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return the question. Raises DataError if the setup is not about such clips, or the label set has too few actions."""
        if clip.kind not in self.clip_kinds:
            raise DataError(
                f"Setup {self.setup!r} was asked about clip {clip.id!r} of kind {clip.kind.value!r}, but is about clips of kind "
                f"{', '.join(self.clip_kinds)} alone. Ask the others in another setup."
            )
        block, turn = divmod(index, self.rotations)
        draw = Draw(seed, clip.id, "standard", block)
        offered = self.offer(clip, labels, self.num_choices - 1, draw)
        captions = [labels.description(action) for action in offered]
        permutation = list(draw.shuffle(range(len(captions))))
        none = (Draw(seed, clip.id, "none choice").integer(self.num_choices) + block) % self.num_choices
        permutation.insert(none, len(captions))
        permutation = permutation[len(permutation) - turn :] + permutation[: len(permutation) - turn]
        none = permutation.index(len(captions))
        captions.append(self.none_text(clip, labels))
        choices = tuple(captions[place] for place in permutation)
        action = permutation.index(0) if offered[0] == clip.action else None
        kind = self.side(clip)
        assert action is not None or kind.is_denial, f"{self.setup} does not offer the action of a presence clip"
        assert action is None or kind.is_denial == clip.kind.is_denial, f"{self.setup} denies what clip {clip.id} shows"
        # One setup may ask about a clip on both sides.
        side = "" if kind == clip.kind else f":{kind.value}"
        return Question(
            id=f"{clip.id}|{self.setup}{side}|{self.prompt.name}|{index}",
            clip_ids=(clip.id,),
            setup=self.setup,
            prompt=self.prompt.name,
            text=self.prompt.render(self.labelled) + option_block(choices, self.labelled),
            choices=choices,
            answers=answer_labels(len(choices), self.labelled),
            target=none if kind.is_denial or action is None else action,
            primary_distractor=action if kind.is_denial else None,
            none_choice=none,
            kind=kind.value,
            group=clip.source,
            permutation=tuple(permutation),
            rotation_of=f"{clip.id}|{self.setup}{side}|{self.prompt.name}|{block}" if self.rotations > 1 else "",
        )


@dataclass(frozen=True)
class Standard(MultipleChoice):
    """The benchmark's main question (paper 1, sections 3.1 and 3.3).

    Denial clip: the clip's action (the primary distractor), unrelated actions, and the none choice, which is right.
    Presence clip: the clip's action, which is right, close actions, and the none choice.
    """

    name: ClassVar[str] = "standard"

    def offer(self, clip: Clip, labels: LabelSet, num: int, draw: Draw) -> list[str]:
        return [clip.action, *draw_distractors(clip, labels, num - 1, draw)]


@dataclass(frozen=True)
class FourChoices(Standard):
    """The standard question with four choices (paper 1, section 8): the clip's action, two others, the none choice."""

    num_choices: int = 4
    name: ClassVar[str] = "four_choices"
    usual_choices: ClassVar[int] = 4


def draw_distractors(
    clip: Clip,
    labels: LabelSet,
    num: int,
    draw: Draw,
    *,
    prefer: Distractors | None = None,
    first: Sequence[str] = (),
) -> list[str]:
    """Return ``num`` actions other than the clip's, in random order; fewer are the first of more.

    Those of ``first`` come before all others. Then denial clips prefer unrelated actions, presence clips close ones, unless ``prefer``
    says which; where these do not suffice, the rest of the label set fills up, also at random. Of actions with one and the same
    description only one is used, since two equal choices could not be told apart, and none that may be true of the clip as well
    (``LabelSet.also_true``). Raises DataError if there are fewer than ``num``.
    """
    labels.check(clip.action, f"clip {clip.id!r}")
    unrelated = prefer == "unrelated" or (prefer is None and clip.kind.is_denial)
    preferred = labels.unrelated(clip.action) if unrelated else labels.close.get(clip.action, ())
    rest = [action for action in labels.actions if action not in preferred]
    taken = {labels.description(action) for action in (clip.action, *labels.also_true.get(clip.action, ()))}
    distractors = []
    for action in draw.shuffle(first) + draw.shuffle(preferred) + draw.shuffle(rest):
        if labels.description(action) not in taken:
            taken.add(labels.description(action))
            distractors.append(action)
    if len(distractors) < num:
        raise DataError(
            f"Clip {clip.id!r} needs {num} distractors, but label set {labels.name!r} has {len(distractors)} actions besides "
            f"{clip.action!r} with a description of their own. Ask with {num - len(distractors)} choices fewer, or use a label set with "
            "more actions."
        )
    return distractors[:num]


def shuffle(choices: Sequence[T], draw: Draw) -> tuple[tuple[T, ...], tuple[int, ...]]:
    """Return the choices in random order and, for each, its place in the order given."""
    permutation = tuple(draw.shuffle(range(len(choices))))
    return tuple(choices[place] for place in permutation), permutation
