"""Strict parsing: what remains of the results where only bare answers count."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.metrics.denial import denial_estimates
from actdeny_train.metrics.strict import NAMES, StrictDenial, strict_denial
from actdeny_train.types import ClipKind, ParseStatus, Prediction


def test_twelve_by_hand(twelve: list[Prediction]) -> None:
    """Responses 0 (a right none choice), 4 (another) and 7 (a right action) say more than the answer; the unparsed one, 3, does too."""
    told = [dataclasses.replace(p, text="...", bare=i not in (0, 3, 4, 7)) for i, p in enumerate(twelve)]
    found = strict_denial(told, num_draws=200)
    assert {name: (e.value, e.n) for name, e in found.items()} == {
        "bare": (8 / 12, 12),
        "t1": (0.0, 4),
        "t2": (1 / 3, 3),
        "overall_ad": (1 / 7, 7),
        "ap": (2 / 5, 5),
        "hm": (pytest.approx(2 * (1 / 7) * (2 / 5) / (1 / 7 + 2 / 5)), 12),
    }
    assert found["overall_ad"].low is not None


def test_what_has_no_response_is_left_out(twelve: list[Prediction]) -> None:
    found = strict_denial(twelve)
    assert {(e.value, e.n, e.reason) for e in found.values()} == {
        (None, 0, "no prediction has a response of which it is known whether it is an answer and nothing else")
    }
    half = [dataclasses.replace(p, bare=True) if i % 2 else p for i, p in enumerate(twelve)]
    assert strict_denial(half)["bare"].n == 6


ROWS = st.tuples(st.sampled_from(ClipKind), st.sampled_from([None, 0, 1, 3]), st.booleans(), st.sampled_from("abc"))


@given(rows=st.lists(ROWS, min_size=1, max_size=20))
def test_strict_is_lenient_with_other_responses_unread(
    predict: Callable[..., Prediction], rows: list[tuple[ClipKind, int | None, bool, str]]
) -> None:
    told = [predict(kind, choice, source=source, bare=bare) for kind, choice, bare, source in rows]
    unread = [p if p.bare else dataclasses.replace(p, choice=None, status=ParseStatus.UNPARSED) for p in told]
    strict, lenient = strict_denial(told, num_draws=50), denial_estimates(unread, num_draws=50)
    assert all(strict[name] == lenient[name] for name in NAMES if name != "bare")
    metric = StrictDenial()
    for prediction in told:
        metric.update([prediction])
    assert {k: (v["value"], v["n"]) for k, v in metric.compute().items()} == {
        k: (v.value, v.n) for k, v in strict.items()
    }
