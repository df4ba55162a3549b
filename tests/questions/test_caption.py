import pytest

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.errors import DataError
from actdeny_train.questions.caption import PHRASINGS, Caption
from actdeny_train.types import Clip, ClipKind


def make_clip(kind: ClipKind = ClipKind.PRESENCE) -> Clip:
    return Clip(id="clip", path="a.mp4", action="Archery", kind=kind, split="train", source="g01")


def test_small_label_set_offers_all_its_actions() -> None:
    labels = load_ucf101().subset(["Archery", "Biking", "YoYo"], "three")
    question = Caption().ask(make_clip(), labels, seed=0)
    assert question.choices == question.answers == tuple(labels.descriptions.values())
    assert question.answers[question.target] == "A person or group of people is shooting arrows with a bow."
    assert question.text in PHRASINGS
    assert (question.setup, question.id) == ("caption", "clip|caption|plain|0")


def test_large_label_set_offers_eleven() -> None:
    labels = load_ucf101()
    question = Caption().ask(make_clip(), labels, seed=0)
    assert len(set(question.answers)) == 11
    assert question.answers[question.target] == labels.description("Archery")
    assert set(question.answers) <= set(labels.descriptions.values())


def test_every_phrasing_is_used() -> None:
    labels = load_ucf101()
    assert {Caption().ask(make_clip(), labels, seed=0, index=i).text for i in range(60)} == set(PHRASINGS)


@pytest.mark.parametrize("kind", [kind for kind in ClipKind if kind.is_denial])
def test_denial_clip_has_no_caption(kind: ClipKind) -> None:
    with pytest.raises(
        DataError, match=rf"clip 'clip', which is a denial clip \(kind '{kind.value}'\).*presence clips only"
    ):
        Caption().ask(make_clip(kind), load_ucf101(), seed=0)
