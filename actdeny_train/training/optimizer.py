"""AdamW groups by part, and the learning rate as a pure function of the step."""

import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from actdeny_train.models.family import Family
from actdeny_train.training.run import OptimizerSettings


def parameter_groups(family: Family, settings: OptimizerSettings) -> list[dict[str, Any]]:
    """Return AdamW groups ``{params, part, peak_lr, lr, weight_decay}``: matrices and the rest of what trains of each part."""
    groups: list[dict[str, Any]] = []
    for part, named in family.part_parameters().items():
        if part not in settings.lr:
            continue
        decays = [p for _, p in named if p.requires_grad and p.ndim >= 2]
        rest = [p for _, p in named if p.requires_grad and p.ndim < 2]
        for parameters, decay in ((decays, settings.weight_decay), (rest, 0.0)):
            if parameters:
                rate = settings.lr[part]
                groups.append({"params": parameters, "part": part, "peak_lr": rate, "lr": rate, "weight_decay": decay})
    return groups


def find_coarse_parts(family: Family, parts: Iterable[str]) -> str:
    """Return why ``parts`` cannot be trained as they are, naming those with trained weights coarser than float32; empty if all can.

    bfloat16 numbers near 0.02 lie 1e-4 apart, so that steps at the paper's 2e-7 would be rounded away and nothing would be learned.
    """
    named = family.part_parameters()
    fine = (torch.float32, torch.float64)
    coarse = [part for part in parts if any(p.requires_grad and p.dtype not in fine for _, p in named[part])]
    if not coarse:
        return ""
    return (
        f"The weights of {', '.join(coarse)} are coarser than float32, so small updates would vanish in them. Set model.dtype=float32, "
        "or leave it out; hardware.precision=bfloat16 computes in bfloat16 all the same."
    )


def make_optimizer(family: Family, settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Return AdamW over what trains, its moments in float32 or (bitsandbytes) in 8 bits."""
    groups = parameter_groups(family, settings)
    if settings.moments == "float32":
        return torch.optim.AdamW(groups, betas=settings.betas, eps=settings.eps)
    from bitsandbytes.optim import AdamW8bit

    return AdamW8bit(groups, betas=settings.betas, eps=settings.eps)


def num_moment_bytes(parameter: nn.Parameter, moments: str) -> int:
    """Return what AdamW's two moments of one tensor take; in 8 bits, a byte a value and a float32 scale for every 256 values of each.

    bitsandbytes keeps tensors of fewer than 4096 values in float32.
    """
    count = parameter.numel()
    if moments == "float32" or count < 4096:
        return 2 * count * parameter.element_size()
    return 2 * (count + 4 * -(-count // 256))


def rate_factor(step: int, num_steps: int, warmup_ratio: float) -> float:
    """Return the share of the peak rate at ``step`` (0-based): linear warm-up over ceil(ratio * steps), then cosine to 0."""
    num_warmup = math.ceil(warmup_ratio * num_steps)
    if step < num_warmup:
        return (step + 1) / num_warmup
    progress = (step - num_warmup) / max(1, num_steps - num_warmup)
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> Mapping[str, float]:
    """Set every group's rate to ``factor`` of its peak; return the rate per part."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * factor
    return {group["part"]: group["lr"] for group in optimizer.param_groups}


def groups_without_gradient(family: Family, parts: Mapping[str, float]) -> list[str]:
    """Return the trained parts in which no parameter has a gradient (checked after the first backward pass)."""

    def has_gradient(parameter: nn.Parameter) -> bool:
        return parameter.grad is not None and bool(parameter.grad.any())

    named = family.part_parameters()
    return [part for part in parts if not any(has_gradient(p) for _, p in named[part])]


def adapters_without_gradient(family: Family) -> list[str]:
    """Return the adapted layers that the backward pass did not reach (a family may use a layer's weights without calling it).

    A's own gradient is zero as long as B is, so a zero counts as reached.
    """
    if "peft" not in sys.modules:  # its import takes seconds, and without it nothing is adapted
        return []
    from actdeny_train.models.adapters import adapted_layers, adapter_parameters

    return [name for name, layer in adapted_layers(family) if any(p.grad is None for p in adapter_parameters(layer))]
