"""Find the intruder (paper 2): four captions, three of one action type; which is the other one? With or without their clips."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from actdeny_train.actions.labels import LabelSet
from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.prompts import answer_labels
from actdeny_train.types import Clip, ClipGroup, IntruderTuple, Question

NUM_CAPTIONS = 4
SETUP = "intruder"
PROMPTS = {"italian": "macid_prompt.txt", "english": "macid_prompt_english.txt"}
"""Prompts of the package: the published one, and its translation (ours)."""

_PLACE = re.compile(r"\{s([1-4])\}")


@dataclass(frozen=True)
class Intruder:
    """Asks which of a tuple's captions is of another action type; the answer is its number.

    ``template`` is ``"italian"`` (as published), ``"english"`` (ours, for the same Italian captions), or the path of a text file of yours
    in which ``{s1}`` to ``{s4}`` stand once each; results are reported under the file's name without its ending. Where clips
    are shown, each stands right before its caption. Question 0 has the captions in the published order, questions 1 to 3 rotate them,
    so that over four questions the intruder is once at each place; beyond that, the order before rotating is drawn.
    """

    template: str = "italian"

    def __post_init__(self) -> None:
        _read_template(self.template)

    @property
    def setup(self) -> str:
        return SETUP

    @property
    def prompt_name(self) -> str:
        """Name of the prompt under which results are reported."""
        return self.template if self.template in PROMPTS else Path(self.template).stem

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Raise DataError: there is no intruder in one clip."""
        raise DataError(
            f"Setup {SETUP!r} was asked about clip {clip.id!r} alone, but is about four clips or captions. Use a dataset of such tuples: "
            "actdeny_train.datasets.macid.MACID."
        )

    def ask_group(self, group: ClipGroup, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return the question. Raises DataError about a group that is no tuple of four captions."""
        if not isinstance(group, IntruderTuple) or len(group.captions) != NUM_CAPTIONS:
            raise DataError(
                f"Setup {SETUP!r} was asked about {group.id!r}, which is no tuple of four captions with an intruder. Use a dataset of such "
                "tuples: actdeny_train.datasets.macid.MACID."
            )
        rounds, turn = divmod(index, NUM_CAPTIONS)
        order = list(range(NUM_CAPTIONS))
        if rounds:
            order = Draw(seed, group.id, SETUP, rounds).shuffle(order)
        permutation = tuple(order[turn:] + order[:turn])
        captions = tuple(group.captions[i] for i in permutation)
        text, places = fill(_read_template(self.template), captions)
        return Question(
            id=f"{group.id}|{SETUP}|{self.prompt_name}|{index}",
            clip_ids=tuple(group.clips[i].id for i in permutation),
            setup=SETUP,
            prompt=self.prompt_name,
            text=text,
            choices=captions,
            answers=answer_labels(NUM_CAPTIONS),
            target=permutation.index(group.intruder),
            kind=group.verb_pattern,
            group=group.source,
            permutation=permutation,
            clip_places=places,
        )


def fill(template: str, captions: tuple[str, ...]) -> tuple[str, tuple[int, ...]]:
    """Return the template with the captions in it, and where each begins, in characters."""
    text, places = "", []
    end = 0
    for place in _PLACE.finditer(template):
        text += template[end : place.start()]
        places.append(len(text))
        text += captions[int(place[1]) - 1]
        end = place.end()
    return text + template[end:], tuple(places)


@functools.cache
def _read_template(template: str) -> str:
    path = Path(__file__).with_name(PROMPTS[template]) if template in PROMPTS else Path(template)
    try:
        text = path.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The template {template!r} of an Intruder question cannot be read ({error}). Choose {' or '.join(PROMPTS)}, or give the path "
            "of a text file in UTF-8."
        ) from None
    if (found := _PLACE.findall(text)) != [str(i) for i in range(1, NUM_CAPTIONS + 1)]:
        raise ConfigError(
            f"The template {template!r} of an Intruder question must hold {{s1}}, {{s2}}, {{s3}} and {{s4}} once each and in this order, "
            f"but holds {', '.join(f'{{s{i}}}' for i in found) or 'none of them'}. Correct the file."
        )
    return text
