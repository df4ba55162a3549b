"""Trainings of the tiny model, and transformers' own model as the reference."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import Callback

from actdeny_train import config
from actdeny_train.config import Component
from actdeny_train.models.family import Family
from actdeny_train.training.run import TrainRun
from actdeny_train.training.train import train


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_run(train_config: Path) -> Callable[..., tuple[TrainRun, dict[str, Any]]]:
    """Read ``train_config`` with overrides: ``make_run("batch.num_steps=3")`` gives the run and its plain values."""

    def make(*overrides: str) -> tuple[TrainRun, dict[str, Any]]:
        values = config.read(train_config, overrides)
        return config.parse(values, TrainRun, "train.yaml"), values

    return make


@pytest.fixture
def fit(make_run: Callable[..., tuple[TrainRun, dict[str, Any]]]) -> Callable[..., Path]:
    """Train in this process: ``fit("batch.num_steps=3", callbacks=[...], family=..., resume=True)`` gives the model's folder."""

    def run(
        *overrides: str, callbacks: Sequence[Callback] = (), resume: bool = False, family: Family | None = None
    ) -> Path:
        made, values = make_run(*overrides)
        watch = tuple(_component(callback) for callback in callbacks)
        made = dataclasses.replace(made, output=dataclasses.replace(made.output, callbacks=watch))
        return train(made, values, resume=resume, family=family)

    return run


def _component(callback: Callback) -> Component[Callback]:
    return Component("a callback of the test", "output.callbacks", lambda: callback)
