"""Multiple-choice questions about what happens in a clip; the standard setup with eleven choices."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from actdeny_train.actions.labels import LabelSet
from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.prompts import WORDING, Plain, Prompt, option_block
from actdeny_train.types import Clip, Question

T = TypeVar("T")


@dataclass(frozen=True)
class Standard:
    """The benchmark's main question (paper 1, sections 3.1 and 3.3): which caption describes the video?

    Denial clip: the clip's action (the primary distractor), unrelated actions, and the none choice, which is right.
    Presence clip: the clip's action, which is right, close actions, and the none choice. The prompt does not enter the draw, so
    all prompts ask the same choices in the same order.
    """

    prompt: Prompt = field(default_factory=Plain)
    num_choices: int = 11
    """Choices in all, the none choice included; at least 3."""

    def __post_init__(self) -> None:
        if self.num_choices < 3:
            raise ConfigError(
                f"num_choices of a Standard question is {self.num_choices}, but must be at least 3: the clip's action, one distractor "
                "and the none choice. The benchmark uses 11."
            )

    @property
    def setup(self) -> str:
        return "standard"

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return the question. Raises DataError if the label set has too few actions."""
        draw = Draw(seed, clip.id, self.setup, index)
        distractors = draw_distractors(clip, labels, self.num_choices - 2, draw)
        captions = [labels.description(action) for action in (clip.action, *distractors)] + [WORDING["none_option"]]
        choices, permutation = shuffle(captions, draw)
        action, none = permutation.index(0), permutation.index(len(captions) - 1)
        return Question(
            id=f"{clip.id}|{self.setup}|{self.prompt.name}|{index}",
            clip_ids=(clip.id,),
            setup=self.setup,
            prompt=self.prompt.name,
            text=self.prompt.render() + option_block(choices),
            choices=choices,
            answers=numbers(len(choices)),
            target=none if clip.kind.is_denial else action,
            primary_distractor=action if clip.kind.is_denial else None,
            none_choice=none,
            kind=clip.kind.value,
            group=clip.source,
            permutation=permutation,
        )


def draw_distractors(clip: Clip, labels: LabelSet, num: int, draw: Draw) -> list[str]:
    """Return ``num`` actions other than the clip's, in random order.

    Denial clips prefer unrelated actions, presence clips close ones; where these do not suffice, the rest of the label set fills
    up, also at random. Of actions with one and the same description only one is used, since two equal choices could not be
    told apart. Raises DataError if there are fewer than ``num``.
    """
    labels.check(clip.action, f"clip {clip.id!r}")
    preferred = labels.unrelated(clip.action) if clip.kind.is_denial else labels.close.get(clip.action, ())
    rest = [action for action in labels.actions if action not in preferred]
    taken = {labels.description(clip.action)}
    distractors = []
    for action in draw.shuffle(preferred) + draw.shuffle(rest):
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


def numbers(n: int) -> tuple[str, ...]:
    """Return the answers to n numbered choices: "1" to "n"."""
    return tuple(str(i) for i in range(1, n + 1))
