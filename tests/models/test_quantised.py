"""Coarse frozen layers: their values against bitsandbytes' own, their gradients, what is left alone, and the way back."""

import copy
import importlib.util
from collections.abc import Callable

import bitsandbytes
import pytest
import torch
from torch import nn

from actdeny_train.errors import ConfigError
from actdeny_train.models import quantised
from actdeny_train.models.quantised import StoredLinear, restore, store
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.models.tuning import train_only

MakeFamily = Callable[..., Qwen25VL]


def linear(seed: int = 0, bias: bool = True) -> nn.Linear:
    torch.manual_seed(seed)
    made = nn.Linear(192, 80, bias=bias)
    return made.requires_grad_(False)


def test_nf4_weights_are_those_of_bitsandbytes() -> None:
    layer = linear()
    theirs = bitsandbytes.nn.Linear4bit(192, 80, quant_type="nf4", compute_dtype=torch.float32)
    theirs.load_state_dict(layer.state_dict())
    theirs.to("cpu")
    ours = StoredLinear(layer, "nf4")
    state = theirs.weight.quant_state
    assert torch.equal(ours.weight, bitsandbytes.functional.dequantize_4bit(theirs.weight.data, state))
    x = torch.randn(7, 192)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-6)
    assert ours.num_weights == 192 * 80
    scales = 192 * 80 // 64
    assert ours.num_bytes == 192 * 80 // 2 + scales + 4 * (1 + -(-scales // 256) + 256), (
        "codes, scales, scales of scales"
    )


@pytest.mark.parametrize("shape", [(64, 96), (64, 32), (80, 192), (7, 33), (5, 2), (96, 3420)])
def test_nf4_weights_are_levels_times_the_scale_of_their_block(shape: tuple[int, int]) -> None:
    """Decoded by hand: two codes a byte, the higher half first, blocks of 64 over the flat weights, whatever the width."""
    made = nn.Linear(shape[1], shape[0], bias=False)
    nn.init.normal_(made.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    layer, exact = StoredLinear(made, "nf4"), made.weight.detach()
    codes = torch.stack([layer.codes.flatten() >> 4, layer.codes.flatten() & 15], dim=1).flatten()[: exact.numel()]
    levels = bitsandbytes.functional.get_4bit_type("nf4", device="cpu")[codes.long()]
    scales = exact.abs().flatten().split(64)
    largest = torch.cat([block.max().repeat(len(block)) for block in scales])
    torch.testing.assert_close(layer.weight.flatten(), levels * largest, rtol=0, atol=0.02 * float(largest.max()))
    assert float((layer.weight - exact).norm() / exact.norm()) < 0.11


def test_int8_weights_are_those_of_bitsandbytes_to_their_half_precision() -> None:
    layer = linear()
    ours = StoredLinear(layer, "int8")
    codes, rows, _ = bitsandbytes.functional.int8_vectorwise_quant(layer.weight.half())
    difference = ours.codes.int() - codes.int()
    assert int(difference.abs().max()) <= 1 and float((difference != 0).float().mean()) < 0.02, (
        "they round to float16 first"
    )
    torch.testing.assert_close(ours.get_buffer("row_scale").flatten() * 127, rows, rtol=1e-3, atol=0)
    assert float((ours.weight - layer.weight).abs().max()) <= 0.5 * float(ours.get_buffer("row_scale").max()) * 1.0001
    assert ours.num_bytes == 192 * 80 + 4 * 80


def test_a_row_of_zeros_stays_one() -> None:
    layer = linear()
    layer.weight.data[3] = 0
    assert torch.equal(StoredLinear(layer, "int8").weight[3], torch.zeros(192))
    assert torch.equal(StoredLinear(layer, "nf4").weight[3].abs() < 1e-3, torch.ones(192, dtype=torch.bool))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("storage", ["int8", "nf4"])
def test_it_computes_and_passes_gradients_like_a_plain_layer_with_these_weights(storage: str, bias: bool) -> None:
    layer = StoredLinear(linear(bias=bias), storage)  # type: ignore[arg-type]
    plain = quantised.plain_linear(layer, layer.weight)
    x, y = (torch.randn(3, 5, 192, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    layer(x).square().sum().backward()
    plain(y).square().sum().backward()
    torch.testing.assert_close(layer(x), plain(y), rtol=0, atol=0)
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-6, atol=1e-6)
    assert not any(p.requires_grad or p.grad is not None for p in layer.parameters())


@pytest.mark.parametrize("storage", ["int8", "nf4"])
def test_under_autocast_it_computes_in_bfloat16(storage: str) -> None:
    layer = StoredLinear(linear(), storage)  # type: ignore[arg-type]
    plain = quantised.plain_linear(layer, layer.weight)
    x, y = (torch.randn(5, 192, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = layer(x), plain(y)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    ours.float().square().sum().backward()
    theirs.float().square().sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32
    torch.testing.assert_close(x.grad, y.grad, rtol=2e-2, atol=2e-2)


def test_no_floats_of_the_weights_are_kept_for_the_backward_pass() -> None:
    layer, sizes = StoredLinear(linear(), "nf4"), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
        layer(torch.randn(2, 192, requires_grad=True)).sum()
    assert max(sizes, default=0) < 192 * 80


@pytest.mark.parametrize("storage", ["int8", "nf4"])
def test_a_state_dict_and_a_copy_hold_it_whole(storage: str) -> None:
    layer = StoredLinear(linear(0), storage)  # type: ignore[arg-type]
    other = StoredLinear(linear(1), storage)  # type: ignore[arg-type]
    assert not torch.equal(layer.weight, other.weight)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer.weight, other.weight) and torch.equal(layer.weight, copy.deepcopy(layer).weight)


@pytest.mark.parametrize("storage", ["bfloat16", "int8", "nf4"])
def test_the_linear_layers_of_a_part_alone_are_stored_and_restored(tiny_family: MakeFamily, storage: str) -> None:
    family, before = tiny_family(), tiny_family()
    train_only(family, ["projector"])
    store(family, {"llm": storage})  # type: ignore[dict-item]
    now, plain = dict(family.named_modules()), dict(before.named_modules())
    for name, module in plain.items():
        is_linear = isinstance(module, nn.Linear)
        if is_linear and ".language_model." in name:
            weight = now[name].weight
            assert isinstance(now[name], StoredLinear) or weight.dtype == torch.bfloat16, name
            assert 0 < float((weight - module.weight).detach().abs().max()) < 0.15
        elif is_linear:
            assert type(now[name]) is nn.Linear and torch.equal(now[name].weight, module.weight), name
    lm_head = family.model.lm_head
    assert lm_head.weight is family.model.model.language_model.embed_tokens.weight, "still tied"
    rounded = {name: now[name].weight.detach().float() for name in now if isinstance(now[name], nn.Linear)}
    names = {part: len(named) for part, named in family.part_parameters().items()}
    assert names == {part: len(named) for part, named in before.part_parameters().items()}, (
        "each counts once, in its part"
    )
    restore(family)
    assert [name for name, _ in family.named_parameters()] == [name for name, _ in before.named_parameters()]
    for name, module in family.named_modules():
        if isinstance(module, nn.Linear):
            assert type(module) is nn.Linear and module.weight.dtype == torch.float32
            assert torch.equal(module.weight, rounded[name]), "as the model computed with"


def test_layers_that_train_are_left_alone(tiny_family: MakeFamily) -> None:
    family = tiny_family()
    train_only(family, ["llm"], {"llm": ("layers.-1", "layers.0.self_attn.q_proj.bias")})
    store(family, {"llm": "int8"})
    stored = {name for name, module in family.named_modules() if isinstance(module, StoredLinear)}
    assert stored and all(".layers.0." in name for name in stored)
    assert not any(name.endswith("layers.0.self_attn.q_proj") for name in stored), "its bias trains"
    assert len(stored) == 6


def test_a_bfloat16_run_computes_the_same_with_bfloat16_weights(tiny_family: MakeFamily) -> None:
    """Autocast rounds float32 weights to bfloat16 in every step: rounded once, they give the same bits."""
    results = []
    for frozen in ({}, {"llm": "bfloat16"}):
        family = tiny_family()
        train_only(family, ["projector"])
        store(family, frozen)  # type: ignore[arg-type]
        inner = family.model.model.language_model
        with torch.autocast("cpu", torch.bfloat16):
            embeds = inner.embed_tokens(torch.arange(20))[None]
            results.append(inner(inputs_embeds=embeds, use_cache=False).last_hidden_state)
    assert torch.equal(*results)


def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "bitsandbytes" else find(name))
    for storage, where, instead in (
        ("nf4", "tuning.frozen.llm", "int8 or bfloat16"),
        ("8bit", "optimizer.moments", "float32"),
    ):
        with pytest.raises(ConfigError) as caught:
            quantised.check_available(storage, where)
        assert str(caught.value) == (
            f"{where} is {storage}, which needs the package bitsandbytes, and it is not installed. Run pip install "
            f"'actdeny[quantised]', or choose {instead}."
        )
    quantised.check_available("int8", "tuning.frozen.llm")
    quantised.check_available("float32", "optimizer.moments")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("storage", ["int8", "nf4"])
def test_a_gpu_holds_the_same_weights(storage: str) -> None:
    layer = StoredLinear(linear(), storage)  # type: ignore[arg-type]
    weight, x = layer.weight, torch.randn(4, 192)
    expected = layer(x)
    layer.to("cuda")
    torch.testing.assert_close(layer.weight.cpu(), weight, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(layer(x.cuda()).cpu(), expected, rtol=1e-3, atol=1e-3)
