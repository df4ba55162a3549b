"""The grid benchmark measures what it says: the same answers both ways, and counts that can be worked out."""

import json
from pathlib import Path

import pytest

from actdeny_train.evaluation.grid_benchmark import measure
from actdeny_train.models.tiny import TinySize


@pytest.mark.slow
def test_the_figures_of_a_small_run(tmp_path: Path) -> None:
    size = TinySize(hidden_size=64, intermediate_size=96, num_layers=2, num_vision_layers=2)
    figures = measure(str(tmp_path), num_clips=1, size=size)
    assert json.loads(json.dumps(figures)) == figures
    assert figures["questions"] == 6 * 2
    assert figures["choices"] == 2 * (11 + 11 + 11 + 4 + 2 + 2)
    assert figures["changed_answers"] == 0
    assert isinstance(figures["largest_logprob_difference"], float) and figures["largest_logprob_difference"] <= 1e-4
    tokens = figures["tokens_trees"], figures["tokens_alone"]
    assert tokens[1] > 15 * tokens[0], tokens  # type: ignore[operator]
    assert figures["ratio"] == figures["seconds_alone"] / figures["seconds_trees"]  # type: ignore[operator]
