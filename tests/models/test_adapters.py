"""LoRA and DoRA in a family: what trains, the law of forests with adapters on, merging and saving against peft's own."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForImageTextToText

from actdeny_train.errors import ConfigError
from actdeny_train.models.adapters import adapted_layers, full_modules, merged_weight, save_adapter
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.family import PARTS, Visual
from actdeny_train.models.heads import LanguageHead
from actdeny_train.models.quantised import StoredLinear
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.models.tuning import AdapterSettings, TuningSettings, make_plain, prepare, set_modes

MakeFamily = Callable[..., Qwen25VL]
KINDS = {"LoRA": {}, "DoRA": {"dora": True}}


def adapt(
    family: Qwen25VL,
    parts: Sequence[str] = ("llm",),
    full: Sequence[str] = ("projector",),
    frozen: dict[str, Any] | None = None,
    **settings: Any,
) -> Qwen25VL:
    """Attach adapters of rank 4 and give them weights as if they had been trained, far from zero."""
    adapter = AdapterSettings(parts=tuple(parts), rank=4, alpha=8, **settings)
    prepare(family, [*parts, *full], TuningSettings(adapter=adapter, frozen=frozen or {}), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in family.parameters():
            if parameter.requires_grad:
                parameter.add_(0.03 * torch.randn(parameter.shape, generator=generator))
    set_modes(family)
    return family


@pytest.fixture
def asked(make_frames: Callable[..., Any], make_question: Callable[..., Any]) -> list[Asked]:
    """Two trees over two clips, every answer a leaf."""
    numbers = make_question("Which action?\n1. archery\n2. bowling", ["1", "2", "10", "11"], target=2)
    words = make_question("Does a person draw a bow?", ["yes", "no"])
    return [
        Asked.for_scoring([make_frames(4, 56, 84, seed=1)], [numbers, words]),
        Asked.for_scoring([make_frames(2, seed=2)], [words, numbers]),
    ]


def sequences_of(family: Qwen25VL, asked: Sequence[Asked]) -> Iterator[tuple[Any, list[Visual]]]:
    for one in asked:
        visuals = [family.processor.visual(frames) for frames in one.frames]
        for question, choices in zip(one.questions, one.choices, strict=True):
            for choice in choices:
                answer = question.answers[choice]
                yield family.processor.sequence(visuals, question.text, answer, question=0, choice=choice), visuals


def forest_logprobs(family: Qwen25VL, asked: Sequence[Asked]) -> Tensor:
    batch = Batch.of(family.processor, asked)
    hidden = family(batch.forest, family.encode(batch.visual))
    return LanguageHead().token_logprobs(family, batch.forest, hidden)


def logits(model: Any, sequence: Any, visuals: Sequence[Visual]) -> Tensor:
    with torch.no_grad():
        return model.eval()(  # type: ignore[no-any-return]
            input_ids=torch.from_numpy(sequence.ids)[None],
            position_ids=torch.from_numpy(sequence.positions)[:, None],
            mm_token_type_ids=torch.from_numpy(np.where(sequence.visual >= 0, 2, 0))[None],
            **visuals[0].inputs,
        ).logits


@pytest.mark.parametrize("parts", [("llm",), ("vision",), ("projector",), PARTS], ids="+".join)
def test_adapters_train_and_their_base_does_not(tiny_family: MakeFamily, parts: tuple[str, ...]) -> None:
    plain, family = tiny_family(), tiny_family()
    full = [part for part in PARTS if part not in parts]
    prepare(family, PARTS, TuningSettings(adapter=AdapterSettings(parts=parts)))
    base = {part: [name for name, _ in named] for part, named in plain.part_parameters().items()}
    counted = [name for named in family.part_parameters().values() for name, _ in named]
    assert sorted(counted) == sorted(name for name, _ in family.named_parameters()), "every parameter once"
    for part, named in family.part_parameters().items():
        own = [(name.replace(".base_layer.", "."), p) for name, p in named if "lora_" not in name]
        added = [(name, p) for name, p in named if "lora_" in name]
        assert [name for name, _ in own] == base[part], "base weights stay in their part"
        assert all(p.requires_grad is (part in full) for _, p in own)
        assert bool(added) is (part in parts) and all(p.requires_grad and p.dtype == torch.float32 for _, p in added)
        if part in parts:
            linears = [n for n in base[part] if plain.get_parameter(n).ndim == 2 and "embed" not in n]
            assert len(added) == 2 * len(linears), "by default every linear layer but the vocabulary projection"


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("frozen", [None, "bfloat16", "int8", "nf4"])
def test_new_adapters_change_nothing(
    tiny_family: MakeFamily, asked: list[Asked], settings: dict[str, Any], frozen: Any
) -> None:
    family, bare = tiny_family(), tiny_family()
    tuning = TuningSettings(frozen={"llm": frozen} if frozen else {})
    prepare(bare, ["projector"], tuning)
    prepare(
        family,
        ["projector", "llm"],
        TuningSettings(adapter=AdapterSettings(parts=("llm",), **settings), frozen=tuning.frozen),
    )
    precision = torch.bfloat16 if frozen == "bfloat16" else torch.float32
    with torch.no_grad(), torch.autocast("cpu", precision, enabled=frozen == "bfloat16"):
        tolerance = 2e-2 if frozen == "bfloat16" and settings else 1e-5
        torch.testing.assert_close(
            forest_logprobs(family, asked), forest_logprobs(bare, asked), rtol=tolerance, atol=tolerance
        )


def test_the_seed_draws_the_first_weights_and_nothing_else_does(tiny_family: MakeFamily) -> None:
    def first(seed: int) -> dict[str, Tensor]:
        family = tiny_family()
        torch.rand(seed + 3)
        state = torch.get_rng_state()
        prepare(family, ["llm"], TuningSettings(adapter=AdapterSettings(parts=("llm",))), seed)
        assert torch.equal(torch.get_rng_state(), state), "the run's own stream is not touched"
        return {name: p.detach() for name, p in family.named_parameters() if p.requires_grad}

    one, again, other = first(1), first(1), first(2)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert all(torch.equal(one[name], other[name]) == ("lora_B" in name) for name in one)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    ("frozen", "dtype", "tolerance"),
    [
        (None, torch.float64, 1e-9),
        (None, torch.float32, 1e-5),
        ("int8", torch.float32, 1e-5),
        ("nf4", torch.float32, 1e-5),
    ],
    ids=["float64", "float32", "int8", "nf4"],
)
def test_a_forest_scores_as_its_sequences_alone(
    tiny_family: MakeFamily,
    asked: list[Asked],
    alone: Callable[..., Tensor],
    settings: dict[str, Any],
    frozen: Any,
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    family = adapt(
        tiny_family(), ("vision", "llm"), frozen={"llm": frozen, "vision": "int8"} if frozen else None, **settings
    ).to(dtype)
    with torch.no_grad():
        forest = forest_logprobs(family, asked)
        expected = torch.cat([alone(family.model, *pair) for pair in sequences_of(family, asked)])
    assert forest.std() > 0.5
    torch.testing.assert_close(forest, expected, rtol=0, atol=tolerance * float(forest.abs().max()))


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("frozen", [None, "int8", "nf4"])
@pytest.mark.parametrize("checkpointed", [False, True], ids=["kept", "recomputed"])
def test_a_forest_has_the_gradients_of_its_sequences_alone(
    tiny_family: MakeFamily,
    asked: list[Asked],
    alone: Callable[..., Tensor],
    settings: dict[str, Any],
    frozen: Any,
    checkpointed: bool,
) -> None:
    family = tiny_family()
    if checkpointed:
        family.checkpoint_gradients()
    adapt(family, ("vision", "llm"), frozen={"llm": frozen, "vision": "int8"} if frozen else None, **settings)
    gradients = []
    for loss in (
        lambda: forest_logprobs(family, asked).mean(),
        lambda: torch.cat([alone(family.model, *pair) for pair in sequences_of(family, asked)]).mean(),
    ):
        family.zero_grad()
        loss().backward()
        gradients.append({name: p.grad.clone() for name, p in family.named_parameters() if p.grad is not None})
    ours, theirs = gradients
    assert ours.keys() == theirs.keys() == {name for name, p in family.named_parameters() if p.requires_grad}
    scale = max(float(g.abs().max()) for g in theirs.values())
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) / scale < 1e-5


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("parts", [("llm",), ("vision", "projector", "llm")], ids="+".join)
def test_merged_weights_are_pefts_own(
    tiny_family: MakeFamily, tiny_folder: Path, tmp_path: Path, settings: dict[str, Any], parts: tuple[str, ...]
) -> None:
    family = adapt(tiny_family(), parts, full=[p for p in ("projector",) if p not in parts], **settings)
    save_adapter(family, tmp_path, str(tiny_folder), None)
    loaded = peft.PeftModel.from_pretrained(AutoModelForImageTextToText.from_pretrained(tiny_folder), tmp_path)
    theirs = dict(loaded.merge_and_unload().named_parameters())
    make_plain(family)
    ours = dict(family.model.named_parameters())
    assert ours.keys() == theirs.keys()
    base, changed = dict(tiny_family().model.named_parameters()), 0
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter, theirs[name], rtol=1e-6, atol=1e-6, msg=name)
        changed += not torch.equal(parameter, base[name])
    assert changed > 10


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    ("parts", "full"),
    [(("llm",), ("projector",)), (("llm",), ()), (("vision",), ("projector",)), (("projector",), ("vision",))],
)
def test_peft_loads_the_adapter_onto_the_base_and_computes_what_we_do(
    tiny_family: MakeFamily,
    tiny_folder: Path,
    tmp_path: Path,
    asked: list[Asked],
    settings: dict[str, Any],
    parts: tuple[str, ...],
    full: tuple[str, ...],
) -> None:
    family = adapt(tiny_family(), parts, full, **settings)
    save_adapter(family, tmp_path, str(tiny_folder), "abc")
    config = json.loads((tmp_path / "adapter_config.json").read_text(encoding="utf-8"))
    assert (config["base_model_name_or_path"], config["revision"]) == (str(tiny_folder), "abc")
    assert (config["r"], config["lora_alpha"], config["use_dora"]) == (4, 8, bool(settings))
    base = AutoModelForImageTextToText.from_pretrained(tiny_folder)
    sequence, visuals = next(sequences_of(family, asked))
    before = logits(base, sequence, visuals)
    loaded = peft.PeftModel.from_pretrained(base, tmp_path)
    live = logits(family.model, sequence, visuals)
    assert float((live - before).abs().max()) > 0.05
    torch.testing.assert_close(logits(loaded, sequence, visuals), live, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("frozen", [None, "int8", "nf4"])
def test_a_merged_model_is_plain_and_computes_what_it_did(
    tiny_family: MakeFamily, tmp_path: Path, asked: list[Asked], settings: dict[str, Any], frozen: Any
) -> None:
    family = adapt(
        tiny_family(), ("vision", "llm"), frozen={"llm": frozen, "vision": "int8"} if frozen else None, **settings
    )
    sequence, visuals = next(sequences_of(family, asked))
    live = logits(family.model, sequence, visuals)
    make_plain(family)
    names = [name for name, _ in tiny_family().named_parameters()]
    assert [name for name, _ in family.named_parameters()] == names, "and in the same order"
    assert not any(isinstance(m, StoredLinear) for m in family.modules()) and not hasattr(family.model, "peft_config")
    family.save(tmp_path)
    model = AutoModelForImageTextToText.from_pretrained(tmp_path)
    torch.testing.assert_close(logits(model, sequence, visuals), live, rtol=1e-5, atol=1e-5)


def test_lengths_are_those_that_dora_learned(tiny_family: MakeFamily) -> None:
    family = adapt(tiny_family(), dora=True)
    for _, layer in adapted_layers(family):
        norms = torch.linalg.norm(merged_weight(layer), dim=1)
        torch.testing.assert_close(norms, layer.lora_magnitude_vector["default"].weight.abs(), rtol=1e-5, atol=1e-6)


def test_layers_are_chosen_by_patterns(tiny_family: MakeFamily) -> None:
    def adapted(parts: Sequence[str], **targets: tuple[str, ...]) -> set[str]:
        family = tiny_family()
        prepare(family, parts, TuningSettings(adapter=AdapterSettings(parts=tuple(parts), targets=targets)))
        return {name.removeprefix("model.model.") for name, _ in adapted_layers(family)}

    assert adapted(["llm"], llm=("layers.-1:.self_attn",)) == {
        f"language_model.layers.1.self_attn.{name}_proj" for name in "qkvo"
    }
    both = adapted(["vision", "llm"], vision=("qkv",), llm=("q_proj", "v_proj"))
    assert both == {
        *(f"visual.blocks.{i}.attn.qkv" for i in range(2)),
        *(f"language_model.layers.{i}.self_attn.{name}_proj" for i in range(2) for name in "qv"),
    }
    with pytest.raises(ConfigError) as caught:
        adapted(["llm"], llm=("q_prj",))
    text = str(caught.value)
    assert text.startswith(
        "tuning.adapter.targets.llm: 'q_prj' matches no linear layer of llm. Did you mean 'q_proj' or 'v_proj'? There are 14, such as "
        "model.model.language_model.layers.0.self_attn.q_proj, "
    )
    with pytest.raises(ConfigError, match=r"'lm_head' matches no linear layer of llm\."):
        adapted(["llm"], llm=("lm_head",))  # it shares its weights with the embedding


def test_a_pattern_that_matches_nothing_leaves_the_model_as_it_was(tiny_family: MakeFamily) -> None:
    family = tiny_family()
    names = [name for name, _ in family.named_parameters()]
    settings = AdapterSettings(parts=("llm",), targets={"llm": ("nothing",)})
    with pytest.raises(ConfigError):
        prepare(family, ["llm"], TuningSettings(adapter=settings, frozen={"llm": "int8"}))
    assert [name for name, _ in family.named_parameters()] == names


def test_modules_that_train_in_full_are_named_as_large_as_they_can_be(tiny_family: MakeFamily) -> None:
    def modules(parts: Sequence[str], full: Sequence[str]) -> list[str]:
        return full_modules(adapt(tiny_family(), parts, full).model)

    assert modules(["llm"], []) == []
    assert modules(["llm"], ["projector"]) == ["model.visual.merger"]
    assert modules(["llm"], ["vision", "projector"]) == ["model.visual"]
    assert modules(["projector"], ["llm"]) == ["model.language_model", "lm_head"]
    assert modules(["llm"], ["vision"]) == [
        "model.visual.patch_embed",
        "model.visual.blocks.0",
        "model.visual.blocks.1",
    ]
