"""Answers averaged over rotations."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from actdeny_train.metrics.rotations import NAMES, NOTHING, rotated_denial
from actdeny_train.types import ClipKind, Prediction


def rotate(prediction: Prediction, scores: list[list[float]], name: str = "r") -> list[Prediction]:
    """Return a prediction for each row of log-probabilities, which are in the order before shuffling: choice i at place i + turn."""
    made = []
    for turn, row in enumerate(scores):
        places = tuple((i - turn) % 4 for i in range(4))
        best = max(range(4), key=lambda i: row[places[i]])
        fields = {
            "question_id": f"{name}{turn}",
            "rotation_of": name,
            "permutation": places,
            "logprobs": tuple(row[i] for i in places),
            "choice": best,
            "target": places.index(prediction.target),
            "none_choice": places.index(3),
            "primary_distractor": places.index(0) if prediction.primary_distractor is not None else None,
        }
        made.append(dataclasses.replace(prediction, **fields))
    return made


def test_two_questions_by_hand(predict: Callable[..., Prediction]) -> None:
    """Normalised, the denial question has .7 + .1 for the distractor against .2 + .8 for the none choice, as logs -2.66 against
    -1.83: right. Unnormalised, the first row would have won by far. The presence question is right in both rotations.
    """
    log = math.log
    denial = predict("context_only", 0, source="a")
    presence = predict("presence", 0, source="b")
    tiny = 1e-9
    rows = [
        [log(0.7), log(0.05), log(0.05), log(0.2)],
        [log(0.1 * tiny), log(0.05 * tiny), log(0.05 * tiny), log(0.8 * tiny)],
    ]
    sure = [[log(0.9), log(0.05), log(0.03), log(0.02)]] * 2
    found = rotated_denial([*rotate(denial, rows, "d"), *rotate(presence, sure, "p")], num_draws=50)
    assert {name: (e.value, e.n) for name, e in found.items()} == {
        "same": (0.5, 2),
        "t1": (1.0, 1),
        "t2": (None, 0),
        "overall_ad": (1.0, 1),
        "ap": (1.0, 1),
        "hm": (1.0, 2),
    }


def test_nothing_in_rotation(twelve: list[Prediction]) -> None:
    assert {(e.value, e.n, e.reason) for e in rotated_denial(twelve).values()} == {(None, 0, NOTHING)}


@given(
    st.lists(st.lists(st.floats(-20, 0), min_size=4, max_size=4), min_size=2, max_size=4),
    st.sampled_from(list(ClipKind)),
)
def test_a_model_without_a_taste_for_places_answers_the_same(
    predict: Callable[..., Prediction], scores: list[list[float]], kind: ClipKind
) -> None:
    one = predict(kind, 0)
    mean = np.mean([np.array(row) - np.logaddexp.reduce(row) for row in scores], axis=0)
    second, first = sorted(mean)[-2:]
    assume(first - second > 1e-9)
    found = rotated_denial(rotate(one, scores), num_draws=5)
    right = {"overall_ad" if kind.is_denial else "ap": float(mean.argmax() == one.target)}
    assert {name: found[name].value for name in right} == right
    constant = rotated_denial(rotate(one, [scores[0]] * len(scores)), num_draws=5)
    assert constant["same"].value == 1.0 and set(constant) == set(NAMES)


def test_statuses_do_not_matter(predict: Callable[..., Prediction]) -> None:
    told = rotate(predict("presence", 0), [[-1.0, -2.0, -3.0, -4.0]] * 3)
    assert rotated_denial(told, num_draws=5)["ap"].value == pytest.approx(1.0)
