"""Predictions -> the content of ``metrics.json``."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actdeny_train.metrics.abstention import abstention
from actdeny_train.metrics.accuracy import accuracy, accuracy_by
from actdeny_train.metrics.agreement import agreement
from actdeny_train.metrics.answers import answers_by_side
from actdeny_train.metrics.bootstrap import LEVEL, NUM_DRAWS
from actdeny_train.metrics.classes import accuracy_by_source, denial_by_class
from actdeny_train.metrics.counts import count_statuses
from actdeny_train.metrics.denial import denial_estimates
from actdeny_train.metrics.detection import SETUP as DETECTION_SETUP
from actdeny_train.metrics.detection import detection
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.metrics.graph import graph_accuracy
from actdeny_train.metrics.intruder import SETUP as INTRUDER_SETUP
from actdeny_train.metrics.intruder import intruder
from actdeny_train.metrics.pairs import pair_accuracy
from actdeny_train.metrics.positions import none_positions, positions
from actdeny_train.metrics.rotations import rotated_denial
from actdeny_train.metrics.strict import strict_denial
from actdeny_train.metrics.sycophancy import SETUPS as SYCOPHANCY_SETUPS
from actdeny_train.metrics.sycophancy import sycophancy
from actdeny_train.questions.transfer import is_transfer
from actdeny_train.types import ClipKind, Prediction


def summarise(predictions: Iterable[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> dict[str, Any]:
    """Return all metrics as plain JSON values without NaN.

    ``{"setups": {setup: {prompt: cell}}, "sycophancy": {prompt: ...}, "detection": {prompt: ...}, "graph_vqa": {kind:
    estimate}, "graph_vqa_groups": {group: estimate}, "intervals": how they were made}``. A cell of a denial setup has the
    estimates of ``metrics.denial``, ``types_unknown`` (denial clips whose type is not known), ``pair``, ``agreement`` and
    ``score_accuracy``, ``strict``, ``rotations``; without intervals ``by_class`` and ``by_source``; ``positions``, ``positions_none``,
    ``answers_on_denial``, ``answers_on_presence`` and ``abstention``, as the modules of these names tell. The cells of
    ``"intruder"`` have what ``metrics.intruder`` tells, any other cell ``accuracy`` and ``by_kind``. All count the
    predictions without a choice by status. Prompts without yes/no questions have no entry under ``sycophancy`` and
    ``detection``.
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
        "sycophancy": {
            prompt: sycophancy(asked, num_draws=num_draws, seed=seed).to_json()
            for prompt, asked in _by_prompt(predictions, SYCOPHANCY_SETUPS, SYCOPHANCY_SETUPS[1:])
        },
        "detection": {
            prompt: _to_json(detection(asked, num_draws=num_draws, seed=seed))
            for prompt, asked in _by_prompt(predictions, (DETECTION_SETUP,), (DETECTION_SETUP,))
        },
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


def _by_prompt(
    predictions: Sequence[Prediction], setups: Sequence[str], needed: Sequence[str]
) -> list[tuple[str, list[Prediction]]]:
    """Return the predictions of ``setups`` for each prompt that has any of ``needed``, prompts in alphabetical order."""
    asked = defaultdict(list)
    for prediction in predictions:
        if prediction.setup in setups:
            asked[prediction.prompt].append(prediction)
    prompts = sorted({p.prompt for p in predictions if p.setup in needed})
    return [(prompt, asked[prompt]) for prompt in prompts]


def _summarise_cell(predictions: Sequence[Prediction], num_draws: int, seed: int) -> dict[str, Any]:
    statuses = count_statuses(predictions)
    if asks_for_denial(predictions):
        return {**_summarise_denial(predictions, num_draws, seed), **statuses}
    if all(p.setup == INTRUDER_SETUP for p in predictions):
        return {**intruder(predictions, num_draws=num_draws, seed=seed).to_json(), **statuses}
    return {
        "accuracy": accuracy(predictions, num_draws=num_draws, seed=seed).to_json(),
        "by_kind": _to_json(accuracy_by(predictions, lambda p: p.kind, num_draws=num_draws, seed=seed)),
        **statuses,
    }


def _summarise_denial(predictions: Sequence[Prediction], num_draws: int, seed: int) -> dict[str, Any]:
    answers = answers_by_side(predictions, num_draws=num_draws, seed=seed)
    return {
        **_to_json(denial_estimates(predictions, num_draws=num_draws, seed=seed)),
        "types_unknown": sum(p.kind == ClipKind.DENIAL and not is_transfer(p.setup) for p in predictions),
        "pair": pair_accuracy(predictions, num_draws=num_draws, seed=seed).to_json(),
        **_to_json(agreement(predictions, num_draws=num_draws, seed=seed)),
        "strict": _to_json(strict_denial(predictions, num_draws=num_draws, seed=seed)),
        "rotations": _to_json(rotated_denial(predictions, num_draws=num_draws, seed=seed)),
        "answers_on_denial": _to_json(answers["denial"]),
        "answers_on_presence": _to_json(answers["presence"]),
        "abstention": abstention(predictions, num_draws=num_draws, seed=seed).to_json(),
        "positions": [place.to_json() for place in positions(predictions, num_draws=num_draws, seed=seed)],
        "positions_none": [place.to_json() for place in none_positions(predictions, num_draws=num_draws, seed=seed)],
        "by_class": {action: _to_json(found) for action, found in denial_by_class(predictions).items()},
        "by_source": _to_json(accuracy_by_source(predictions)),
    }


def _to_json(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {name: estimate.to_json() for name, estimate in estimates.items()}
