"""AdamW's groups and the learning rate, against transformers' own schedule."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import get_cosine_schedule_with_warmup

from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.training.optimizer import (
    find_coarse_parts,
    groups_without_gradient,
    make_optimizer,
    num_moment_bytes,
    rate_factor,
    set_rates,
)
from actdeny_train.training.run import OptimizerSettings

RATES = {"vision": 1e-3, "projector": 2e-3, "llm": 3e-3}


def optimizer_of(family: Qwen25VL, lr: dict[str, float]) -> torch.optim.Optimizer:
    return make_optimizer(family, OptimizerSettings(lr=lr, weight_decay=0.1, betas=(0.8, 0.9), eps=1e-6))


def test_every_trained_parameter_lies_in_one_group_with_its_parts_rate(tiny_family: Callable[..., Qwen25VL]) -> None:
    family = tiny_family()
    groups = optimizer_of(family, RATES).param_groups
    assert len([p for group in groups for p in group["params"]]) == len(list(family.parameters()))
    rate = {id(p): (group["lr"], group["weight_decay"]) for group in groups for p in group["params"]}
    for name, parameter in family.named_parameters():
        part = "projector" if ".merger." in name else "vision" if ".visual." in name else "llm"
        is_norm_or_bias = name.endswith("bias") or "norm" in name or "ln_q" in name
        assert rate[id(parameter)] == (RATES[part], 0.0 if is_norm_or_bias else 0.1), name
    assert all(group["betas"] == (0.8, 0.9) and group["eps"] == 1e-6 for group in groups)


def test_frozen_parts_are_not_optimised(tiny_family: Callable[..., Qwen25VL]) -> None:
    family = tiny_family()
    groups = optimizer_of(family, {"projector": 1e-3}).param_groups
    held = {id(p) for group in groups for p in group["params"]}
    assert held == {id(p) for name, p in family.named_parameters() if ".merger." in name}
    assert {group["part"] for group in groups} == {"projector"}


@pytest.mark.parametrize("moments", ["float32", "8bit"])
def test_moments_take_the_bytes_that_the_plan_counts(tiny_family: Callable[..., Qwen25VL], moments: str) -> None:
    settings = OptimizerSettings(lr=RATES, moments=moments)  # type: ignore[arg-type]
    optimizer = make_optimizer(tiny_family(), settings)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    names = ("exp_avg", "exp_avg_sq", "state1", "state2", "absmax1", "absmax2")
    held = [state[name] for state in optimizer.state.values() for name in names if name in state]
    assert sum(t.numel() * t.element_size() for t in held) == sum(num_moment_bytes(p, moments) for p in parameters)


def transformers_factor(step: int, num_warmup: int, num_steps: int) -> float:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    return get_cosine_schedule_with_warmup(optimizer, num_warmup, num_steps).lr_lambdas[0](step)  # type: ignore[no-any-return]


@given(st.integers(1, 300), st.floats(0, 0.99))
def test_the_rate_is_transformers_cosine_with_a_warm_up_one_step_ahead(num_steps: int, ratio: float) -> None:
    num_warmup = math.ceil(ratio * num_steps)
    factors = [rate_factor(step, num_steps, ratio) for step in range(num_steps)]
    expected = [
        transformers_factor(step + 1 if step < num_warmup else step, num_warmup, num_steps) for step in range(num_steps)
    ]
    assert factors == pytest.approx(expected, abs=1e-12)
    assert all(0 < factor <= 1 for factor in factors), "no step is wasted on a rate of 0"


def test_the_rate_peaks_after_the_warm_up_and_falls_to_zero() -> None:
    assert [rate_factor(step, 10, 0.2) for step in (0, 1, 2, 6, 10)] == pytest.approx([0.5, 1.0, 1.0, 0.5, 0.0])
    assert rate_factor(0, 10, 0.0) == 1.0


def test_rates_are_set_by_part(tiny_family: Callable[..., Qwen25VL]) -> None:
    optimizer = optimizer_of(tiny_family(), RATES)
    assert set_rates(optimizer, 0.5) == {"vision": 5e-4, "projector": 1e-3, "llm": 1.5e-3}
    assert {(group["part"], group["lr"]) for group in optimizer.param_groups} == {
        ("vision", 5e-4),
        ("projector", 1e-3),
        ("llm", 1.5e-3),
    }
    assert set_rates(optimizer, 1.0) == RATES, "always a share of the peak, not of the last rate"


def test_parts_without_a_gradient_are_named(tiny_family: Callable[..., Qwen25VL]) -> None:
    family = tiny_family()
    assert groups_without_gradient(family, RATES) == ["vision", "projector", "llm"]
    merger = family.part_parameters()["projector"]
    merger[0][1].grad = torch.zeros_like(merger[0][1])
    assert groups_without_gradient(family, RATES) == ["vision", "projector", "llm"]
    merger[-1][1].grad = torch.ones_like(merger[-1][1])
    assert groups_without_gradient(family, RATES) == ["vision", "llm"]
    assert groups_without_gradient(family, {"projector": 1.0}) == []


def test_parts_coarser_than_float32_are_named(tiny_family: Callable[..., Qwen25VL]) -> None:
    family = tiny_family()
    assert find_coarse_parts(family, RATES) == ""
    for _, parameter in family.part_parameters()["vision"]:
        parameter.data = parameter.data.bfloat16()
    assert find_coarse_parts(family, ["projector", "llm"]) == "", "frozen parts may be coarse"
    assert find_coarse_parts(family, RATES) == (
        "The weights of vision are coarser than float32, so small updates would vanish in them. Set model.dtype=float32, or leave it "
        "out; hardware.precision=bfloat16 computes in bfloat16 all the same."
    )
    weight = torch.tensor(0.02, dtype=torch.bfloat16)
    assert weight - 2e-7 == weight and weight.float() - 2e-7 < weight.float(), "why"


def test_the_published_run_by_hand() -> None:
    """882.4 steps of 16 of 7,059 clips twice are 883; 3 % of these are 27; the rate then falls along half a cosine."""
    assert [rate_factor(step, 883, 0.03) for step in (0, 26, 27)] == [1 / 27, 1.0, 1.0]
    assert rate_factor(455, 883, 0.03) == pytest.approx(0.5), "half way: 27 + (883 - 27) / 2"
    assert rate_factor(882, 883, 0.03) == pytest.approx(0.25 * (math.pi / 856) ** 2, rel=1e-4)
