"""Questions asked in rotation: the same choices, each time one place further, so that no choice gains by its place."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from actdeny_train.metrics.bootstrap import NUM_DRAWS, add_intervals
from actdeny_train.metrics.counts import Counts, Rates, count_by_source, divide
from actdeny_train.metrics.denial import ROWS as DENIAL_ROWS
from actdeny_train.metrics.denial import denial_marks, denial_rates, estimates_of_counts
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import ParseStatus, Prediction

NAMES = ("same", "t1", "t2", "overall_ad", "ap", "hm")
ROWS = (*DENIAL_ROWS, "same")
NOTHING = "no question was asked in rotation and scored"


def rotated_denial(
    predictions: Sequence[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> dict[str, Estimate]:
    """Return ``same``, ``t1``, ``t2``, ``overall_ad``, ``ap`` and ``hm`` of answers averaged over rotations.

    The averaged answer to a question is the choice with the highest mean log-probability over its rotations, the first of equals
    in the order before shuffling. Log-probabilities are normalised over the choices first: otherwise, a rotation in which the
    model is likely to type something else would weigh less or more than the others. ``same``: share of the questions whose
    likeliest choice is one and the same in all rotations. Intervals are over resampled sources; n counts questions, each
    with all its rotations. Predictions without ``rotation_of`` or without log-probabilities are left out.
    """
    pairs = list(_averaged(predictions))
    same = {p.question_id: same for p, same in pairs}

    def marks(prediction: Prediction) -> Iterator[tuple[str, bool]]:
        yield "same", same[prediction.question_id]
        yield from denial_marks(prediction)

    counts = count_by_source([p for p, _ in pairs], ROWS, marks)
    return add_intervals(_estimates(counts.sum(axis=0)), counts, _statistic, num_draws=num_draws, seed=seed)


def _averaged(predictions: Sequence[Prediction]) -> Iterator[tuple[Prediction, bool]]:
    """Yield one prediction for each question asked in rotation, and whether all its rotations agree."""
    groups: dict[str, list[Prediction]] = defaultdict(list)
    for prediction in predictions:
        if prediction.rotation_of and prediction.logprobs:
            groups[prediction.rotation_of].append(prediction)
    for group in groups.values():
        if len(group) < 2:
            continue
        scores = np.stack([_in_order(p) for p in group])
        best = int(scores.mean(axis=0).argmax())
        first = group[0]
        averaged = dataclasses.replace(first, choice=first.permutation.index(best), status=ParseStatus.OK)
        yield averaged, len(set(scores.argmax(axis=1).tolist())) == 1


def _in_order(prediction: Prediction) -> npt.NDArray[np.float64]:
    """Return normalised log-probabilities (num_choices,) in the order before shuffling."""
    scores = np.empty(prediction.num_choices)
    scores[list(prediction.permutation)] = prediction.logprobs
    return scores - logsumexp(scores)


def _statistic(counts: Counts) -> Mapping[str, Rates]:
    rates = {**denial_rates(counts[..., :-1, :]), "same": divide(counts[..., -1, :])}
    return {name: rates[name] for name in NAMES}


def _estimates(counts: Counts) -> dict[str, Estimate]:
    trials = int(counts[-1, 1])
    if not trials:
        return {name: Estimate(None, None, None, 0, NOTHING) for name in NAMES}
    found = {**estimates_of_counts(counts[:-1]), "same": Estimate(float(divide(counts[-1])), None, None, trials)}
    return {name: found[name] for name in NAMES}
