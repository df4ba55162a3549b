"""The figures that paper 1 prints, and what can be recomputed of them."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from actdeny_train.metrics.denial import harmonic_mean

NUM_DENIAL = 3549
NUM_PRESENCE = 675
"""Test clips of UCF101-AD (paper 1, section 3)."""

HALF_DIGIT = 0.0005
"""Largest error of a rate that was printed in percent with one decimal."""

OVERALL_NOTE = (
    "The published Overall is not the accuracy over the benchmark's {denial:,} denial and {presence:,} presence clips: pooled by these "
    "sizes, {differ} of {rows} rows miss the printed figure by more than its rounding. A presence share between {low:.4f} and {high:.4f} "
    "(the benchmark has {share:.4f}) explains all rows. HM, computed from Overall-AD and AP, gives the printed digit in {right} of {rows} "
    "rows; compare by HM, Overall-AD and AP."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """Zero-shot accuracies of one model on UCF101-AD: rates in [0, 1], each printed in percent with one decimal."""

    model: str
    t1: float
    t2: float
    overall_ad: float
    ap: float
    overall: float
    hm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallCheck:
    """Whether the printed Overall of the rows can be the mean over denial and presence clips.

    ``pooled`` has each model's Overall by the benchmark's sizes, ``differing`` the models whose printed figure is not that one even if
    each of the three figures was rounded. ``low`` and ``high`` bound the share of presence clips, in [0, 1], that gives every printed
    Overall up to rounding; both are None where no share does. ``benchmark_share`` is the share by size.
    """

    pooled: dict[str, float]
    differing: tuple[str, ...]
    low: float | None
    high: float | None
    benchmark_share: float


@functools.cache
def read_published() -> dict[str, Any]:
    """Return the content of ``published.yaml``, in percent as printed."""
    return yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))


def published_rows() -> tuple[PublishedRow, ...]:
    """Return the zero-shot rows in the order of the paper."""
    columns = ("t1", "t2", "overall_ad", "ap", "overall", "hm")
    return tuple(
        PublishedRow(model=model, **{name: x / 100 for name, x in zip(columns, printed, strict=True)})
        for model, printed in read_published()["zero_shot"].items()
    )


def recompute_hm(rows: Sequence[PublishedRow]) -> dict[str, float]:
    """Return each model's harmonic mean of the printed Overall-AD and AP."""
    return {row.model: float(harmonic_mean(np.array(row.overall_ad), np.array(row.ap))) for row in rows}


def check_overall(
    rows: Sequence[PublishedRow], *, num_denial: int = NUM_DENIAL, num_presence: int = NUM_PRESENCE
) -> OverallCheck:
    """Compare the printed Overall with the mean over ``num_denial`` and ``num_presence`` clips."""
    share = num_presence / (num_denial + num_presence)
    bounds = {row.model: _share_bounds(row) for row in rows}
    low, high = max(b[0] for b in bounds.values()), min(b[1] for b in bounds.values())
    return OverallCheck(
        pooled={row.model: row.overall_ad + share * (row.ap - row.overall_ad) for row in rows},
        differing=tuple(model for model, (least, most) in bounds.items() if not least <= share <= most),
        low=low if low <= high else None,
        high=high if low <= high else None,
        benchmark_share=share,
    )


def overall_note() -> str:
    """Return why the published Overall is not comparable, with the figures of ``check_overall``."""
    rows = published_rows()
    check, hm = check_overall(rows), recompute_hm(rows)
    assert check.low is not None and check.high is not None, "no share explains the published rows"
    return OVERALL_NOTE.format(
        denial=NUM_DENIAL,
        presence=NUM_PRESENCE,
        differ=len(check.differing),
        rows=len(rows),
        low=check.low,
        high=check.high,
        share=check.benchmark_share,
        right=sum(f"{100 * hm[row.model]:.1f}" == f"{100 * row.hm:.1f}" for row in rows),
    )


def _share_bounds(row: PublishedRow) -> tuple[float, float]:
    """Return the least and largest presence share s with overall = overall_ad + s (ap - overall_ad), each within its rounding."""
    shares = [
        (row.overall + o - row.overall_ad - d) / (row.ap + p - row.overall_ad - d)
        for o, d, p in itertools.product((-HALF_DIGIT, HALF_DIGIT), repeat=3)
    ]
    return min(shares), max(shares)
