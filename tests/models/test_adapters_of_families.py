"""Adapters and coarse weights in the other families: reached by gradients, equal over a forest and alone, merged and saved."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from torch import Tensor

from actdeny_train.models.adapters import adapted_layers, adapter_parameters, save_adapter
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.family import PARTS, Family
from actdeny_train.models.heads import LanguageHead
from actdeny_train.models.tuning import AdapterSettings, TuningSettings, make_plain, prepare, set_modes

TUNINGS: dict[str, tuple[tuple[str, ...], TuningSettings]] = {
    "LoRA everywhere": (PARTS, TuningSettings(adapter=AdapterSettings(parts=PARTS, rank=4))),
    "DoRA beside a full projector": (
        ("projector", "llm"),
        TuningSettings(adapter=AdapterSettings(parts=("llm",), dora=True)),
    ),
    "QLoRA": (
        ("projector", "llm"),
        TuningSettings(adapter=AdapterSettings(parts=("llm",)), frozen={"vision": "int8", "llm": "nf4"}),
    ),
    "int8": (("vision",), TuningSettings(adapter=AdapterSettings(parts=("vision",)), frozen={"vision": "int8"})),
}


@pytest.fixture(params=["ovis2_5", "video_llama_3"])
def load(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Family]:
    """Load a tiny random model, fresh each time; or another checkpoint of its family."""
    tiny = importlib.import_module(f"actdeny_train.models.tiny_{request.param}")
    family = importlib.import_module(f"actdeny_train.models.{request.param}")
    folder = tmp_path_factory.mktemp("tiny") / request.param
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_layers": 2, "num_vision_layers": 2, "vocab_size": 400}
    tiny.build(folder, seed=0, size=tiny.TinySize(**sizes))
    return lambda place=folder: family.load(str(place), tokens_per_frame=(4, 4))  # type: ignore[no-any-return]


@pytest.fixture
def asked(make_frames: Callable[..., Any], make_question: Callable[..., Any]) -> list[Asked]:
    """Two trees, every answer a leaf."""
    words = make_question("Does a person draw a bow?", ["yes", "no"])
    return [
        Asked.for_scoring([make_frames(4, 56, 84, seed=1)], [words, make_question("Which?", ["1", "10"], target=1)]),
        Asked.for_scoring([make_frames(2, seed=2)], [words]),
    ]


def adapt(family: Family, name: str) -> None:
    """Prepare a model as a run would, with weights as if it had been trained."""
    rates, tuning = TUNINGS[name]
    prepare(family, rates, tuning)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in family.parameters():
            if parameter.requires_grad:
                parameter.add_(0.03 * torch.randn(parameter.shape, generator=generator))
    set_modes(family)


def logprobs(family: Family, asked: Sequence[Asked]) -> Tensor:
    batch = Batch.of(family.processor, asked)
    return LanguageHead().token_logprobs(family, batch.forest, family(batch.forest, family.encode(batch.visual)))


@pytest.mark.parametrize("name", TUNINGS)
def test_a_forest_is_its_trees_and_every_adapter_is_reached(
    load: Callable[..., Family], asked: list[Asked], name: str
) -> None:
    family = load()
    adapt(family, name)
    together = logprobs(family, asked)
    alone = torch.cat([logprobs(family, [one]) for one in asked])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)
    together.mean().backward()
    assert all(p.grad is not None for _, layer in adapted_layers(family) for p in adapter_parameters(layer))
    trained = {part for part, named in family.part_parameters().items() if any(p.grad is not None for _, p in named)}
    assert trained == set(TUNINGS[name][0])
    assert not any(p.grad is not None for p in family.parameters() if not p.requires_grad)


@pytest.mark.parametrize("name", TUNINGS)
def test_the_merged_model_and_the_saved_one_compute_the_same(
    load: Callable[..., Family], asked: list[Asked], tmp_path: Path, name: str
) -> None:
    family, base = load(), load()
    adapt(family, name)
    with torch.no_grad():
        live = logprobs(family, asked)
        assert float((live - logprobs(base, asked)).abs().max()) > 0.02
        make_plain(family)
        torch.testing.assert_close(logprobs(family, asked), live, rtol=1e-5, atol=2e-5)
        family.save(tmp_path / "model")
        torch.testing.assert_close(logprobs(load(tmp_path / "model"), asked), live, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["LoRA everywhere", "DoRA beside a full projector"])
def test_peft_puts_the_saved_adapter_onto_the_base(
    load: Callable[..., Family], asked: list[Asked], tmp_path: Path, name: str
) -> None:
    family, base = load(), load()
    adapt(family, name)
    save_adapter(family, tmp_path, "base", None)
    merged = peft.PeftModel.from_pretrained(base.model, tmp_path).merge_and_unload()
    base.model = merged
    with torch.no_grad():
        torch.testing.assert_close(logprobs(base, asked), logprobs(family, asked), rtol=1e-5, atol=2e-5)
