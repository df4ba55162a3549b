"""Places against values worked out on paper and laws."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.errors import DataError
from actdeny_train.metrics.positions import Position, Positions, none_positions, positions
from actdeny_train.types import Prediction


def values(places: list[Position]) -> list[tuple[float | None, float | None, float | None]]:
    assert [place.position for place in places] == list(range(len(places)))
    return [(place.chosen.value, place.target.value, place.right.value) for place in places]


def test_twelve_predictions_worked_out_on_paper(twelve: list[Prediction]) -> None:
    # Chosen: 0 by two denial and three presence clips, 1 by one presence clip, 2 by one denial clip, 3 by three and one.
    # Right stands at 3 on the 7 denial clips, at 0 on the 5 presence clips.
    found = positions(twelve)
    assert values(found) == [
        (5 / 12, 5 / 12, 3 / 5),
        (1 / 12, 0.0, None),
        (1 / 12, 0.0, None),
        (4 / 12, 7 / 12, 3 / 7),
    ]
    assert [(place.chosen.n, place.target.n, place.right.n) for place in found] == [
        (12, 12, 5),
        (12, 12, 0),
        (12, 12, 0),
        (12, 12, 7),
    ]
    assert found[1].right.reason == "the right answer never stands there"
    assert found[0].chosen.low is not None and found[0].chosen.low < 5 / 12
    assert values(none_positions(twelve)) == [
        (2 / 7, 0.0, None),
        (0.0, 0.0, None),
        (1 / 7, 0.0, None),
        (3 / 7, 1.0, 3 / 7),
    ]


def test_no_none_choice_has_no_places(twelve_yes_no: list[Prediction]) -> None:
    asked = [p for p in twelve_yes_no if p.setup == "yes_no_primary"]
    assert none_positions(asked) == []
    # Yes at place 0: 7 of 12, right on the 3 of 5 presence clips; no at 1: 4, right on 3 of 7 denial clips.
    assert values(positions(asked)) == [(7 / 12, 5 / 12, 3 / 5), (4 / 12, 7 / 12, 3 / 7)]


def test_no_predictions() -> None:
    assert positions([]) == none_positions([]) == []


@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(0, 20), st.booleans())
@settings(deadline=None, max_examples=40)
def test_laws(
    at_random: Callable[..., list[Prediction]],
    without_intervals: Callable[[Any], Any],
    seed: int,
    n: int,
    cut: int,
    only_none: bool,
) -> None:
    predictions = at_random(seed, n)
    measure = none_positions if only_none else positions
    found = measure(predictions, num_draws=5)
    counted = [p for p in predictions if not only_none or (p.kind != "presence" and p.none_choice is not None)]
    chosen, targets = Counter(p.choice for p in counted), Counter(p.target for p in counted)
    for place in found:
        assert place.chosen.value == chosen[place.position] / len(counted)
        assert place.target.value == targets[place.position] / len(counted)
        assert place.right.n == targets[place.position]
    hits = sum((place.right.value or 0) * place.right.n for place in found)
    assert hits == pytest.approx(sum(p.is_right for p in counted))
    metric = Positions(4, only_none=only_none)
    metric.update(predictions[:cut])
    metric.update(predictions[cut:])
    assert metric.compute()[: len(found)] == without_intervals([place.to_json() for place in found])


def test_more_choices_than_announced_are_refused(predict: Callable[..., Prediction]) -> None:
    with pytest.raises(DataError) as error:
        Positions(3).update([predict("presence", 0)])
    assert str(error.value) == (
        "Prediction 'q' has 4 choices, but this metric was made for at most 3. Give it the largest number of choices that is asked."
    )
