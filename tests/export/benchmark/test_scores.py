"""The exported metrics against those of the package, on any predictions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.export.benchmark.shipped.scores import AGGREGATIONS, STATUSES, marks, summarise
from actdeny_train.metrics.counts import count_statuses
from actdeny_train.metrics.denial import denial_accuracy
from actdeny_train.types import ClipKind, ParseStatus, Prediction


@st.composite
def predictions(draw: st.DrawFn) -> Prediction:
    kind, status = draw(st.sampled_from(list(ClipKind))), draw(st.sampled_from(list(ParseStatus)))
    place = st.integers(0, 3)
    return Prediction(
        question_id="q",
        clip_ids=("c",),
        action="a",
        source="s",
        setup="standard",
        prompt="plain",
        kind=kind.value,
        group="s",
        target=draw(place),
        choice=draw(place) if status is ParseStatus.OK else None,
        status=status,
        num_choices=4,
        none_choice=draw(st.none() | place),
        primary_distractor=draw(st.none() | place),
    )


@given(st.lists(predictions(), max_size=30))
def test_values_are_those_of_the_package(given: list[Prediction]) -> None:
    names = ("kind", "source", "target", "none_choice", "primary_distractor")
    records: list[dict[str, Any]] = [{name: getattr(p, name) for name in names} for p in given]
    marked = [marks(r, p.choice, p.status.value) for r, p in zip(records, given, strict=True)]
    own = {name: estimate.value for name, estimate in denial_accuracy(given).items()} | count_statuses(given)
    assert summarise(marked) == pytest.approx(own, abs=1e-12)
    assert AGGREGATIONS.keys() == own.keys()


def test_statuses_are_all_but_ok() -> None:
    assert {*STATUSES, "ok"} == {status.value for status in ParseStatus}
