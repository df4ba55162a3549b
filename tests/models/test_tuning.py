"""Which parameters train: gradients, modes, and what is recomputed."""

import itertools

import pytest
import torch
from torch import nn

from actdeny_train.errors import ConfigError
from actdeny_train.models.family import PARTS, Visual
from actdeny_train.models.tuning import AdapterSettings, TuningSettings, set_modes, train_only

CHOICES = [parts for n in (1, 2, 3) for parts in itertools.combinations(PARTS, n)]


@pytest.mark.parametrize("parts", CHOICES, ids="+".join)
def test_only_the_chosen_parts_train(tiny_family, parts):
    family = tiny_family()
    train_only(family, parts)
    trained = {part: {p.requires_grad for _, p in named} for part, named in family.part_parameters().items()}
    assert trained == {part: {part in parts} for part in PARTS}


@pytest.mark.parametrize("parts", CHOICES, ids="+".join)
def test_frozen_parts_are_in_eval_mode(tiny_family, parts):
    """The projector may train inside a frozen tower, or be frozen inside a tower that trains."""
    family = tiny_family()
    train_only(family, parts)
    for call_before in (family.train, family.eval):
        call_before()
        set_modes(family)
        tower, merger = family.model.model.visual, family.model.model.visual.merger
        assert {m.training for m in merger.modules()} == {"projector" in parts}
        inside = set(merger.modules())
        assert {m.training for m in tower.modules() if m not in inside} == {"vision" in parts}
        assert {m.training for m in family.model.model.language_model.modules()} == {"llm" in parts}
        assert family.model.lm_head.training is ("llm" in parts)


def test_a_later_choice_replaces_an_earlier_one(tiny_family):
    family = tiny_family()
    train_only(family, ["vision"])
    train_only(family, ["llm"])
    assert not any(p.requires_grad for p in family.model.model.visual.parameters())


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["lm"], "Unknown part 'lm': a model's parts are vision, projector, llm. Did you mean 'llm'?"),
        (["llm", "head"], "Unknown part 'head': a model's parts are vision, projector, llm."),
        ([], "No part is trained. Name at least one of vision, projector, llm."),
    ],
)
def test_choices_that_cannot_be(tiny_family, parts, text):
    with pytest.raises(ConfigError) as caught:
        train_only(tiny_family(), parts)
    assert str(caught.value) == text


@pytest.mark.parametrize("parts", [("vision",), ("projector",), ("llm",), PARTS], ids="+".join)
def test_visual_tokens_carry_gradients_only_where_the_tower_trains(tiny_family, make_frames, parts):
    family = tiny_family()
    train_only(family, parts)
    tokens = family.encode(Visual.join([family.processor.visual(make_frames(2))]))
    assert tokens.requires_grad is bool({"vision", "projector"} & set(parts))


@pytest.mark.parametrize("parts", [("vision",), ("llm",), PARTS], ids="+".join)
def test_blocks_of_trained_parts_are_recomputed(tiny_family, make_frames, parts):
    """With checkpointing a trained block runs again in the backward pass, a frozen one does not."""
    family = tiny_family()
    family.checkpoint_gradients()
    train_only(family, parts)
    set_modes(family)
    blocks = {"vision": family.model.model.visual.blocks[0], "llm": family.model.model.language_model.layers[0]}
    runs = dict.fromkeys(blocks, 0)
    for part, block in blocks.items():
        first = next(m for m in block.modules() if isinstance(m, nn.Linear))
        first.register_forward_hook(lambda *_, part=part: runs.update({part: runs[part] + 1}))
    tokens = family.encode(family.processor.visual(make_frames(2)))
    hidden = family.model.model.language_model(
        inputs_embeds=torch.cat([tokens, family.model.model.language_model.embed_tokens.weight[:2]])[None],
        use_cache=False,
    ).last_hidden_state
    hidden.sum().backward()
    assert runs == {part: 1 + (part in parts) for part in blocks}


def test_some_layers_of_a_part_train(tiny_family):
    family = tiny_family()
    train_only(family, ["projector", "llm"], {"llm": ["layers.-1:", "language_model.norm"]})
    trained = {name for name, p in family.named_parameters() if p.requires_grad}
    inner = family.model.model
    expected = [
        *inner.visual.merger.parameters(),
        *inner.language_model.layers[1].parameters(),
        inner.language_model.norm.weight,
    ]
    assert {id(family.get_parameter(name)) for name in trained} == {id(p) for p in expected}
    set_modes(family)
    assert inner.language_model.training and not inner.visual.patch_embed.training


def test_a_pattern_that_matches_no_parameter_is_told_with_names_that_there_are(tiny_family):
    with pytest.raises(ConfigError) as caught:
        train_only(tiny_family(), ["llm"], {"llm": ["layers.-1:", "layrs.0"]})
    assert str(caught.value).startswith(
        "tuning.only.llm: 'layrs.0' matches no parameter of llm. Did you mean 'layers'? There are 26, such as "
        "model.model.language_model.embed_tokens.weight, model.model.language_model.layers."
    )
    assert ", model.model.language_model.norm.weight. A pattern is one or more segments" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"parts": ("lm",)},
            "tuning.adapter.parts names 'lm', but a model's parts are vision, projector, llm. Did you mean 'llm'?",
        ),
        (
            {"parts": ()},
            "tuning.adapter.parts is empty. Name at least one of vision, projector, llm, or remove tuning.adapter.",
        ),
        ({"parts": ("llm",), "rank": 0}, "tuning.adapter.rank is 0, but must be at least 1."),
        ({"parts": ("llm",), "alpha": -1}, "tuning.adapter.alpha is -1, but must be at least 1."),
        (
            {"parts": ("llm",), "dropout": 0.05},
            "tuning.adapter.dropout is 0.05, but must be 0. All questions about a clip share one pass, so they would miss the same values, "
            "and a forest would no longer compute what its sequences compute alone. Use a smaller tuning.adapter.rank or a larger "
            "optimizer.weight_decay against overfitting.",
        ),
        (
            {"parts": ("llm",), "targets": {"vision": ("qkv",)}},
            "tuning.adapter.targets.vision: tuning.adapter.parts does not name vision (it names llm). Add it there, or remove the targets.",
        ),
    ],
)
def test_adapters_that_cannot_be(settings, text):
    with pytest.raises(ConfigError) as caught:
        AdapterSettings(**settings)
    assert str(caught.value) == text


LLM = AdapterSettings(parts=("llm",))


@pytest.mark.parametrize(
    ("settings", "rates", "text"),
    [
        (
            {"adapter": LLM},
            {"projector": 1.0},
            "tuning.adapter.parts names llm, which has no learning rate. Give the adapter's: optimizer.lr.llm=1e-4.",
        ),
        (
            {"only": {"lllm": ("layers",)}},
            {"llm": 1.0},
            "tuning.only names 'lllm', but a model's parts are vision, projector, llm. Did you mean 'llm'?",
        ),
        (
            {"frozen": {"head": "int8"}},
            {"llm": 1.0},
            "tuning.frozen names 'head', but a model's parts are vision, projector, llm.",
        ),
        (
            {"adapter": LLM, "only": {"llm": ("layers.-1:",)}},
            {"llm": 1.0},
            "tuning.only.llm: llm trains by adapter, and its own weights are frozen. Choose the layers that are adapted with "
            "tuning.adapter.targets.llm.",
        ),
        (
            {"only": {"vision": ("blocks",)}},
            {"llm": 1.0},
            "tuning.only.vision chooses what trains of vision, which has no learning rate. Give one (optimizer.lr.vision), or remove "
            "tuning.only.vision.",
        ),
        ({"only": {"llm": ()}}, {"llm": 1.0}, "tuning.only.llm is empty, so nothing of llm would train. Remove it."),
        (
            {"frozen": {"llm": "nf4"}},
            {"llm": 1.0},
            "tuning.frozen.llm is nf4, but llm trains in full, and updates would vanish in coarse weights. Name it in "
            "tuning.adapter.parts, or remove optimizer.lr.llm or tuning.frozen.llm.",
        ),
        (
            {"frozen": {"vision": "bfloat16"}},
            {"llm": 1.0},
            "tuning.frozen.vision is bfloat16, which goes with hardware.precision=bfloat16 alone (now float32): there, float32 weights "
            "would be rounded alike in every step. Set that precision, or choose int8 or nf4.",
        ),
    ],
)
def test_settings_that_contradict_the_rates_or_the_precision(settings, rates, text):
    with pytest.raises(ConfigError) as caught:
        TuningSettings(**settings).check(rates, "float32")
    assert str(caught.value) == text


def test_settings_that_go_together():
    tuning = TuningSettings(
        adapter=LLM, only={"vision": ("blocks.-1:",)}, frozen={"vision": "int8", "llm": "nf4", "projector": "bfloat16"}
    )
    tuning.check({"vision": 1.0, "llm": 1.0}, "bfloat16")
    TuningSettings().check({"llm": 1.0}, "float32")
