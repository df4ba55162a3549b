from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import LabelSet, load_ucf101
from actdeny_train.errors import ConfigError
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.mixture import Mixture, Share
from actdeny_train.questions.objects import WhatObject
from actdeny_train.types import Clip, ClipKind, Question


@dataclass(frozen=True)
class Numbered:
    """Asks only for its own running index."""

    setup: str

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        return Question(
            id=f"{self.setup}|{index}",
            clip_ids=(clip.id,),
            setup=self.setup,
            prompt="",
            text="",
            choices=("a", "b"),
            answers=("a", "b"),
            target=0,
            kind="",
            group="",
        )


def make_clip(id: str = "clip") -> Clip:
    return Clip(id=id, path="a.mp4", action="Archery", kind=ClipKind.PRESENCE, split="train", source="g01")


def make_mixture(*shares: float) -> Mixture:
    return Mixture(tuple(Share(Numbered(f"s{i}"), share) for i, share in enumerate(shares)))


def ids(mixture: Mixture, num: int, clip: str = "clip", seed: int = 0) -> list[str]:
    labels = load_ucf101()
    return [mixture.ask(make_clip(clip), labels, seed=seed, index=i).id for i in range(num)]


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=5), st.integers(0, 9), st.integers(1, 60))
def test_each_source_walks_its_own_stream_without_gaps(shares: list[float], seed: int, num: int) -> None:
    running: dict[str, list[int]] = {}
    for id in ids(make_mixture(*shares), num, seed=seed):
        source, index = id.split("|")
        running.setdefault(source, []).append(int(index))
    assert all(indices == list(range(len(indices))) for indices in running.values())


@given(st.floats(0.001, 1000), st.floats(0.001, 1000), st.text(max_size=5), st.integers(1, 60))
def test_two_sources_stay_within_one_question_of_their_share(first: float, second: float, clip: str, num: int) -> None:
    count = sum(id.startswith("s0") for id in ids(make_mixture(first, second), num, clip))
    assert abs(count - num * first / (first + second)) < 1 + 1e-9


def test_first_questions_of_many_clips_are_divided_by_the_shares() -> None:
    mixture = make_mixture(0.5, 0.3, 0.2)
    counts = Counter(ids(mixture, 1, clip=f"c{i}")[0] for i in range(2000))
    chi_square = sum((counts[f"s{i}|0"] - e) ** 2 / e for i, e in enumerate((1000, 600, 400)))
    assert chi_square < 13.8, "p = .001 at 2 degrees of freedom"


def test_questions_are_those_of_the_sources() -> None:
    labels, mixture = load_ucf101(), Mixture((Share(Standard()), Share(WhatObject())))
    asked = [mixture.ask(make_clip(), labels, seed=3, index=i) for i in range(10)]
    assert {question.setup for question in asked} == {"standard", "what_object"}
    own = {s.setup: [s.ask(make_clip(), labels, seed=3, index=i) for i in range(5)] for s in (Standard(), WhatObject())}
    for setup, questions in own.items():
        assert [question for question in asked if question.setup == setup] == questions


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan"), float("inf")])
def test_share_must_be_positive(share: float) -> None:
    with pytest.raises(ConfigError, match=rf"shares\[1\]\.share of a Mixture is {share}, but must be a number above 0"):
        make_mixture(1, share)


def test_no_shares() -> None:
    with pytest.raises(ConfigError, match="needs at least one share"):
        Mixture(())


def test_source_twice() -> None:
    with pytest.raises(ConfigError, match=r"shares\[1\] of a Mixture repeats the source Standard.*add the shares up"):
        Mixture((Share(Standard()), Share(Standard(), 2.0)))
