"""The benchmark on a model small enough for a test: its figures exist, and both ways compute the same."""

from pathlib import Path

import pytest

from actdeny_train.models.tiny import TinySize
from actdeny_train.training import tree_benchmark


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    size = TinySize(hidden_size=64, intermediate_size=96, num_layers=2, num_vision_layers=2, vocab_size=400)
    for name, value in {"SIZE": size, "NUM_QUESTIONS": 5, "NUM_FRAMES": 4, "SIZE_PX": 112}.items():
        monkeypatch.setattr(tree_benchmark, name, value)


@pytest.mark.usefixtures("small")
def test_a_forest_computes_what_one_question_a_sequence_computes(tmp_path: Path) -> None:
    figures = tree_benchmark.measure(str(tmp_path), num_repeats=1)
    assert float(str(figures["largest_loss_difference"])) < 1e-6
    assert float(str(figures["largest_gradient_difference"])) < 1e-6
    assert (figures["questions_per_clip"], figures["frames"], figures["frame_px"]) == (5, 4, 112)
    tokens = (int(str(figures["tokens_forest"])), int(str(figures["tokens_alone"])))
    assert tokens[0] < tokens[1] < 5 * tokens[0]
    forest, alone = (float(str(figures[f"questions_per_s_{name}"])) for name in ("forest", "alone"))
    assert float(str(figures["ratio"])) == pytest.approx(forest / alone)


def test_the_published_size_is_what_the_figures_are_asked_for() -> None:
    assert (tree_benchmark.NUM_QUESTIONS, tree_benchmark.NUM_FRAMES, tree_benchmark.SIZE_PX) == (14, 8, 224)
