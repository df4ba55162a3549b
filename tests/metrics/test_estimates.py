"""Estimates: what they refuse and their JSON."""

import json

import pytest

from actdeny_train.metrics.estimates import Estimate


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.5, 0.25, 0.75, 8), '{"value": 0.5, "low": 0.25, "high": 0.75, "n": 8}'),
        (
            Estimate(None, None, None, 0, "no presence clips"),
            '{"value": null, "low": null, "high": null, "n": 0, "reason": "no presence clips"}',
        ),
    ],
)
def test_json_and_back(estimate: Estimate, text: str) -> None:
    assert json.dumps(estimate.to_json(), allow_nan=False) == text
    assert Estimate.from_json(json.loads(text)) == estimate


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((None, None, None, 0), "an undefined value needs a reason"),
        ((None, 0.1, 0.2, 3, "why"), "an interval without a value"),
        ((0.5, 0.1, None, 3), "half an interval"),
        ((float("nan"), None, None, 3), "not finite"),
    ],
)
def test_contradictions_are_refused(values: tuple, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        Estimate(*values)
