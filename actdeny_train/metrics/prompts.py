"""Prompts side by side in one run: the same questions to the same model, put in other words."""

import dataclasses
from collections.abc import Sequence

from actdeny_train.metrics.bootstrap import NUM_DRAWS
from actdeny_train.metrics.comparison import Comparison, compare
from actdeny_train.metrics.summary import asks_for_denial
from actdeny_train.types import Prediction


def compare_prompts(
    predictions: Sequence[Prediction], first: str = "plain", *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> dict[str, Comparison]:
    """Return for every other prompt its comparison with prompt ``first``, in each denial setup that was asked under both.

    Questions are the same if they differ in the prompt alone: clip, kind, index, target, number of choices. Those asked under one of the
    two prompts are counted in ``num_left_out``. Prompts without a common question have no entry.
    """
    cells: dict[tuple[str, str], dict[str, Prediction]] = {}
    for prediction in predictions:
        cells.setdefault((prediction.setup, prediction.prompt), {})[prediction.question_id] = prediction
    found = {}
    for other in sorted({prompt for _, prompt in cells} - {first}):
        a: list[Prediction] = []
        b: list[Prediction] = []
        for setup in sorted({setup for setup, prompt in cells if prompt == other}):
            pair = [[_without_prompt(p, other) for p in cells.get((setup, x), {}).values()] for x in (first, other)]
            ids = [{p.question_id for p in side} for side in pair]
            if ids[0] & ids[1] and all(map(asks_for_denial, pair)):
                a += pair[0]
                b += pair[1]
        if a:
            found[other] = compare(a, b, names=(first, other), only_shared=True, num_draws=num_draws, seed=seed)
    return found


def _without_prompt(prediction: Prediction, prompt: str) -> Prediction:
    """Return the prediction under the name of another prompt; its id no longer tells its own, and its text does not count."""
    head, own, index = ["", "", *prediction.question_id.rsplit("|", 2)][-3:]
    id = f"{head}|{index}" if own == prediction.prompt else prediction.question_id
    return dataclasses.replace(prediction, question_id=id, prompt=prompt, fingerprints={})
