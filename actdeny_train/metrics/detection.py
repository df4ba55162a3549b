"""Signal detection in yes/no questions about the clip's action: telling presence from denial apart from the readiness to say yes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from actdeny_train.metrics.accumulators import ItemAccumulator, sort_rows
from actdeny_train.metrics.areas import auroc
from actdeny_train.metrics.bootstrap import NUM_DRAWS, weight_bootstrap, with_intervals
from actdeny_train.metrics.counts import Rates, ratio, sources_of
from actdeny_train.metrics.denial import clip_kind
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.questions.yes_no import NO, YES
from actdeny_train.types import ParseStatus, Prediction

SETUP = "yes_no_primary"
"""Setup of the predictions that count here; all others are passed over."""

METRICS = ("hit_rate", "false_alarm_rate", "d_prime", "criterion", "auroc")
_COLUMNS = ("presence", "yes", "scored", "log_odds")


def detection(predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> dict[str, Estimate]:
    """Return the metrics of one prompt's yes/no questions, with intervals over resampled sources.

    ``hit_rate`` H: share of yes on presence clips. ``false_alarm_rate`` F: share of yes on denial clips. A response that is
    neither yes nor no counts as not yes. ``d_prime``: z(H) - z(F), 0 where presence and denial are not told apart.
    ``criterion``: -(z(H) + z(F)) / 2, below 0 for a bias to yes. Both take H and F with the log-linear correction, (yes + 0.5) /
    (n + 1) (Hautus 1995), so they are finite, and depend on n. ``auroc``: chance that log P(yes) - log P(no) is higher on a
    presence clip than on a denial clip, over the predictions with log-probabilities. Raises DataError on a prediction whose
    kind is no kind of clip.
    """
    asked = [p for p in predictions if p.setup == SETUP]
    places = {source: c for c, source in enumerate(sources_of(asked))}
    rows = sort_rows(np.array([(*_item(p), places[p.source]) for p in asked]).reshape(-1, 1 + len(_COLUMNS)))
    items, clusters = rows[:, :-1], rows[:, -1].astype(np.int64)
    estimates = _estimates(items)
    if not asked:
        return estimates

    def statistic(weights: Rates) -> Mapping[str, Rates]:
        return _statistic(items, clusters, weights)

    return with_intervals(estimates, weight_bootstrap(len(places), statistic, num_draws=num_draws, seed=seed))


def _item(prediction: Prediction) -> tuple[float, ...]:
    presence = not clip_kind(prediction).is_denial
    log_odds = prediction.logprobs[YES] - prediction.logprobs[NO] if prediction.logprobs else 0.0
    return float(presence), float(said_yes(prediction)), float(bool(prediction.logprobs)), log_odds


def said_yes(prediction: Prediction) -> bool:
    """Return True if the response to a yes/no question was parsed and is yes."""
    return prediction.status is ParseStatus.OK and prediction.choice == YES


def _statistic(items: Rates, clusters: npt.NDArray[np.int64], weights: Rates) -> dict[str, Rates]:
    presence, yes, scored, log_odds = items.T
    sums = np.zeros((weights.shape[1], 4))
    for column, inside in enumerate((presence * yes, presence, (1 - presence) * yes, 1 - presence)):
        sums[:, column] = np.bincount(clusters, weights=inside, minlength=weights.shape[1])
    hits, num_presence, alarms, num_denial = (weights @ sums).T
    z_hits = _corrected_z(hits, num_presence)
    z_alarms = _corrected_z(alarms, num_denial)
    with_scores = scored > 0
    area = np.full(len(weights), np.nan)
    if with_scores.any():
        area = auroc(log_odds[with_scores], presence[with_scores] > 0, clusters[with_scores], weights)
    return {
        "hit_rate": ratio(hits, num_presence),
        "false_alarm_rate": ratio(alarms, num_denial),
        "d_prime": z_hits - z_alarms,
        "criterion": -(z_hits + z_alarms) / 2,
        "auroc": area,
    }


def _corrected_z(hits: Rates, trials: Rates) -> Rates:
    return np.where(trials > 0, ndtri((hits + 0.5) / (trials + 1)), np.nan)


def _estimates(items: Rates) -> dict[str, Estimate]:
    """Return the metrics without intervals of items (N, columns)."""
    presence, _, scored, _ = items.T
    num_presence, num_denial = int(presence.sum()), int((1 - presence).sum())
    scored_presence, scored_denial = int((presence * scored).sum()), int(((1 - presence) * scored).sum())
    trials = {"hit_rate": num_presence, "false_alarm_rate": num_denial, "auroc": scored_presence + scored_denial}
    missing = {"denial": num_denial, "presence": num_presence}
    absent = " and ".join(f"no {side} clips" for side, n in missing.items() if not n)
    num_unscored = len(items) - trials["auroc"]
    unscored = f"{num_unscored:,} of {len(items):,} predictions have no log-probabilities" if num_unscored else ""
    reasons = {"hit_rate": "no presence clips", "false_alarm_rate": "no denial clips", "auroc": absent or unscored}
    values = _statistic(items, np.zeros(len(items), dtype=np.int64), np.ones((1, 1)))
    found = {}
    for name in METRICS:
        value, n = float(values[name][0]), trials.get(name, len(items))
        if np.isnan(value):
            found[name] = Estimate(None, None, None, n, reasons.get(name, absent))
        else:
            found[name] = Estimate(value, None, None, n, unscored if name == "auroc" else "")
    return found


class Detection(ItemAccumulator):
    """Accumulate ``detection`` over batches and processes."""

    def __init__(self) -> None:
        super().__init__(width=len(_COLUMNS))

    def encode(self, predictions: Sequence[Prediction]) -> npt.NDArray[np.float64]:
        """Return one row of each prediction of the setup."""
        return np.array([_item(p) for p in predictions if p.setup == SETUP])

    def compute(self) -> dict[str, Any]:
        """Return the metrics of all predictions as ``Estimate.to_json`` gives them."""
        return {name: estimate.to_json() for name, estimate in _estimates(self.gathered()).items()}
