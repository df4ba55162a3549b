"""Does the probability of the none choice, p(none), tell denial from presence, and does a model know when it errs?"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from actdeny_train.metrics.accumulators import ItemAccumulator, sort_rows
from actdeny_train.metrics.areas import NUM_BINS, aurc, auroc, bin_sums, calibration_error, risk_at
from actdeny_train.metrics.bootstrap import NUM_DRAWS, weight_bootstrap, with_intervals
from actdeny_train.metrics.counts import Counts, Rates, sources_of
from actdeny_train.metrics.denial import clip_kind
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import ParseStatus, Prediction

SIDES = ("denial", "presence")
COVERAGES = np.arange(1, 101) / 100
"""Where the risk is told."""

_COLUMNS = ("presence", "none_is_right", "p_none", "confidence", "right")
_SCORED, _UNSCORED, _NO_NONE = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Items whose p(none) lies in [low, high): their number, mean p(none), and the share in which the none choice is right."""

    low: float
    high: float
    n: int
    mean_p: float
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstention:
    """How p(none) and confidence go with what is right.

    ``auroc_none``: chance that p(none) is higher on a denial clip than on a presence clip. ``aurc``: area under risk over
    coverage, as ``metrics.areas.aurc`` defines it; confidence is the probability of the choice, 0 for a response without one,
    and risk the error rate. ``ece_denial``, ``ece_presence``: calibration error of p(none) as the probability that the none
    choice is right, in 15 bins; on a side where it is always right or never, that is the mean distance of p(none) to 1 or 0.
    ``risk_coverage``: (coverage, risk) at each percent. ``reliability``: the bins, those with items, by side.
    """

    auroc_none: Estimate
    aurc: Estimate
    ece_denial: Estimate
    ece_presence: Estimate
    risk_coverage: tuple[tuple[float, float], ...]
    reliability: dict[str, tuple[Bin, ...]]

    def estimates(self) -> dict[str, Estimate]:
        """Return the estimates by name."""
        return {name: getattr(self, name) for name in ("auroc_none", "aurc", "ece_denial", "ece_presence")}

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            **{name: estimate.to_json() for name, estimate in self.estimates().items()},
            "risk_coverage": [list(point) for point in self.risk_coverage],
            "reliability": {side: [dataclasses.asdict(b) for b in bins] for side, bins in self.reliability.items()},
        }


def abstention(predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> Abstention:
    """Return the metrics of the predictions with a none choice and log-probabilities; intervals over resampled sources.

    Where predictions with a none choice have no log-probabilities, the reason says how many. Raises DataError on a prediction
    whose kind is no kind of clip.
    """
    places = {source: c for c, source in enumerate(sources_of(predictions))}
    scored = [p for p in predictions if _is_scored(p)]
    rows = sort_rows(np.array([(*_item(p), places[p.source]) for p in scored]).reshape(-1, 1 + len(_COLUMNS)))
    items, clusters = rows[:, :-1], rows[:, -1].astype(np.int64)
    found = _abstention(items, _count(predictions))
    if not scored:
        return found

    def statistic(weights: Rates) -> Mapping[str, Rates]:
        return _statistic(items, clusters, weights)

    added = with_intervals(found.estimates(), weight_bootstrap(len(places), statistic, num_draws=num_draws, seed=seed))
    return Abstention(**added, risk_coverage=found.risk_coverage, reliability=found.reliability)


def choice_probabilities(prediction: Prediction) -> list[float]:
    """Return the probability of each choice: the softmax of its log-probabilities, in [0, 1].

    The sum is exact, so it does not depend on the order of choices.
    """
    highest = max(prediction.logprobs)
    weights = [math.exp(x - highest) for x in prediction.logprobs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _is_scored(prediction: Prediction) -> bool:
    return prediction.none_choice is not None and bool(prediction.logprobs)


def _item(prediction: Prediction) -> tuple[float, ...]:
    """Return the row (columns,) of a prediction with a none choice and log-probabilities."""
    assert prediction.none_choice is not None
    p = choice_probabilities(prediction)
    chosen = prediction.choice if prediction.status is ParseStatus.OK else None
    return (
        float(not clip_kind(prediction).is_denial),
        float(prediction.target == prediction.none_choice),
        p[prediction.none_choice],
        0.0 if chosen is None else p[chosen],
        float(prediction.is_right),
    )


def _count(predictions: Sequence[Prediction]) -> Counts:
    """Return (sides, 3): predictions that are scored, that have no log-probabilities, that have no none choice."""
    counts = np.zeros((len(SIDES), 3), dtype=np.int64)
    for p in predictions:
        column = _NO_NONE if p.none_choice is None else _SCORED if p.logprobs else _UNSCORED
        counts[0 if clip_kind(p).is_denial else 1, column] += 1
    return counts


def _statistic(items: Rates, clusters: npt.NDArray[np.int64], weights: Rates) -> dict[str, Rates]:
    presence, none_is_right, p_none, confidence, right = items.T
    of_presence, is_right = presence > 0, right > 0
    errors = {}
    for side, inside in zip(SIDES, (~of_presence, of_presence), strict=True):
        sums = bin_sums(p_none[inside], none_is_right[inside] > 0, clusters[inside], weights.shape[1])
        drawn = weights @ sums.reshape(weights.shape[1], -1)
        errors[f"ece_{side}"] = calibration_error(drawn.reshape(len(weights), NUM_BINS, 3))
    return {
        "auroc_none": auroc(p_none, ~of_presence, clusters, weights),
        "aurc": aurc(confidence, is_right, clusters, weights),
        **errors,
    }


def _abstention(items: Rates, counts: Counts) -> Abstention:
    """Return the metrics without intervals of items (N, columns), sorted, and the counts of ``_count``."""
    everything = np.zeros(len(items), dtype=np.int64)
    values = _statistic(items, everything, np.ones((1, 1))) if len(items) else {}
    sides = {"auroc_none": (0, 1), "aurc": (0, 1), "ece_denial": (0,), "ece_presence": (1,)}
    estimates = {}
    for name, used in sides.items():
        n = int(counts[list(used), _SCORED].sum())
        value = float(values[name][0]) if name in values else math.nan
        if math.isnan(value):
            estimates[name] = Estimate(None, None, None, n, _why(counts, used))
        else:
            estimates[name] = Estimate(value, None, None, n, _left_out(counts, used))
    return Abstention(
        **estimates,
        risk_coverage=_risk_coverage(items),
        reliability={side: _bins(items[items[:, 0] == s]) for s, side in enumerate(SIDES)},
    )


def _why(counts: Counts, sides: Sequence[int]) -> str:
    """Return why a value over these sides is undefined."""
    if not counts[:, : _UNSCORED + 1].any():
        return "no none choice" if counts.any() else "no clips"
    reasons = []
    for s in sides:
        scored, unscored, no_none = counts[s].tolist()
        if not scored:
            reason = f"no {SIDES[s]} clips" if not unscored + no_none else f"no none choice on {SIDES[s]} clips"
            reasons.append(
                f"no log-probabilities of {unscored:,} predictions on {SIDES[s]} clips" if unscored else reason
            )
    return " and ".join(reasons)


def _left_out(counts: Counts, sides: Sequence[int]) -> str:
    scored, unscored, _ = counts[list(sides)].sum(axis=0).tolist()
    return f"{unscored:,} of {scored + unscored:,} predictions have no log-probabilities" if unscored else ""


def _risk_coverage(items: Rates) -> tuple[tuple[float, float], ...]:
    if not len(items):
        return ()
    risks = risk_at(items[:, 3], items[:, 4] > 0, COVERAGES)
    return tuple(zip(COVERAGES.tolist(), risks.tolist(), strict=True))


def _bins(items: Rates) -> tuple[Bin, ...]:
    sums = bin_sums(items[:, 2], items[:, 1] > 0, np.zeros(len(items), dtype=np.int64), 1)[0]
    return tuple(
        Bin(low=b / NUM_BINS, high=(b + 1) / NUM_BINS, n=int(n), mean_p=p / n, rate=true / n)
        for b, (n, p, true) in enumerate(sums.tolist())
        if n
    )


class AbstentionMetrics(ItemAccumulator):
    """Accumulate ``abstention`` over batches and processes."""

    counts: torch.Tensor

    def __init__(self) -> None:
        super().__init__(width=len(_COLUMNS))
        self.add_state("counts", torch.zeros(len(SIDES), 3, dtype=torch.int64), dist_reduce_fx="sum")

    def encode(self, predictions: Sequence[Prediction]) -> npt.NDArray[np.float64]:
        """Return one row of each prediction with a none choice and log-probabilities."""
        return np.array([_item(p) for p in predictions if _is_scored(p)])

    def update(self, predictions: Sequence[Prediction]) -> None:
        """Add the predictions of a batch. Raises DataError as ``abstention`` does."""
        super().update(predictions)
        self.counts += torch.from_numpy(_count(predictions)).to(self.counts.device)

    def compute(self) -> dict[str, Any]:
        """Return the metrics of all predictions as ``Abstention.to_json`` gives them."""
        return _abstention(self.gathered(), self.counts.cpu().numpy()).to_json()
