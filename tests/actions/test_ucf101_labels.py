"""The shipped data of UCF101: complete, in form, and never telling an action."""

from pathlib import Path

import pytest
import yaml

from actdeny_train.actions.labels import DESCRIBED_KINDS, OPENING, load_ucf101
from actdeny_train.actions.leak import leaks
from actdeny_train.types import NODES, ClipKind

UCF101 = load_ucf101()
COMPONENT_NODES = tuple(node for node in NODES if node != "A")


def test_has_the_101_actions_in_official_order() -> None:
    assert len(UCF101.actions) == 101
    assert UCF101.actions[:2] == ("ApplyEyeMakeup", "ApplyLipstick") and UCF101.actions[-1] == "YoYo"
    assert UCF101.description("PlayingCello") == "A person or group of people is playing a cello."
    assert UCF101.phrase("SoccerPenalty") == "taking a soccer penalty kick"
    assert UCF101.phrase("HeadMassage") == "giving or receiving a head massage"


@pytest.mark.shared
def test_descriptions_are_the_papers_word_for_word(shared: Path) -> None:
    spec = yaml.safe_load((shared / "spec" / "ucf101_descriptions.yaml").read_text(encoding="utf-8"))
    assert list(UCF101.descriptions.items()) == list(spec.items())


@pytest.mark.shared
def test_actions_are_the_classes_of_the_official_index(shared: Path) -> None:
    index = (shared / "annotations" / "ucf101" / "ucfTrainTestlist" / "classInd.txt").read_bytes()
    numbered = [line.split() for line in index.decode("ascii").split("\r\n") if line]
    assert [int(number) for number, _ in numbered] == list(range(1, 102))
    assert {name for _, name in numbered} == set(UCF101.actions)


def test_every_description_stands_alone() -> None:
    assert len(set(UCF101.descriptions.values())) == 101
    assert all(d.startswith(OPENING) and d.endswith(".") for d in UCF101.descriptions.values())


@pytest.mark.parametrize("action", UCF101.actions)
def test_no_component_tells_the_action(action: str) -> None:
    offenders = [
        f"{kind.value} {node}: {phrase!r} tells {spans}"
        for kind in DESCRIBED_KINDS
        for node in COMPONENT_NODES
        if (spans := leaks(phrase := UCF101.components_of(action, kind).of(node), action, UCF101))
    ]
    assert not offenders, "\n".join(offenders)


@pytest.mark.parametrize("action", UCF101.actions)
def test_components_keep_the_form_of_a_phrase(action: str) -> None:
    for kind in DESCRIBED_KINDS:
        for node in COMPONENT_NODES:
            phrase = UCF101.components_of(action, kind).of(node)
            where = f"{action} {kind.value} {node}: {phrase!r}"
            assert phrase[0].islower(), where
            assert phrase[-1].isalnum(), where
            assert phrase.split(" ") == phrase.split(), where
            assert (3 if node in "SIM" else 2) <= len(phrase.split()) <= 14, where
            assert not {"none", "action", "pretends", "pretending"} & set(phrase.lower().split()), where


@pytest.mark.parametrize("action", UCF101.actions)
def test_kinds_of_an_action_share_the_place_and_differ_in_what_happens(action: str) -> None:
    three = [UCF101.components_of(action, kind) for kind in DESCRIBED_KINDS]
    for node in "SIM":
        assert len({c.of(node) for c in three}) == 3, f"{action}: {node} repeats"
    assert len({c.location for c in three}) == 1, f"{action}: the three kinds stand in different places"


def test_no_two_actions_share_interaction_and_motion_of_presence() -> None:
    presence = [UCF101.components_of(a, ClipKind.PRESENCE) for a in UCF101.actions]
    assert len({(c.interaction, c.motion) for c in presence}) == 101


@pytest.mark.parametrize("action", UCF101.actions)
def test_close_actions_suffice_for_a_presence_question(action: str) -> None:
    close = UCF101.close[action]
    assert 9 <= len(close) <= 12
    assert len(set(close)) == len(close) and action not in close
    assert set(close) <= set(UCF101.actions)


def test_close_actions_look_alike() -> None:
    assert UCF101.close["PlayingGuitar"][:3] == ("PlayingSitar", "PlayingViolin", "PlayingCello")
    assert UCF101.close["FrontCrawl"][0] == "BreastStroke"
    assert UCF101.close["PushUps"][0] == "WallPushups"


@pytest.mark.parametrize("action", UCF101.actions)
def test_enough_unrelated_actions_for_a_denial_question(action: str) -> None:
    assert len(UCF101.unrelated(action)) >= 50


def test_25_actions_need_no_object() -> None:
    assert len(UCF101.without_object) == 25
    assert UCF101.without_object <= set(UCF101.actions)
    assert {"BabyCrawling", "CliffDiving"} <= UCF101.without_object
    assert not {"Typing", "Biking", "PlayingGuitar"} & UCF101.without_object


def test_only_names_of_mere_objects_may_stand() -> None:
    assert UCF101.named_by_object == {"Basketball", "Nunchucks", "YoYo"}


def test_loads_once() -> None:
    assert load_ucf101() is UCF101
