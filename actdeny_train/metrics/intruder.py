"""Find the intruder (paper 2): accuracy, by verb pattern and by the intruder's place, and which places are chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from actdeny_train.metrics.accuracy import accuracy, accuracy_by
from actdeny_train.metrics.agreement import agreement
from actdeny_train.metrics.bootstrap import LEVEL, NUM_DRAWS, add_intervals
from actdeny_train.metrics.counts import Counts, Rates, count_marks, divide, sources_of
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.metrics.positions import Position, positions
from actdeny_train.types import Prediction

SETUP = "intruder"
"""Setup of the predictions that this module is about."""

CHANCE = 0.25
PATTERNS = ("4", "3_1", "2_2", "2_1_1", "1_1_1_1")
"""How the verbs of four captions can coincide."""

PUBLISHED = {"Minerva-7B": 0.27, "ANITA-8B": 0.43, "Llama-3.1-8B": 0.43, "Llama-3.1-70B": 0.58}
"""Accuracies of CALAMITA's harness: text alone, the answer with the highest log-likelihood."""


@dataclass(frozen=True)
class IntruderResults:
    """``accuracy`` with the interval over resampled tuples, ``exact`` with Clopper and Pearson's over the answers.

    ``by_pattern`` has the accuracy by verb pattern of the tuple, those that occur. ``positions`` are the four places of the list.
    """

    accuracy: Estimate
    exact: Estimate
    by_pattern: dict[str, Estimate]
    positions: tuple[Position, ...]
    agreement: dict[str, Estimate]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, estimates as ``Estimate.to_json`` gives them."""
        return {
            "accuracy": self.accuracy.to_json(),
            "accuracy_exact": self.exact.to_json(),
            "by_pattern": {name: estimate.to_json() for name, estimate in self.by_pattern.items()},
            **{name: estimate.to_json() for name, estimate in self.agreement.items()},
            "positions": [place.to_json() for place in self.positions],
        }


def intruder(predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> IntruderResults:
    """Return the results of one prompt. The source of a prediction is its tuple, so whole tuples are resampled.

    Tuples of MACID share captions (each is in up to three), which makes them less independent than intervals assume.
    """
    patterns = accuracy_by(predictions, lambda p: p.kind, num_draws=num_draws, seed=seed)
    return IntruderResults(
        accuracy=accuracy(predictions, num_draws=num_draws, seed=seed),
        exact=exact_accuracy(predictions),
        by_pattern={name: patterns[name] for name in sorted(patterns, key=_order)},
        positions=tuple(positions(predictions, num_draws=num_draws, seed=seed)),
        agreement=agreement(predictions, num_draws=num_draws, seed=seed),
    )


def exact_accuracy(predictions: Sequence[Prediction]) -> Estimate:
    """Return the accuracy with Clopper and Pearson's interval, which also holds where nothing, or everything, is right.

    It takes answers as independent, so there is none where a tuple was asked about more than once.
    """
    n, right = len(predictions), sum(p.is_right for p in predictions)
    if not n:
        return Estimate(None, None, None, 0, "no questions")
    if len({p.source for p in predictions}) < n:
        return Estimate(right / n, None, None, n, "no exact interval: tuples were asked about more than once")
    interval = stats.binomtest(right, n).proportion_ci(LEVEL, method="exact")
    return Estimate(right / n, float(interval.low), float(interval.high), n)


@dataclass(frozen=True)
class PairedAccuracy:
    """Two runs on the same questions: accuracies without intervals, and their ``difference``, b - a, over resampled tuples.

    ``only_a`` and ``only_b`` count the questions that one run alone has right; ``p`` is the exact McNemar test's, which takes questions
    as independent: 1 where there is no such question.
    """

    a: Estimate
    b: Estimate
    difference: Estimate
    only_a: int
    only_b: int
    p: float


def compare_intruder(
    a: Sequence[Prediction], b: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> PairedAccuracy | None:
    """Return how two runs compare on the questions that both were asked in the same words, None if there are none."""
    others = {p.question_id: p for p in b}
    pairs = [(p, others[p.question_id]) for p in a if p.question_id in others]
    pairs = [(p, q) for p, q in pairs if p.fingerprints.get("question") == q.fingerprints.get("question")]
    if not pairs:
        return None
    marks = [(p.source, run, one.is_right) for p, q in pairs for run, one in (("a", p), ("b", q))]
    counts = count_marks(marks, sources_of(p for p, _ in pairs), ("a", "b"))

    def rates(counts: Counts) -> dict[str, Rates]:
        by_run = divide(counts)
        return {"difference": by_run[..., 1] - by_run[..., 0]}

    n = len(pairs)
    right_a, right_b = counts.sum(axis=0)[:, 0].tolist()
    estimate = Estimate((right_b - right_a) / n, None, None, n)
    added = add_intervals({"difference": estimate}, counts, rates, num_draws=num_draws, seed=seed)
    only_a = sum(p.is_right and not q.is_right for p, q in pairs)
    only_b = sum(q.is_right and not p.is_right for p, q in pairs)
    return PairedAccuracy(
        a=Estimate(right_a / n, None, None, n),
        b=Estimate(right_b / n, None, None, n),
        difference=added["difference"],
        only_a=only_a,
        only_b=only_b,
        p=float(stats.binomtest(only_b, only_a + only_b).pvalue) if only_a + only_b else 1.0,
    )


def _order(pattern: str) -> tuple[int, str]:
    return PATTERNS.index(pattern) if pattern in PATTERNS else len(PATTERNS), pattern
