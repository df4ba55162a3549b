"""A question about context: which object is visible? It can be asked about every kind of clip."""

from dataclasses import dataclass

from actdeny_train.actions.labels import LabelSet
from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.mcq import shuffle
from actdeny_train.questions.prompts import answer_labels, option_block
from actdeny_train.types import Clip, ClipKind, Question

PHRASINGS = (
    "Which object is visible in the video?",
    "Which of these can be seen in the video?",
    "What lies, stands or is held in this scene?",
    "Look at the things around the people. Which of these does the video show?",
)
INSTRUCTION = "Only one choice is correct. Reply with the choice number only."


@dataclass(frozen=True)
class WhatObject:
    """Asks for the objects of a clip among those of other actions, unrelated ones first.

    The clip's own components come before those of its action. They should be worded like the label set's, or the wording
    alone gives the answer away.
    """

    num_choices: int = 4
    """Choices in all, at least 2."""

    def __post_init__(self) -> None:
        if self.num_choices < 2:
            raise ConfigError(
                f"num_choices of WhatObject is {self.num_choices}, but must be at least 2: the clip's objects and those of another action."
            )

    @property
    def setup(self) -> str:
        return "what_object"

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return the question. Raises DataError if the objects of the clip or of enough others are unknown."""
        draw = Draw(seed, clip.id, self.setup, index)
        # All kinds of clip show the same things (paper 1, section 3.1), so an unknown type of denial may borrow from presence.
        kind = ClipKind.PRESENCE if clip.kind is ClipKind.DENIAL else clip.kind
        own = clip.components or labels.components_of(clip.action, kind)
        phrases = [own.objects]
        unrelated = labels.unrelated(clip.action)
        close = [action for action in labels.actions if action not in unrelated and action != clip.action]
        for action in draw.shuffle(unrelated) + draw.shuffle(close):
            # The same kind as the clip's: a word that only one kind's phrases have must not give the answer away.
            components = labels.components.get(action, {}).get(kind)
            if components is not None and components.objects not in phrases:
                phrases.append(components.objects)
        if len(phrases) < self.num_choices:
            raise DataError(
                f"Clip {clip.id!r} needs {self.num_choices - 1} other objects to choose from, but label set {labels.name!r} has "
                f"{len(phrases) - 1}. Set num_choices of WhatObject to at most {len(phrases)}, or use a label set with more components."
            )
        choices, permutation = shuffle(phrases[: self.num_choices], draw)
        return Question(
            id=f"{clip.id}|{self.setup}|plain|{index}",
            clip_ids=(clip.id,),
            setup=self.setup,
            prompt="plain",
            text=f"{draw.choice(PHRASINGS)} {INSTRUCTION}\n{option_block(choices)}",
            choices=choices,
            answers=answer_labels(len(choices)),
            target=permutation.index(0),
            kind=self.setup,
            group=clip.source,
            permutation=permutation,
        )
