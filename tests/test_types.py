"""The dataclasses that travel: what they refuse, and that a prediction survives its JSON line."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.types import NODES, ClipKind, Components, Frames, ParseStatus, Prediction, Question

WORDS = {
    "persons": "a man",
    "objects": "a bow",
    "location": "a field",
    "spatial": "beside",
    "interaction": "holds it",
    "motion": "stands",
}
QUESTION = {
    "id": "q",
    "clip_ids": ("c",),
    "setup": "five_choice",
    "prompt": "plain",
    "text": "What?",
    "choices": ("archery", "bowling", "none"),
    "answers": ("1", "2", "3"),
    "target": 0,
    "kind": "presence",
    "group": "c",
}


def frames(**changed):
    given = {
        "pixels": np.zeros((2, 4, 6, 3), np.uint8),
        "time_s": np.array([0.0, 0.5]),
        "indices": np.arange(2),
        "num_decoded": 9,
        "sampling": "all",
    }
    return Frames(**{**given, **changed})


def prediction(**changed):
    given = {
        "question_id": "q",
        "clip_ids": ("c",),
        "action": "Archery",
        "source": "s",
        "setup": "five_choice",
        "prompt": "plain",
        "kind": "presence",
        "group": "s",
        "target": 1,
        "choice": 1,
        "status": ParseStatus.OK,
        "num_choices": 3,
    }
    return Prediction(**{**given, **changed})


def test_only_presence_clips_show_their_action():
    assert {kind for kind in ClipKind if not kind.is_denial} == {ClipKind.PRESENCE}


def test_every_node_but_the_action_has_a_phrase():
    components = Components(**WORDS)
    assert [components.of(node) for node in NODES[:-1]] == list(WORDS.values())
    with pytest.raises(KeyError):
        components.of("A")


@pytest.mark.parametrize(
    "changed",
    [
        {"pixels": np.zeros((2, 4, 6, 3), np.float32)},
        {"pixels": np.zeros((2, 3, 4, 6), np.uint8)},
        {"pixels": np.zeros((3, 4, 6, 3), np.uint8)},
        {"pixels": np.zeros((0, 4, 6, 3), np.uint8), "indices": np.arange(0), "time_s": np.zeros(0)},
        {"time_s": np.array([0.0])},
        {"time_s": np.array([0.5, 0.5])},
        {"time_s": np.array([0.5, 0.0])},
    ],
)
def test_frames_that_contradict_themselves_are_refused(changed):
    with pytest.raises(AssertionError):
        frames(**changed)


def test_one_frame_is_enough():
    assert len(frames(pixels=np.zeros((1, 4, 6, 3), np.uint8), indices=np.arange(1), time_s=np.zeros(1)).pixels) == 1


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"choices": ("archery",), "answers": ("1",)}, "q: 1 choices, 1 answers"),
        ({"answers": ("1", "2")}, "q: 3 choices, 2 answers"),
        ({"answers": ("1", "2", "1")}, "q: answers repeat or are empty"),
        ({"answers": ("1", "2", "")}, "q: answers repeat or are empty"),
        ({"target": 3}, "q: index 3 of 3 choices"),
        ({"target": -1}, "q: index -1 of 3 choices"),
        ({"none_choice": 3}, "q: index 3 of 3 choices"),
        ({"primary_distractor": -1}, "q: index -1 of 3 choices"),
    ],
)
def test_questions_that_contradict_themselves_are_refused(changed, text):
    with pytest.raises(AssertionError, match=text):
        Question(**{**QUESTION, **changed})


def test_an_unparsed_response_is_never_right():
    assert prediction().is_right
    assert not prediction(choice=0).is_right
    assert not prediction(status=ParseStatus.UNPARSED).is_right
    assert not prediction(status=ParseStatus.UNPARSED, choice=None).is_right


@given(
    logprobs=st.lists(st.floats(allow_nan=False, allow_infinity=False)).map(tuple),
    permutation=st.lists(st.integers(0, 10)).map(tuple),
    text=st.none() | st.text(),
    status=st.sampled_from(ParseStatus),
    choice=st.none() | st.integers(0, 2),
)
def test_a_prediction_survives_its_json_line(**changed):
    before = prediction(**changed, frame_indices=(0, 3), frame_times_s=(0.0, 0.1), fingerprints={"weights": "ab"})
    after = Prediction.from_json(json.loads(json.dumps(before.to_json())))
    assert after == before
    assert all(type(getattr(after, f.name)) is type(getattr(before, f.name)) for f in dataclasses.fields(before))


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.pop("target"),
        lambda line: line.pop("status"),
        lambda line: line.update(status="maybe"),
        lambda line: line.update(permutation=3),
        lambda line: line.update(surprise=1),
    ],
)
def test_a_line_of_another_shape_is_refused(change):
    line = prediction().to_json()
    change(line)
    with pytest.raises((TypeError, ValueError)):
        Prediction.from_json(line)
