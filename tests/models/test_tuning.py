"""Which parameters train: gradients, modes, and what is recomputed."""

import itertools

import pytest
import torch
from torch import nn

from actdeny_train.errors import ConfigError
from actdeny_train.models.family import PARTS, Visual
from actdeny_train.models.tuning import set_modes, train_only

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
