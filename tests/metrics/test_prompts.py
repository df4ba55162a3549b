"""Prompts of one run against each other: the comparison of two runs that asked the same under one name."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from actdeny_train.metrics.comparison import compare
from actdeny_train.metrics.prompts import compare_prompts
from actdeny_train.types import Prediction

Predict = Callable[..., Prediction]


@pytest.fixture
def asked(predict: Predict) -> list[Prediction]:
    """Six clips of three sources under two prompts, in two setups, the second without denial clips under causalact."""
    found = []
    for i in range(6):
        kind = "presence" if i % 2 else "context_only"
        right = 0 if kind == "presence" else 3
        for prompt, skill in (("plain", 2), ("causalact", 4)):
            for setup in ("standard", "explicit_denial"):
                found.append(
                    predict(
                        kind,
                        right if i < skill else 1,
                        source=f"s{i // 2}",
                        prompt=prompt,
                        setup=setup,
                        clip_ids=(f"c|{i}",),
                        question_id=f"c|{i}|{setup}|{prompt}|0",
                        fingerprints={"question": f"{setup} {prompt}"},
                    )
                )
    return found


def test_it_is_the_comparison_of_two_runs(asked: list[Prediction]) -> None:
    (name, found), *more = compare_prompts(asked).items()
    assert name == "causalact" and not more
    sides = [
        [
            replace(p, question_id=f"{p.clip_ids} {p.setup}", prompt="x", fingerprints={})
            for p in asked
            if p.prompt == prompt
        ]
        for prompt in ("plain", "causalact")
    ]
    expected = compare(*sides)
    assert [(c.setup, c.prompt) for c in found.cells] == [("explicit_denial", "causalact"), ("standard", "causalact")]
    for ours, theirs in zip(found.cells, expected.cells, strict=True):
        assert (ours.changes, ours.mcnemar) == (theirs.changes, theirs.mcnemar)
        assert ours.num_questions == 6 and ours.num_left_out == 0
    assert found.cells[1].changes["ap"].difference.value == pytest.approx(1 / 3)


def test_questions_of_one_prompt_alone_are_counted(asked: list[Prediction]) -> None:
    fewer = [p for p in asked if p.prompt == "plain" or p.clip_ids != ("c|5",)]
    assert [(c.num_questions, c.num_left_out) for c in compare_prompts(fewer)["causalact"].cells] == [(5, 1), (5, 1)]


def test_nothing_to_compare(asked: list[Prediction]) -> None:
    assert compare_prompts([]) == compare_prompts([p for p in asked if p.prompt == "plain"]) == {}
    assert compare_prompts(asked, first="released") == {}
    apart = [p for p in asked if (p.prompt == "plain") == (p.setup == "standard")]
    assert compare_prompts(apart) == {}
    others = [replace(p, clip_ids=("d",), question_id=f"d{p.question_id}") if p.prompt == "plain" else p for p in asked]
    assert compare_prompts(others) == {}
