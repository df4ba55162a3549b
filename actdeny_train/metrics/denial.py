"""Denial metrics of one setup and prompt (paper 1, section 4): T1, T2, Overall-AD, AP, Overall, HM, and what went wrong."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torchmetrics

from actdeny_train.errors import DataError
from actdeny_train.metrics.bootstrap import NUM_DRAWS, add_intervals
from actdeny_train.metrics.counts import Counts, Rates, count_by_source, count_statuses, divide
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.questions.transfer import is_transfer
from actdeny_train.types import ClipKind, ParseStatus, Prediction

ROWS = (
    *(kind.value for kind in ClipKind),
    "false_denial",
    "hallucinated_action",
    "primary_distractor",
    "action_removed",
)
"""What is counted: right predictions of each kind of clip, three kinds of error, and presence clips asked without their action, which
count as denial and have no type."""

POOLS: dict[str, tuple[str, ...]] = {
    "t1": (ClipKind.CONTEXT_ONLY,),
    "t2": (ClipKind.DIFFERENT_MOTION,),
    "overall_ad": tuple(kind for kind in ClipKind if kind.is_denial),
    "ap": (ClipKind.PRESENCE,),
    "overall": tuple(ClipKind),
    "false_denial": ("false_denial",),
    "hallucinated_action": ("hallucinated_action",),
    "primary_distractor": ("primary_distractor",),
}
"""Rows whose counts are summed for each rate. Sums make Overall-AD the size-weighted mean of T1 and T2."""

STATUSES = tuple(status.value for status in ParseStatus if status is not ParseStatus.OK)
"""Ways in which a prediction has no choice."""


def denial_accuracy(predictions: Sequence[Prediction]) -> dict[str, Estimate]:
    """Return the denial metrics, without intervals.

    ``t1``, ``t2``, ``overall_ad``, ``ap``, ``overall``: share of right predictions on context-only, different-motion, all denial,
    presence and all clips. ``hm``: harmonic mean of ``overall_ad`` and ``ap``. ``false_denial``: share of the none choice on
    presence clips. ``hallucinated_action``: share of action choices on denial clips. ``primary_distractor``: share of the
    primary distractor among those. Predictions without a choice are not right and stay in n. Raises DataError on a
    prediction whose kind is no kind of clip.
    """
    return estimates_of_counts(count_by_source(predictions, ROWS, denial_marks).sum(axis=0))


def denial_estimates(
    predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> dict[str, Estimate]:
    """Return ``denial_accuracy`` with percentile 95 % intervals over resampled sources."""
    counts = count_by_source(predictions, ROWS, denial_marks)
    return add_intervals(estimates_of_counts(counts.sum(axis=0)), counts, denial_rates, num_draws=num_draws, seed=seed)


def denial_rates(counts: Counts) -> dict[str, Rates]:
    """Return the named metrics (...) of counts (..., R, 2) over ``ROWS``; NaN where undefined."""
    rates = {name: divide(_pool(counts, rows)) for name, rows in POOLS.items()}
    return {**rates, "hm": harmonic_mean(rates["overall_ad"], rates["ap"])}


def harmonic_mean(a: Rates, b: Rates) -> Rates:
    """Return 2ab / (a + b): 0 where either is 0, NaN where either is NaN (undefined)."""
    total = np.asarray(a + b)
    return np.divide(2 * a * b, total, out=total.copy(), where=total != 0)


def _pool(counts: Counts, rows: Sequence[str]) -> Counts:
    return counts[..., [ROWS.index(row) for row in rows], :].sum(axis=-2)


def clip_kind(prediction: Prediction) -> ClipKind:
    """Return the kind of the prediction's clip. Raises DataError on a question of another kind, such as one about the graph."""
    try:
        return ClipKind(prediction.kind)
    except ValueError:
        raise DataError(
            f"Prediction {prediction.question_id!r} of setup {prediction.setup!r} has kind {prediction.kind!r}, but denial metrics "
            f"need a kind of clip ({', '.join(ClipKind)}). Use metrics.accuracy for setups whose questions deny nothing."
        ) from None


def denial_marks(prediction: Prediction) -> Iterator[tuple[str, bool]]:
    """Give (row of ``ROWS``, hit) for each row in which a prediction is a trial. Raises DataError as ``clip_kind`` does."""
    kind = clip_kind(prediction)
    yield kind, prediction.is_right
    choice, none_choice, distractor = prediction.choice, prediction.none_choice, prediction.primary_distractor
    if not kind.is_denial:
        if none_choice is not None:
            yield "false_denial", choice == none_choice
        return
    if kind is ClipKind.DENIAL and is_transfer(prediction.setup):
        yield "action_removed", prediction.is_right
    hallucinated = prediction.status is ParseStatus.OK and not prediction.is_right
    yield "hallucinated_action", hallucinated
    if hallucinated and distractor is not None:
        yield "primary_distractor", choice == distractor


def estimates_of_counts(counts: Counts) -> dict[str, Estimate]:
    """Return the metrics of counts (R, 2) over ``ROWS`` with their n and reasons."""
    trials = {name: int(_pool(counts, rows)[1]) for name, rows in POOLS.items()}
    trials["hm"] = trials["overall"]
    removed = int(counts[ROWS.index("action_removed"), 1])
    reasons = _reasons(trials, int(counts[ROWS.index(ClipKind.DENIAL), 1]) - removed, removed)
    return {
        name: Estimate(None, None, None, trials[name], reasons[name])
        if np.isnan(rate)
        else Estimate(float(rate), None, None, trials[name])
        for name, rate in denial_rates(counts).items()
    }


def _reasons(trials: dict[str, int], unknown: int, removed: int) -> dict[str, str]:
    """Return for each metric why it would be undefined."""
    types = f"types not known for {unknown:,} denial clip{'s' if unknown > 1 else ''}" if unknown else ""
    if removed and not unknown:
        types = "no types: the action of presence clips was not offered"
    sides = {"overall_ad": "no denial clips", "ap": "no presence clips"}
    return {
        **sides,
        "t1": types or "no context-only clips",
        "t2": types or "no different-motion clips",
        "overall": "no clips",
        "hm": " and ".join(text for name, text in sides.items() if not trials[name]),
        "false_denial": "no presence clips with a none choice",
        "hallucinated_action": "no denial clips",
        "primary_distractor": "no hallucinated actions where a primary distractor was offered",
    }


class DenialAccuracy(torchmetrics.Metric):
    """Accumulate ``denial_accuracy`` over batches and processes.

    The state is integer counts, so neither the order of batches nor a process without clips changes a value.
    """

    full_state_update = False
    counts: torch.Tensor
    statuses: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("counts", torch.zeros(len(ROWS), 2, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("statuses", torch.zeros(len(STATUSES), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Prediction]) -> None:
        """Add the predictions of a batch. Raises DataError as ``denial_accuracy`` does."""
        counts = count_by_source(predictions, ROWS, denial_marks).sum(axis=0)
        statuses = count_statuses(predictions)
        self.counts += torch.from_numpy(counts).to(self.counts.device)
        self.statuses += torch.tensor([statuses[name] for name in STATUSES], device=self.statuses.device)

    def compute(self) -> dict[str, Any]:
        """Return the metrics of all predictions as ``Estimate.to_json`` gives them, and the number of each status but ok."""
        # Plain dicts, because torchmetrics walks through results and refuses frozen dataclasses.
        estimates = estimates_of_counts(self.counts.cpu().numpy())
        statuses = dict(zip(STATUSES, self.statuses.tolist(), strict=True))
        return {**{name: estimate.to_json() for name, estimate in estimates.items()}, **statuses}
