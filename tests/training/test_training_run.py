"""Settings of a training: what they refuse, word for word."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from actdeny_train.errors import ConfigError
from actdeny_train.training.run import BatchSettings, HardwareSettings, OptimizerSettings, OutputSettings, TrainRun

BATCH: dict[str, Any] = {"clips_per_step": 2, "clips_per_micro_batch": 1, "num_steps": 3}
EITHER = "Give either batch.num_epochs or batch.num_steps, not both and not neither."


def refuse(text: str, make: Callable[..., Any], **values: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**values)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"clips_per_step": 0}, "batch.clips_per_step is 0, but must be at least 1."),
        ({"clips_per_micro_batch": 0}, "batch.clips_per_micro_batch is 0, but must be at least 1."),
        ({"questions_per_clip": -1}, "batch.questions_per_clip is -1, but must be at least 1."),
        ({"num_workers": -1}, "batch.num_workers is -1, but must be 0 or more."),
        ({"num_epochs": 2}, EITHER),
        ({"num_steps": None}, EITHER),
        ({"num_steps": 0}, "batch.num_epochs or batch.num_steps must be at least 1."),
        ({"num_steps": None, "num_epochs": 0}, "batch.num_epochs or batch.num_steps must be at least 1."),
    ],
)
def test_batches_are_refused(changed: dict[str, Any], text: str) -> None:
    refuse(text, BatchSettings, **{**BATCH, **changed})


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"lr": {"head": 1e-3}}, "optimizer.lr.head: there is no such part; parts are vision, projector, llm."),
        ({"lr": {"llm": 0.0}}, "optimizer.lr.llm is 0.0, but must be above 0. Leave the part out to freeze it."),
        (
            {"lr": {"llm": float("nan")}},
            "optimizer.lr.llm is nan, but must be above 0. Leave the part out to freeze it.",
        ),
        ({"lr": {}}, "optimizer.lr is empty, so nothing would train. Give a rate for at least one part."),
        ({"lr": {"llm": 1.0}, "warmup_ratio": 1.0}, "optimizer.warmup_ratio is 1.0, but must lie in [0, 1)."),
        ({"lr": {"llm": 1.0}, "warmup_ratio": -0.1}, "optimizer.warmup_ratio is -0.1, but must lie in [0, 1)."),
    ],
)
def test_optimisers_are_refused(changed: dict[str, Any], text: str) -> None:
    refuse(text, OptimizerSettings, **changed)


def test_devices_and_intervals_are_refused() -> None:
    refuse("hardware.devices is 0, but must be at least 1.", HardwareSettings, devices=0)
    refuse("output.save_every_steps is 0, but must be at least 1.", OutputSettings, save_every_steps=0)
    refuse("output.log_every_steps is -1, but must be at least 1.", OutputSettings, log_every_steps=-1)


@pytest.mark.parametrize("name", ["", "a/b", "a\\b", "..", ".hidden"])
def test_a_name_is_the_name_of_a_folder(make_run: Callable[..., tuple[TrainRun, Any]], name: str) -> None:
    run, _ = make_run()
    fields = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    refuse(f"name is {name!r}, but must be the plain name of a folder.", TrainRun, **{**fields, "name": name})


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"lr": {"llm": float("inf")}},
            "optimizer.lr.llm is inf, but must be above 0. Leave the part out to freeze it.",
        ),
        ({"weight_decay": -0.1}, "optimizer.weight_decay is -0.1, but must be 0 or more."),
        ({"weight_decay": float("nan")}, "optimizer.weight_decay is nan, but must be 0 or more."),
        ({"betas": (0.9, 1.0)}, "optimizer.betas are [0.9, 1.0], but each must lie in [0, 1)."),
        ({"betas": (-0.1, 0.9)}, "optimizer.betas are [-0.1, 0.9], but each must lie in [0, 1)."),
        ({"eps": 0.0}, "optimizer.eps is 0.0, but must be above 0."),
        (
            {"clip_norm": 0.0},
            "optimizer.clip_norm is 0.0, but must be above 0. Set it to null so that nothing is clipped.",
        ),
        (
            {"clip_norm": -1.0},
            "optimizer.clip_norm is -1.0, but must be above 0. Set it to null so that nothing is clipped.",
        ),
    ],
)
def test_settings_that_would_train_nothing_or_backwards_are_refused(changed: dict[str, Any], text: str) -> None:
    refuse(text, OptimizerSettings, **{"lr": {"llm": 1.0}, **changed})


@pytest.mark.parametrize("size", [-0.5, float("inf")])
def test_a_cache_has_a_size(size: float) -> None:
    refuse(f"batch.cache_gib is {size}, but must be 0 or more.", BatchSettings, **BATCH, cache_gib=size)
