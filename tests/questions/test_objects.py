import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.objects import WhatObject
from actdeny_train.types import Clip, ClipKind, Components

OWN = Components(persons="a man", objects="a red kite", location="a", spatial="b", interaction="c", motion="d")


def make_clip(kind: ClipKind, action: str = "Archery", components: Components | None = None) -> Clip:
    return Clip(id="clip", path="a.mp4", action=action, kind=kind, split="train", source="g01", components=components)


@given(st.sampled_from(list(ClipKind)), st.sampled_from(load_ucf101().actions), st.integers(0, 20))
def test_target_is_the_object_of_the_clip_and_unrelated_ones_surround_it(
    kind: ClipKind, action: str, index: int
) -> None:
    labels = load_ucf101()
    question = WhatObject().ask(make_clip(kind, action), labels, seed=0, index=index)
    known = ClipKind.PRESENCE if kind is ClipKind.DENIAL else kind
    assert question.choices[question.target] == labels.components[action][known].objects
    assert len(set(question.choices)) == 4 and question.answers == ("1", "2", "3", "4")
    unrelated = {labels.components[a][known].objects for a in labels.unrelated(action)}
    assert {c for i, c in enumerate(question.choices) if i != question.target} <= unrelated
    assert question.text.split("\n")[1:] == [f"{i + 1}. {c}" for i, c in enumerate(question.choices)]


def test_own_components_of_a_clip_come_first() -> None:
    question = WhatObject().ask(make_clip(ClipKind.DENIAL, components=OWN), load_ucf101(), seed=0)
    assert question.choices[question.target] == "a red kite"


def test_nothing_known_of_the_objects() -> None:
    bare = dataclasses.replace(load_ucf101(), components={})
    with pytest.raises(DataError, match="No components for a clip of 'Archery' of kind 'presence'"):
        WhatObject().ask(make_clip(ClipKind.PRESENCE), bare, seed=0)


def test_too_few_other_objects() -> None:
    labels = load_ucf101().subset(["Archery", "YoYo"], "two")
    with pytest.raises(
        DataError, match=r"needs 3 other objects.*'two' has 1\. Set num_choices of WhatObject to at most 2"
    ):
        WhatObject().ask(make_clip(ClipKind.PRESENCE), labels, seed=0)


def test_too_few_choices() -> None:
    with pytest.raises(ConfigError, match="num_choices of WhatObject is 1, but must be at least 2"):
        WhatObject(num_choices=1)
