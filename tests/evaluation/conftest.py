"""Evaluations of the tiny model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from actdeny_train import config
from actdeny_train.evaluation.evaluate import evaluate
from actdeny_train.evaluation.run import EvaluateRun


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_run(evaluate_config: Path) -> Callable[..., EvaluateRun]:
    """Read ``evaluate_config`` with overrides: ``make_run("seed=1")``."""

    def make(*overrides: str) -> EvaluateRun:
        return config.parse(config.read(evaluate_config, overrides), EvaluateRun, "evaluate.yaml")

    return make


@pytest.fixture
def answer(make_run: Callable[..., EvaluateRun]) -> Callable[..., dict[str, Any]]:
    """Evaluate in this process: ``answer("seed=1", family=...)`` gives the metrics."""

    def run(*overrides: str, **ready: Any) -> dict[str, Any]:
        return evaluate(make_run(*overrides), **ready)

    return run
