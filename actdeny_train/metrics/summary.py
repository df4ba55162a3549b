"""Predictions -> the content of ``metrics.json``."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actdeny_train.metrics.accuracy import accuracy, accuracy_by
from actdeny_train.metrics.bootstrap import LEVEL, NUM_DRAWS
from actdeny_train.metrics.counts import count_statuses
from actdeny_train.metrics.denial import denial_estimates
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.metrics.graph import graph_accuracy
from actdeny_train.types import ClipKind, Prediction


def summarise(predictions: Iterable[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> dict[str, Any]:
    """Return all metrics as plain JSON values without NaN.

    ``{"setups": {setup: {prompt: cell}}, "graph_vqa": {kind: estimate}, "graph_vqa_groups": {group: estimate},
    "intervals": how they were made}``. A cell of a denial setup has the estimates of ``metrics.denial`` and ``types_unknown``
    (denial clips whose type is not known); any other cell has ``accuracy`` and ``by_kind``. Both count the predictions
    without a choice by status.
    """
    predictions = list(predictions)
    cells = defaultdict(list)
    for prediction in predictions:
        cells[prediction.setup, prediction.prompt].append(prediction)
    setups: dict[str, dict[str, Any]] = {}
    for (setup, prompt), cell in sorted(cells.items()):
        setups.setdefault(setup, {})[prompt] = _summarise_cell(cell, num_draws, seed)
    graph = graph_accuracy(predictions, num_draws=num_draws, seed=seed)
    return {
        "setups": setups,
        "graph_vqa": _to_json(graph.kinds),
        "graph_vqa_groups": _to_json(graph.groups),
        "intervals": {"level": LEVEL, "over": "resampled sources", "num_draws": num_draws, "seed": seed},
    }


def asks_for_denial(predictions: Sequence[Prediction]) -> bool:
    """Return True if the predictions of a setup can be right by denying.

    That is: each question's kind is a kind of clip, and there is a denial clip or a none choice among them. Captions, which
    are asked about presence clips and offer no none choice, are not such a setup; nor are graph questions.
    """
    kinds = {p.kind for p in predictions}
    denies = kinds != {ClipKind.PRESENCE} or any(p.none_choice is not None for p in predictions)
    return kinds <= set(ClipKind) and denies


def _summarise_cell(predictions: Sequence[Prediction], num_draws: int, seed: int) -> dict[str, Any]:
    statuses = count_statuses(predictions)
    if asks_for_denial(predictions):
        unknown = sum(p.kind == ClipKind.DENIAL for p in predictions)
        estimates = denial_estimates(predictions, num_draws=num_draws, seed=seed)
        return {**_to_json(estimates), **statuses, "types_unknown": unknown}
    return {
        "accuracy": accuracy(predictions, num_draws=num_draws, seed=seed).to_json(),
        "by_kind": _to_json(accuracy_by(predictions, lambda p: p.kind, num_draws=num_draws, seed=seed)),
        **statuses,
    }


def _to_json(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {name: estimate.to_json() for name, estimate in estimates.items()}
