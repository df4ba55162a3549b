"""Frozen linear layers whose weights are kept coarse: bfloat16, int8 (a scale a row), or nf4 (4 bits, QLoRA; through bitsandbytes).

Only weights are rounded: LLM.int8() rounds activations too, and picks outlier columns by what else is in the forest, so that a leaf would
depend on its neighbours. And bitsandbytes' own layers rewrite frozen biases, and on some CPUs weights, in use.
"""

import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from actdeny_train.errors import ConfigError
from actdeny_train.models.family import Family

Storage = Literal["bfloat16", "int8", "nf4"]
BLOCK = 64
"""Weights that share one scale in nf4, as in QLoRA (https://arxiv.org/abs/2305.14314)."""
SCALE_BLOCK = 256
"""Scales that share one scale of their own (double quantisation)."""


class StoredLinear(nn.Linear):
    """A frozen linear layer with int8 or nf4 weights. ``weight`` (out, in) gives them as floats; each call computes them anew."""

    def __init__(self, linear: nn.Linear, storage: Literal["int8", "nf4"]) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.storage = storage
        self.loaded_dtype = linear.weight.dtype
        self.register_parameter("bias", linear.bias)
        codes, scales = (_to_int8 if storage == "int8" else _to_nf4)(linear.weight.detach())
        self.codes = nn.Parameter(codes, requires_grad=False)
        for name, value in scales.items():
            self.register_buffer(name, value)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The weights (out, in), at least float32; new each time."""
        return (self._from_int8 if self.storage == "int8" else self._from_nf4)()

    @property
    def num_weights(self) -> int:
        """How many weights the codes hold."""
        return self.in_features * self.out_features

    @property
    def num_bytes(self) -> int:
        """Bytes of codes and scales."""
        return sum(t.numel() * t.element_size() for t in (self.codes, *self.buffers()))

    def forward(self, input: Tensor) -> Tensor:
        kind = input.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else input.dtype
        return _Multiply.apply(input.to(dtype), self)

    def _from_int8(self) -> Tensor:
        return self.codes * self.get_buffer("row_scale")

    def _from_nf4(self) -> Tensor:
        from bitsandbytes import functional

        scale_state = functional.QuantState(
            absmax=self.get_buffer("scale_scale").float(),
            code=self.get_buffer("scale_code").float(),
            blocksize=SCALE_BLOCK,
            dtype=torch.float32,
        )
        state = functional.QuantState(
            absmax=self.get_buffer("scales"),
            shape=torch.Size((self.num_weights,)),
            blocksize=BLOCK,
            quant_type="nf4",
            dtype=torch.float32,
            offset=self.get_buffer("scale_offset").float(),
            state2=scale_state,
        )
        flat = functional.dequantize_4bit(self.codes.detach(), state)
        return flat.view(self.out_features, self.in_features)


class _Multiply(torch.autograd.Function):
    """x W' + b, which keeps no floats of W for the backward pass but computes them a second time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: StoredLinear) -> Tensor:
        ctx.layer = layer
        bias = None if layer.bias is None else layer.bias.to(x.dtype)
        return nn.functional.linear(x, layer.weight.to(x.dtype), bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient @ ctx.layer.weight.to(gradient.dtype), None


def check_available(storage: str, where: str) -> None:
    """Raise ConfigError if the package that ``storage`` needs is not installed; ``where`` is the setting that asks for it."""
    instead = {"nf4": "int8 or bfloat16", "8bit": "float32"}
    if storage in instead and importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigError(
            f"{where} is {storage}, which needs the package bitsandbytes, and it is not installed. Run pip install 'actdeny[quantised]', "
            f"or choose {instead[storage]}."
        )


def store(family: Family, frozen: Mapping[str, Storage]) -> None:
    """Keep the weights of the frozen linear layers of each part in ``frozen`` as it says; the rest stays as it is.

    Tied weights and vocabulary projections are left alone, as layers of which any own parameter trains.
    """
    left_alone = output_layers(family)
    for part, storage in frozen.items():
        for name, linear in linear_layers(family, part).items():
            if any(p.requires_grad for p in linear.parameters()) or linear in left_alone:
                continue
            if storage == "bfloat16":
                linear.loaded_dtype = linear.weight.dtype  # type: ignore[assignment]
                linear.weight.data = linear.weight.data.bfloat16()
            else:
                family.set_submodule(name, StoredLinear(linear, storage))


def restore(family: Family) -> None:
    """Put plain linear layers, in the type that was loaded, in place of all coarse ones. Rounding is not undone."""
    for name, module in list(family.named_modules()):
        if isinstance(module, nn.Linear) and hasattr(module, "loaded_dtype"):
            family.set_submodule(name, plain_linear(module, module.weight))


def plain_linear(like: nn.Linear, weight: Tensor) -> nn.Linear:
    """Return a frozen plain layer with ``weight`` (out, in) and the bias of ``like``, in the type that ``like`` was loaded in."""
    made = nn.Linear(like.in_features, like.out_features, bias=False, device="meta")
    dtype = getattr(like, "loaded_dtype", like.weight.dtype)
    made.weight = nn.Parameter(weight.detach().to(dtype), requires_grad=False)
    made.register_parameter("bias", like.bias)
    return made


def linear_layers(family: Family, part: str) -> dict[str, nn.Linear]:
    """Return the linear layers of a part by name, but for those whose weights another module shares."""
    names = {name for name, _ in family.part_parameters()[part]}
    holders: dict[int, int] = {}
    for module in family.modules():
        for parameter in module._parameters.values():
            holders[id(parameter)] = holders.get(id(parameter), 0) + 1
    return {
        name: module
        for name, module in family.named_modules()
        if type(module) is not StoredLinear
        and isinstance(module, nn.Linear)
        and f"{name}.weight" in names
        and holders[id(module.weight)] == 1
    }


def output_layers(family: Family) -> set[nn.Module]:
    """Return the modules that project onto a vocabulary."""
    find = (getattr(module, "get_output_embeddings", None) for module in family.modules())
    return {found for method in find if method is not None and (found := method()) is not None}


def stored_layers(module: nn.Module) -> Iterator[StoredLinear]:
    """Yield the layers with int8 or nf4 weights."""
    return (m for m in module.modules() if isinstance(m, StoredLinear))


def _to_int8(weight: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Return codes and the scale of each row: its largest value is 127, as in bitsandbytes' int8_vectorwise_quant."""
    weight = weight.float()
    scale = weight.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 127
    return torch.round(weight / scale).to(torch.int8), {"row_scale": scale}


def _to_nf4(weight: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    from bitsandbytes import functional

    # Flat: given a matrix, bitsandbytes 0.50.2 lets some widths that are no multiple of a block go wrong on CPUs (28 % off, not 9 %).
    flat = weight.float().flatten()
    codes, state = functional.quantize_4bit(flat, blocksize=BLOCK, quant_type="nf4", compress_statistics=True)
    return codes, {
        "scales": state.absmax,
        "scale_offset": state.offset,
        "scale_scale": state.state2.absmax,
        "scale_code": state.state2.code,
    }
