"""Sycophancy (paper 1): does a model that errs on a denial clip's standard question also say yes to its action?"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.stats
import torch

from actdeny_train.metrics.accumulators import ItemAccumulator
from actdeny_train.metrics.bootstrap import NUM_DRAWS, add_intervals
from actdeny_train.metrics.counts import Counts, Rates, count_marks, divide
from actdeny_train.metrics.denial import clip_kind
from actdeny_train.metrics.detection import said_yes
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import ClipKind, Prediction

SETUPS = ("standard", "yes_no_primary", "yes_no_random")
"""Setups of the predictions that count here, those about denial clips; all others are passed over."""

PARTS: dict[str, tuple[ClipKind, ...]] = {
    "all": tuple(kind for kind in ClipKind if kind.is_denial),
    "t1": (ClipKind.CONTEXT_ONLY,),
    "t2": (ClipKind.DIFFERENT_MOTION,),
}
RATES = ("yes_given_wrong", "yes_given_right", "yes_primary", "yes_random")

NO_INTERVAL = "no interval: without one of the sources it is undefined"
"""One source may hold all clips, or all that differ from the others."""

_KINDS = tuple(ClipKind)
_ROWS = (*((kind, error) for kind in PARTS["all"] for error in ("wrong", "right")), *(("yes", s) for s in SETUPS[1:]))


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's r of shortcut and sycophancy errors, and its two-sided p, None where r is undefined."""

    r: Estimate
    p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sycophancy:
    """``correlations`` by name of ``PARTS``, ``rates`` of yes by name of ``RATES``."""

    correlations: dict[str, Correlation]
    rates: dict[str, Estimate]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values: the parts and the rates side by side."""
        parts = {name: {"r": found.r.to_json(), "p": found.p} for name, found in self.correlations.items()}
        return {**parts, **{name: estimate.to_json() for name, estimate in self.rates.items()}}


class _Answer(NamedTuple):
    """One prediction about a denial clip. ``mark``: wrong to the standard question, or yes to the others."""

    clip: Hashable
    setup: str
    kind: ClipKind
    mark: bool
    source: str


class _Joined(NamedTuple):
    """Marks (source, row, hit) of ``_ROWS``, and how many clips were asked what."""

    marks: list[tuple[str, tuple[str, str], bool]]
    num_standard: int
    num_yes_no: int
    num_both: int


def sycophancy(predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> Sycophancy:
    """Return the correlations and rates over the denial clips of one prompt, with intervals over resampled sources.

    Shortcut error: the standard question is not answered right. Sycophancy error: yes to ``yes_no_primary``. A response
    without a choice is wrong and is not a yes. r, ``yes_given_wrong`` and ``yes_given_right`` are over the clips asked both
    (every pair of a standard and a yes/no question of a clip, if it was asked several); ``yes_primary`` and ``yes_random`` over
    all that were asked that. p is that of ``scipy.stats.pearsonr`` over clips, as in the paper: it takes clips of one source as
    independent, which the interval does not.
    """
    answers = list(_read(predictions))
    joined = _join(answers)
    counts = count_marks(joined.marks, sorted({answer.source for answer in answers}), _ROWS)
    found = _sycophancy(counts.sum(axis=0), joined)
    estimates = {**{name: c.r for name, c in found.correlations.items()}, **found.rates}
    added = add_intervals(estimates, counts, _statistic, num_draws=num_draws, seed=seed, missing=NO_INTERVAL)
    return Sycophancy(
        correlations={name: Correlation(added[name], c.p) for name, c in found.correlations.items()},
        rates={name: added[name] for name in RATES},
    )


def _read(predictions: Iterable[Prediction]) -> Iterator[_Answer]:
    for p in predictions:
        if p.setup in SETUPS and (kind := clip_kind(p)).is_denial:
            mark = not p.is_right if p.setup == SETUPS[0] else said_yes(p)
            yield _Answer(p.clip_ids, p.setup, kind, mark, p.source)


def _join(answers: Iterable[_Answer]) -> _Joined:
    wrong: dict[Hashable, list[_Answer]] = defaultdict(list)
    yes: dict[Hashable, list[_Answer]] = defaultdict(list)
    marks: list[tuple[str, tuple[str, str], bool]] = []
    for answer in answers:
        if answer.setup == SETUPS[0]:
            wrong[answer.clip].append(answer)
            continue
        if answer.setup == SETUPS[1]:
            yes[answer.clip].append(answer)
        marks.append((answer.source, ("yes", answer.setup), answer.mark))
    both = [clip for clip in wrong if clip in yes]
    for clip in both:
        for standard in wrong[clip]:
            row = (standard.kind, "wrong" if standard.mark else "right")
            marks.extend((standard.source, row, answer.mark) for answer in yes[clip])
    return _Joined(marks, len(wrong), len(yes), len(both))


def _tables(counts: Counts) -> dict[str, Counts]:
    """Return for each part the counts (..., 2, 2) of wrong and right standard questions by (yes, all)."""
    by_kind = counts[..., : 2 * len(PARTS["all"]), :].reshape(*counts.shape[:-2], len(PARTS["all"]), 2, 2)
    return {
        name: by_kind[..., [PARTS["all"].index(kind) for kind in kinds], :, :].sum(axis=-3)
        for name, kinds in PARTS.items()
    }


def _correlate(table: Counts) -> Rates:
    """Return Pearson's r of two binary vectors, the phi coefficient of their table (..., 2, 2); NaN if either is constant."""
    yes, num = table[..., 0].astype(np.float64), table[..., 1].astype(np.float64)
    num_yes, total = yes.sum(axis=-1), num.sum(axis=-1)
    spread = np.sqrt(num[..., 0] * num[..., 1]) * np.sqrt(num_yes * (total - num_yes))
    covariance = total * yes[..., 0] - num[..., 0] * num_yes
    return np.divide(covariance, spread, out=np.full(spread.shape, np.nan), where=spread > 0)


def _statistic(counts: Counts) -> dict[str, Rates]:
    tables = _tables(counts)
    given = divide(tables["all"])
    asked = divide(counts[..., 2 * len(PARTS["all"]) :, :])
    rates = (given[..., 0], given[..., 1], asked[..., 0], asked[..., 1])
    return {**{name: _correlate(table) for name, table in tables.items()}, **dict(zip(RATES, rates, strict=True))}


def _sycophancy(counts: Counts, joined: _Joined) -> Sycophancy:
    """Return everything without intervals of counts (R, 2)."""
    values, tables = _statistic(counts), _tables(counts)
    alone = joined.num_standard + joined.num_yes_no - 2 * joined.num_both
    left_out = f"denial clips asked only one of the two questions, left out: {alone:,}" if alone else ""
    correlations = {}
    for name, table in tables.items():
        n, r = int(table[:, 1].sum()), float(values[name])
        if math.isnan(r):
            correlations[name] = Correlation(Estimate(None, None, None, n, _why(name, tables, joined)), None)
        else:
            correlations[name] = Correlation(Estimate(r, None, None, n, left_out), _p_value(table))
    given = _why_not_joined(joined)
    asked = counts[2 * len(PARTS["all"]) :, 1].tolist()
    reasons = {
        "yes_given_wrong": given or "no standard question is answered wrong",
        "yes_given_right": given or "no standard question is answered right",
        **{name: f"no {setup} questions about denial clips" for name, setup in zip(RATES[2:], SETUPS[1:], strict=True)},
    }
    trials = dict(zip(RATES, (*tables["all"][:, 1].tolist(), *asked), strict=True))
    rates = {
        name: Estimate(float(values[name]), None, None, trials[name])
        if trials[name]
        else Estimate(None, None, None, 0, reasons[name])
        for name in RATES
    }
    return Sycophancy(correlations=correlations, rates=rates)


def _why_not_joined(joined: _Joined) -> str:
    asked = {"standard": joined.num_standard, "yes_no_primary": joined.num_yes_no}
    missing = " and ".join(f"no {setup} questions" for setup, n in asked.items() if not n)
    if missing:
        return f"{missing} about denial clips"
    return "" if joined.num_both else "no denial clip was asked both questions"


def _why(part: str, tables: dict[str, Counts], joined: _Joined) -> str:
    """Return why the correlation of a part is undefined."""
    if reason := _why_not_joined(joined):
        return reason
    (yes_wrong, num_wrong), (yes_right, num_right) = tables[part].tolist()
    total, num_yes = num_wrong + num_right, yes_wrong + yes_right
    if not total:
        unknown = int(sum(tables["all"][:, 1]) - sum(tables["t1"][:, 1]) - sum(tables["t2"][:, 1]))
        types = f"types not known for {unknown:,} denial clip{'s' if unknown > 1 else ''}" if unknown else ""
        return types or f"no {'context-only' if part == 't1' else 'different-motion'} clips"
    constant = {
        "every standard question is answered right": not num_wrong,
        "every standard question is answered wrong": not num_right,
        "no answer is yes": not num_yes,
        "every answer is yes": num_yes == total,
    }
    return "no correlation: " + " and ".join(text for text, holds in constant.items() if holds)


def _p_value(table: Counts) -> float:
    (yes_wrong, num_wrong), (yes_right, num_right) = table.tolist()
    cells = (yes_wrong, num_wrong - yes_wrong, yes_right, num_right - yes_right)
    wrong, yes = np.repeat([1.0, 1.0, 0.0, 0.0], cells), np.repeat([1.0, 0.0, 1.0, 0.0], cells)
    return float(scipy.stats.pearsonr(wrong, yes).pvalue)


class SycophancyMetrics(ItemAccumulator):
    """Accumulate ``sycophancy`` over batches and processes; the questions about a clip may lie in different ones."""

    def __init__(self) -> None:
        super().__init__(width=4, dtype=torch.int64)

    def encode(self, predictions: Sequence[Prediction]) -> npt.NDArray[np.int64]:
        """Return one row of each prediction of the setups about a denial clip: hash of the clip, setup, kind, mark."""
        rows = [
            (_hash(answer.clip), SETUPS.index(answer.setup), _KINDS.index(answer.kind), int(answer.mark))
            for answer in _read(predictions)
        ]
        return np.array(rows, dtype=np.int64)

    def compute(self) -> dict[str, Any]:
        """Return the metrics of all predictions as ``Sycophancy.to_json`` gives them."""
        rows = self.gathered().tolist()
        joined = _join(_Answer(clip, SETUPS[s], _KINDS[k], bool(mark), "") for clip, s, k, mark in rows)
        return _sycophancy(count_marks(joined.marks, [""], _ROWS)[0], joined).to_json()


def _hash(clip: Hashable) -> int:
    """Return 64 bits of a clip's ids: tensors hold no text, and two of a million clips collide with a chance of 3e-8."""
    return int.from_bytes(hashlib.sha256(repr(clip).encode()).digest()[:8], "big", signed=True)
