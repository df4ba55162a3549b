"""Two runs on the same questions: paired differences over resampled sources, exact McNemar tests, Holm's correction."""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

from actdeny_train.errors import DataError
from actdeny_train.metrics.bootstrap import LEVEL, NUM_DRAWS, ONE_SOURCE, draw_weights
from actdeny_train.metrics.counts import Counts, Rates, count_by_source
from actdeny_train.metrics.denial import POOLS, ROWS, denial_accuracy, denial_rates
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.metrics.summary import asks_for_denial
from actdeny_train.types import ClipKind, Prediction

METRICS = ("t1", "t2", "overall_ad", "ap", "hm")
"""What is compared, by the names of ``metrics.denial``."""
SIDES = ("denial", "presence")

CellName = tuple[str, str]
"""Setup and prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One metric in two runs. ``a`` and ``b`` have no interval; ``difference`` is b - a, in [-1, 1].

    ``p`` is the two-sided bootstrap p of no difference, but at least 2^(1 - m), m being the sources in which the runs differ: no exact
    test that swaps the runs within sources can give less, while resampling the few sources there are could. ``p_holm`` is the same
    after Holm's correction over all setups and prompts compared. Both are None where there is no interval.
    """

    a: Estimate
    b: Estimate
    difference: Estimate
    p: float | None = None
    p_holm: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """Exact test of paired answers to the n questions of one side: how many are right in one run alone.

    It takes questions as independent, which clips of one source are not: secondary to ``Change``. ``p`` is 1 where no question is
    right in one run alone; it and ``p_holm`` are None where the side has no questions.
    """

    n: int
    only_a: int
    only_b: int
    p: float | None
    p_holm: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """One setup and prompt in two runs: ``changes`` by name of ``METRICS``, ``mcnemar`` by name of ``SIDES``."""

    setup: str
    prompt: str
    num_questions: int
    num_left_out: int
    """Questions of either run that the other was not asked; above 0 only if the caller asked to compare shared ones."""
    changes: dict[str, Change]
    mcnemar: dict[str, McNemar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs, cell by cell. ``only_a`` and ``only_b`` are denial setups and prompts that one run alone has."""

    cells: tuple[CellComparison, ...]
    only_a: tuple[CellName, ...]
    only_b: tuple[CellName, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, estimates as ``Estimate.to_json`` gives them."""
        return {
            "cells": [
                {
                    **dataclasses.asdict(cell),
                    "changes": {
                        name: {
                            **{side: getattr(change, side).to_json() for side in ("a", "b", "difference")},
                            "p": change.p,
                            "p_holm": change.p_holm,
                        }
                        for name, change in cell.changes.items()
                    },
                }
                for cell in self.cells
            ],
            "only_a": [list(name) for name in self.only_a],
            "only_b": [list(name) for name in self.only_b],
        }


def compare(
    a: Sequence[Prediction],
    b: Sequence[Prediction],
    *,
    names: tuple[str, str] = ("a", "b"),
    only_shared: bool = False,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
) -> Comparison:
    """Compare run ``b`` with run ``a`` in each denial setup and prompt that both have.

    Sources are resampled with everything that belongs to them: both runs' answers, about denial and presence clips. Questions are the
    same if id, kind, source, target and fingerprint are. ``only_shared`` compares the questions that are the same and counts the
    others in ``num_left_out``; else others are an error. ``names`` stand in errors.

    Raises DataError if a question is answered twice in a run, if there is no common setup and prompt, or no common question, or if
    questions differ.
    """
    cells_a, cells_b = (_cells(run, name) for run, name in zip((a, b), names, strict=True))
    shared_cells = [name for name in cells_a if name in cells_b]
    if not shared_cells:
        raise DataError(
            f"Runs {names[0]!r} and {names[1]!r} have no denial setup / prompt in common. {names[0]}: {_list(cells_a)}; {names[1]}: "
            f"{_list(cells_b)}. Evaluate both with the same setups and prompts."
        )
    pairs = {name: _pair(cells_a[name], cells_b[name]) for name in shared_cells}
    _check_questions(pairs, names, only_shared)
    compared = tuple(
        _compare_cell(name, pairs[name], num_draws=num_draws, seed=seed) for name in shared_cells if pairs[name].a
    )
    return Comparison(
        cells=_correct(compared),
        only_a=tuple(name for name in cells_a if name not in cells_b),
        only_b=tuple(name for name in cells_b if name not in cells_a),
    )


def correct_holm(p: Sequence[float | None]) -> list[float | None]:
    """Return Holm's step-down corrected p values in the order given; None stays None and does not count as a test."""
    tested = sorted((value, i) for i, value in enumerate(p) if value is not None)
    corrected: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, i) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * value))
        corrected[i] = largest
    return corrected


@dataclass(frozen=True, slots=True)
class _Pair:
    """The answers of two runs to the same questions, in the same order, and how many questions are not the same."""

    a: list[Prediction]
    b: list[Prediction]
    num_only_a: int
    num_only_b: int
    num_changed: int


def _cells(run: Sequence[Prediction], name: str) -> dict[CellName, dict[str, Prediction]]:
    """Return the predictions of denial setups by setup and prompt, and by question."""
    listed: dict[CellName, list[Prediction]] = defaultdict(list)
    for prediction in run:
        listed[prediction.setup, prediction.prompt].append(prediction)
    cells = {}
    for cell, predictions in sorted(listed.items()):
        answers = {p.question_id: p for p in predictions}
        if len(answers) < len(predictions):
            ids = [p.question_id for p in predictions]
            repeated = next(i for i in ids if ids.count(i) > 1)
            raise DataError(
                f"Run {name!r} answers question {repeated!r} more than once. Remove all lines but one from its predictions."
            )
        if asks_for_denial(predictions):
            cells[cell] = answers
    return cells


def _pair(a: Mapping[str, Prediction], b: Mapping[str, Prediction]) -> _Pair:
    common = [i for i in a if i in b]
    same = [i for i in common if _question(a[i]) == _question(b[i])]
    return _Pair(
        a=[a[i] for i in same],
        b=[b[i] for i in same],
        num_only_a=len(a) - len(common),
        num_only_b=len(b) - len(common),
        num_changed=len(common) - len(same),
    )


def _question(p: Prediction) -> tuple[object, ...]:
    return p.kind, p.source, p.target, p.num_choices, p.none_choice, p.fingerprints.get("question")


def _check_questions(pairs: Mapping[CellName, _Pair], names: tuple[str, str], only_shared: bool) -> None:
    differing = {name: pair for name, pair in pairs.items() if _left_out(pair)}
    if not any(pair.a for pair in pairs.values()):
        advice = "There is nothing to compare: evaluate both on the same data, split and seed."
    elif differing and not only_shared:
        advice = (
            "Evaluate both on the same clips with the same questions (--freeze writes them to a file), or compare the shared questions "
            "alone with only_shared=True."
        )
    else:
        return
    told = "; ".join(
        f"{setup} / {prompt}: {len(pair.a):,} shared, {pair.num_only_a:,} only in {names[0]}, {pair.num_only_b:,} only in "
        f"{names[1]}, {pair.num_changed:,} with the same id but another wording, choices or target"
        for (setup, prompt), pair in differing.items()
    )
    raise DataError(f"Runs {names[0]!r} and {names[1]!r} were not asked the same questions ({told}). {advice}")


def _left_out(pair: _Pair) -> int:
    return pair.num_only_a + pair.num_only_b + pair.num_changed


def _list(cells: Mapping[CellName, object]) -> str:
    return ", ".join(f"{setup} / {prompt}" for setup, prompt in cells) or "none"


def _compare_cell(name: CellName, pair: _Pair, *, num_draws: int, seed: int) -> CellComparison:
    # Sources come in alphabetical order, and the questions are the same: row c of both is one source.
    counts_a, counts_b = (count_by_source(run, ROWS, lambda p: [(p.kind, p.is_right)]) for run in (pair.a, pair.b))
    values_a, values_b = denial_accuracy(pair.a), denial_accuracy(pair.b)
    left_out = _differences(counts_a.sum(axis=0) - counts_a, counts_b.sum(axis=0) - counts_b)
    weights = draw_weights(len(counts_a), num_draws, seed)
    drawn = _differences(_draw(counts_a, weights), _draw(counts_b, weights))
    changes = {}
    for metric in METRICS:
        before, after = values_a[metric], values_b[metric]
        if before.value is None or after.value is None:
            undefined = Estimate(None, None, None, before.n, before.reason or after.reason)
            changes[metric] = Change(a=before, b=after, difference=undefined)
        elif np.isnan(left_out[metric]).any():
            difference = Estimate(after.value - before.value, None, None, before.n, ONE_SOURCE)
            changes[metric] = Change(a=before, b=after, difference=difference)
        else:
            values = drawn[metric][~np.isnan(drawn[metric])]
            low, high = np.quantile(values, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
            difference = Estimate(after.value - before.value, float(low), float(high), before.n)
            least = 2.0 ** (1 - _count_differing(counts_a, counts_b, metric))
            p = min(1.0, max(least, _two_sided_p(values)))
            changes[metric] = Change(a=before, b=after, difference=difference, p=p)
    return CellComparison(
        setup=name[0],
        prompt=name[1],
        num_questions=len(pair.a),
        num_left_out=_left_out(pair),
        changes=changes,
        mcnemar={side: _mcnemar(pair, side) for side in SIDES},
    )


def _draw(counts: Counts, weights: Rates) -> Counts:
    """Return the summed counts (D, R, 2) of each draw."""
    # Floats hold these integers exactly, and multiply them far faster.
    return (
        (weights @ counts.reshape(len(counts), -1).astype(np.float64)).astype(np.int64).reshape(-1, *counts.shape[1:])
    )


def _differences(a: Counts, b: Counts) -> dict[str, Rates]:
    rates_a, rates_b = denial_rates(a), denial_rates(b)
    return {name: np.asarray(rates_b[name] - rates_a[name]) for name in METRICS}


def _count_differing(a: Counts, b: Counts, metric: str) -> int:
    """Return in how many sources the two runs have other hits in what the metric is made of."""
    parts = ("overall_ad", "ap") if metric == "hm" else (metric,)
    rows = [[ROWS.index(row) for row in POOLS[part]] for part in parts]
    gained = np.stack([(b - a)[:, r, 0].sum(axis=1) for r in rows])
    return int((gained != 0).any(axis=0).sum())


def _two_sided_p(differences: Rates) -> float:
    """Return twice the smaller tail beyond 0, at most 1. The observed data count as one more draw, so that p is never 0."""
    tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return min(1.0, 2 * (tail + 1) / (len(differences) + 1))


def _mcnemar(pair: _Pair, side: str) -> McNemar:
    answers = [
        (x.is_right, y.is_right)
        for x, y in zip(pair.a, pair.b, strict=True)
        if ClipKind(x.kind).is_denial == (side == "denial")
    ]
    only_a, only_b = answers.count((True, False)), answers.count((False, True))
    if not answers:
        return McNemar(n=0, only_a=0, only_b=0, p=None)
    p = float(scipy.stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    return McNemar(n=len(answers), only_a=only_a, only_b=only_b, p=p)


def _correct(cells: Sequence[CellComparison]) -> tuple[CellComparison, ...]:
    """Return the cells with ``p_holm`` filled in, over all cells within one metric or side."""
    changes: list[dict[str, Change]] = [{} for _ in cells]
    mcnemar: list[dict[str, McNemar]] = [{} for _ in cells]
    for metric in METRICS:
        found = [cell.changes[metric] for cell in cells]
        for i, p in enumerate(correct_holm([change.p for change in found])):
            changes[i][metric] = dataclasses.replace(found[i], p_holm=p)
    for side in SIDES:
        tests = [cell.mcnemar[side] for cell in cells]
        for i, p in enumerate(correct_holm([test.p for test in tests])):
            mcnemar[i][side] = dataclasses.replace(tests[i], p_holm=p)
    return tuple(dataclasses.replace(cell, changes=changes[i], mcnemar=mcnemar[i]) for i, cell in enumerate(cells))
