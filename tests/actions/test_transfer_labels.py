"""The label sets of the transfer datasets: descriptions, close actions, templates; and how close actions are made."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from actdeny_train.actions.labels import LABEL_SETS, OPENING, LabelSet, load_finegym99, load_label_set, load_named
from actdeny_train.actions.neighbours import NUM_CLOSE, rank
from actdeny_train.errors import DataError
from actdeny_train.questions.mcq import Standard
from actdeny_train.types import Clip, ClipKind

SIZES = {"kinetics400": 400, "hmdb51": 51, "something_v2": 174, "diving48": 48, "finegym99": 99}
TWINS = ("(BB) salto backward tucked [BB_flight_salto]", "(BB) salto backward tucked [BB_dismounts]")


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_every_action_has_a_sentence_and_ten_close_actions(name: str, size: int) -> None:
    labels = load_named(name)
    assert (labels.name, len(labels.actions)) == (name, size)
    for action, text in labels.descriptions.items():
        assert re.fullmatch(rf"{OPENING}[a-z][^\n]*[a-z]\.", text) and "  " not in text, text
        assert len(set(labels.close[action])) == NUM_CLOSE and action not in labels.close[action]
        assert not set(labels.close[action]) & set(labels.also_true.get(action, ()))
    shared = {text for text in labels.descriptions.values() if list(labels.descriptions.values()).count(text) > 1}
    assert shared == ({labels.description(TWINS[0])} if name == "finegym99" else set())


@pytest.mark.parametrize("name", SIZES)
def test_what_is_also_true_is_so_in_both_directions(name: str) -> None:
    also = load_named(name).also_true
    assert all(action in also[other] for action, others in also.items() for other in others)


def test_finegym_twins_never_meet_in_a_question() -> None:
    labels = load_finegym99()
    assert labels.description(TWINS[0]) == labels.description(TWINS[1])
    assert (labels.actions.index(TWINS[0]), labels.actions.index(TWINS[1])) == (58, 70)
    for kind in (ClipKind.PRESENCE, ClipKind.DENIAL):
        for i, action in enumerate(labels.actions):
            clip = Clip(id=f"{i}", path="a.mp4", action=action, kind=kind, split="test", source="s")
            for index in range(5):
                choices = Standard(num_choices=20).ask(clip, labels, seed=0, index=index).choices
                assert len(set(choices)) == 20


def test_what_is_also_true_of_a_clip_is_no_choice() -> None:
    labels = load_named("kinetics400")
    clip = Clip(id="a", path="a.mp4", action="drinking beer", kind=ClipKind.PRESENCE, split="val", source="s")
    barred = {labels.description(a) for a in ("drinking", "drinking shots", "tasting beer")}
    for index in range(200):
        assert not barred & set(Standard(num_choices=20).ask(clip, labels, seed=0, index=index).choices)
    assert not set(labels.also_true["drinking beer"]) & set(labels.unrelated("drinking beer"))


def test_unknown_label_set() -> None:
    with pytest.raises(
        DataError, match=r"Unknown label set 'hmdb'\. Did you mean 'hmdb51'\? The package has ucf101, kin"
    ):
        load_named("hmdb")
    assert load_named("ucf101").actions == LABEL_SETS["ucf101"]().actions


def write(folder: Path, **files: object) -> LabelSet:
    contents = {
        "descriptions": {
            name: f"{OPENING}{text}." for name, text in {"A": "waving", "B": "waving", "C": "nodding"}.items()
        },
        "close": {"A": [], "B": [], "C": []},
        **files,
    }
    for name, content in contents.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return load_label_set(folder, "gestures", has_components=False)


def test_a_shared_description_must_be_declared(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"descriptions.yaml, B: same description as A; each action needs its own"):
        write(tmp_path)
    labels = write(tmp_path, same_description=[["A", "B"]])
    assert labels.description("A") == labels.description("B")
    assert (labels.components, labels.without_object, labels.verbs) == ({}, frozenset(), {})


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([["A", "B", "C"]], r"same_description.yaml: the actions A, B, C do not share one description"),
        ([["A"]], r"same_description.yaml: a group needs at least two actions, got \['A'\]"),
        ([["A", "D"]], r"same_description.yaml: unknown name 'D'\..* Allowed: A, B, C"),
        ({"A": "B"}, r"same_description.yaml must be a list of groups of actions; got dict"),
        (["AB"], r"same_description.yaml: expected a list of names or words, got 'AB'"),
    ],
)
def test_malformed_groups(tmp_path: Path, groups: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        write(tmp_path, same_description=groups)


def test_groups_of_what_is_also_true(tmp_path: Path) -> None:
    labels = write(tmp_path, same_description=[["A", "B"]], also_true=[["C", "A"], ["C", "B"]])
    assert labels.also_true == {"A": ("C",), "B": ("C",), "C": ("A", "B")}
    assert labels.unrelated("C") == ()
    assert labels.subset(["A", "C"], "some").also_true == {"A": ("C",), "C": ("A",)}


def test_ranks_by_hand_first_then_by_angle() -> None:
    angles = np.radians([0, 10, 25, 45, 90])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    descriptions = dict(zip("abcde", ["one", "two", "three", "one", "five"], strict=True))
    close = rank(descriptions, vectors, first={"a": ["e"]}, barred={"a": ["b"], "b": ["a"]}, num_close=3)
    assert close["a"] == ["e", "c"]  # d has the same description, b is barred
    assert close["b"] == ["c", "d", "e"]
    assert close["c"] == ["b", "d", "a"]


def test_equal_similarities_keep_the_official_order() -> None:
    vectors = np.tile([[1.0, 0.0]], (4, 1)) + np.array([[0, 1e-9], [0, 3e-9], [0, 2e-9], [0, 0]])
    close = rank(dict(zip("abcd", "wxyz", strict=True)), vectors, {}, {}, num_close=3)
    assert close == {"a": ["b", "c", "d"], "b": ["a", "c", "d"], "c": ["a", "b", "d"], "d": ["a", "b", "c"]}
