"""LoRA and DoRA through peft, put into a family in place: every adapter weight lies in the part of the layer that it adapts."""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import peft
import torch
from peft.tuners.lora import LoraLayer
from safetensors.torch import save_file
from torch import Tensor, nn

from actdeny_train.models.family import Family
from actdeny_train.models.patterns import select
from actdeny_train.models.quantised import linear_layers, output_layers, plain_linear

NAME = "default"
"""peft's name of the one adapter; it is left out of what is saved."""
ROOT = "model."
"""Adapters are named from ``family.model``, as people load them who have transformers and peft alone."""
KEY_PREFIX = "base_model.model."
"""What peft writes before every name."""


def find_targets(family: Family, parts: Sequence[str], targets: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of the linear layers of ``parts`` that get an adapter: those that the part's patterns match, or else all but
    vocabulary projections. Tied layers cannot be adapted. Raises ConfigError for a pattern that matches none.
    """
    projections = output_layers(family)
    chosen: list[str] = []
    for part in parts:
        layers = linear_layers(family, part)
        patterns = targets.get(part, ())
        if patterns:
            chosen += select(patterns, list(layers), f"tuning.adapter.targets.{part}", f"linear layer of {part}")
        else:
            chosen += [name for name, layer in layers.items() if layer not in projections]
    return chosen


def attach(family: Family, targets: Sequence[str], *, rank: int, alpha: int, dora: bool, seed: int) -> None:
    """Put an adapter on each target. B starts at zero, so the model computes what it did; ``seed`` draws A. Adapter weights are float32.

    All other weights keep their gradients switched as they were.
    """
    before = [(p, p.requires_grad) for p in family.parameters()]
    settings = peft.LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=0.0, use_dora=dora, target_modules=[_from_root(name) for name in targets]
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*tie_word_embeddings.*")  # tied layers are no targets
        torch.manual_seed(seed)
        peft.inject_adapter_in_model(settings, family.model, NAME)
    for parameter, trains in before:
        parameter.requires_grad_(trains)
    for _, layer in adapted_layers(family):
        _in_float32(layer)
    assert sorted(name for name, _ in adapted_layers(family)) == sorted(targets), "peft has adapted other layers"


def adapted_layers(family: nn.Module) -> Iterator[tuple[str, LoraLayer]]:
    """Yield the layers with an adapter, by name."""
    return ((name, module) for name, module in family.named_modules() if isinstance(module, LoraLayer))


def adapter_parameters(layer: LoraLayer) -> list[nn.Parameter]:
    """Return the weights of A and B, and of DoRA's row lengths."""
    return [p for group in layer.adapter_layer_names for p in getattr(layer, group).parameters()]


def merged_weight(layer: LoraLayer) -> Tensor:
    """Return W + alpha / rank * B A (out, in), computed in at least float32; with DoRA, its rows are given their trained lengths."""
    base = layer.base_layer.weight.detach()
    dtype = torch.promote_types(base.dtype, torch.float32)
    a, b = (getattr(layer, name)[NAME].weight.detach().to(dtype) for name in ("lora_A", "lora_B"))
    weight = base.to(dtype) + layer.scaling[NAME] * (b @ a)
    if NAME in layer.lora_magnitude_vector:
        length = layer.lora_magnitude_vector[NAME].weight.detach().to(dtype)
        weight = weight * (length / torch.linalg.norm(weight, dim=1))[:, None]
    return weight


def merge(family: Family) -> None:
    """Put plain linear layers with merged weights, in the type that was loaded, in place of all adapted ones."""
    for name, layer in list(adapted_layers(family)):
        family.set_submodule(name, plain_linear(layer.base_layer, merged_weight(layer)))
    vars(family.model).pop("peft_config", None)


def save_adapter(family: Family, folder: Path, base: str, revision: str | None) -> None:
    """Write the adapter in peft's format: adapter_config.json and adapter_model.safetensors, with the modules that train in full.

    ``base`` and ``revision`` name the checkpoint that it belongs to.
    """
    settings: Any = family.model.peft_config[NAME]
    full = full_modules(family.model)
    tensors = {
        f"{KEY_PREFIX}{key.replace(f'.{NAME}.', '.')}": value
        for name, layer in adapted_layers(family.model)
        for key, value in layer.state_dict(prefix=f"{name}.").items()
        if key.removeprefix(f"{name}.").startswith(layer.adapter_layer_names)
    }
    for name in full:
        module = family.model.get_submodule(name)
        tensors |= {f"{KEY_PREFIX}{name}.{key}": value for key, value in module.state_dict().items()}
    written = settings.to_dict() | {
        "base_model_name_or_path": base,
        "revision": revision,
        "inference_mode": True,
        "target_modules": sorted(settings.target_modules),
        "modules_to_save": full or None,
    }
    text = json.dumps(written, indent=2, sort_keys=True, default=sorted)
    (folder / "adapter_config.json").write_text(text + "\n", encoding="utf-8")
    save_file(
        {k: v.detach().cpu().clone().contiguous() for k, v in tensors.items()}, folder / "adapter_model.safetensors"
    )


def full_modules(model: nn.Module) -> list[str]:
    """Return the names of the largest modules without adapters that hold all weights which train beside the adapters.

    A module that mixes such weights of its own with adapted layers below cannot be named in peft's format: an AssertionError.
    """
    names: list[str] = []

    def visit(name: str, module: nn.Module) -> None:
        parameters = list(module.parameters())
        if not any(p.requires_grad for p in parameters) or isinstance(module, LoraLayer):
            return
        has_adapter = any(isinstance(m, LoraLayer) for m in module.modules())
        own = any(p.requires_grad for p in module.parameters(recurse=False))
        assert not (own and has_adapter), f"{name} has weights of its own that train, beside adapted layers"
        is_list = isinstance(module, nn.ModuleList | nn.ModuleDict)  # peft saves no lists
        if not has_adapter and not is_list and (own or all(p.requires_grad for p in parameters)):
            names.append(name)
            return
        for child_name, child in module.named_children():
            visit(f"{name}.{child_name}" if name else child_name, child)

    visit("", model)
    return names


def _in_float32(layer: LoraLayer) -> None:
    """Undo that peft gives adapters the type of a coarse base, in which small updates would vanish and lengths be wrong."""
    for parameter in adapter_parameters(layer):
        parameter.data = parameter.data.to(torch.promote_types(parameter.dtype, torch.float32))
    for magnitude in layer.lora_magnitude_vector.values():
        magnitude.weight.data = torch.linalg.norm(layer.base_layer.weight.detach().to(magnitude.weight.dtype), dim=1)


def _from_root(name: str) -> str:
    assert name.startswith(ROOT), f"{name} does not lie in family.model"
    return name.removeprefix(ROOT)
