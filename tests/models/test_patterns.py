"""Patterns over names: what they match, and what is said where they match nothing."""

import pytest

from actdeny_train.errors import ConfigError
from actdeny_train.models.patterns import select

NAMES = [
    "model.embed.weight",
    *(f"model.layers.{i}.{rest}" for i in range(12) for rest in ("attn.q.weight", "attn.q.bias", "norm.weight")),
    *(f"model.layers.0.experts.{i}.weight" for i in range(3)),
    "model.norm.weight",
]


def layers(pattern: str) -> list[int]:
    """Return the layers whose norm a pattern matches."""
    found = select([pattern], NAMES, "here", "parameter")
    return [int(name.split(".")[2]) for name in found if name.startswith("model.layers.") and "norm" in name]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("layers.-8:", range(12)[-8:]),
        ("layers.-1", [11]),
        ("layers.1", [1]),
        ("layers.:2", [0, 1]),
        ("layers.9:11", [9, 10]),
        ("layers.10:99", [10, 11]),
        ("layers.1?", [10, 11]),
        ("layers.*.norm", range(12)),
        ("layers", range(12)),
    ],
)
def test_layers_are_counted_as_python_does(pattern: str, expected: list[int]) -> None:
    assert layers(pattern) == list(expected)


def test_segments_stand_in_a_row_anywhere() -> None:
    def chosen(*patterns: str) -> list[str]:
        return select(patterns, NAMES, "here", "parameter")

    assert chosen("layers.-1:.attn") == ["model.layers.11.attn.q.weight", "model.layers.11.attn.q.bias"]
    assert chosen("norm") == [name for name in NAMES if ".norm." in name]
    assert chosen("model.norm") == ["model.norm.weight"]
    assert chosen("q.bias", "embed") == [name for name in NAMES if name.endswith("q.bias") or "embed" in name]
    assert chosen("experts.-1") == ["model.layers.0.experts.2.weight"], "each list has its own length"
    assert chosen("b*s") == [name for name in NAMES if name.endswith("bias")]


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("layer.-8:", " Did you mean 'layers'?"),
        ("layers.3.atn", " Did you mean 'attn'?"),
        ("layers.12", ""),
        ("layers.20:", ""),
        ("attn.layers", ""),
        ("", ""),
        ("layers.12.attn", ""),
    ],
)
def test_a_pattern_that_matches_nothing_is_an_error(pattern: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        select(["norm", pattern], NAMES, "tuning.only.llm", "parameter of llm")
    assert str(caught.value) == (
        f"tuning.only.llm: {pattern!r} matches no parameter of llm.{near} There are 41, such as model.embed.weight, "
        f"{NAMES[20]}, model.norm.weight. A pattern is one or more segments of a name in a row: globs, or layers as layers.3, layers.-1 "
        "(the last one) or layers.-8: (the last eight)."
    )
