"""Each mistake that a port of Ovis2.5 can make, made on purpose: the goldens must break, or they would prove nothing."""

import functools

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.transforms.v2 import functional as vision

from actdeny_train.models.ovis2_5 import vision as tower_module
from actdeny_train.models.ovis2_5.model import Ovis25Model

CASE = "video"


@pytest.fixture
def distance(ovis_goldens):
    """Return how far the probabilities of a case lie from the official ones: ``distance(change)``, where ``change`` gets the model."""
    case = ovis_goldens.case(CASE)

    def measure(change):
        model = ovis_goldens.model()
        change(model)
        with torch.no_grad():
            features = model.visual_tokenizer.features(case["in.pixel_values"], case["in.grid_thws"])
            ours = model.visual_tokenizer.probabilities(features)
        return float((ours - case["out.visual_tokens"][:, :-4]).abs().max())

    return measure


def change_every(model, kind, make):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, kind):
                setattr(module, name, make(child))


def apply_last_norm(model):
    transformer = model.visual_tokenizer.vit.vision_model
    transformer.encoder.register_forward_hook(lambda _, __, out: transformer.post_layernorm(out))


def attend_across_frames(model):
    for layer in model.visual_tokenizer.vit.vision_model.encoder.layers:
        layer.self_attn.register_forward_pre_hook(lambda _, args: (args[0], [sum(args[1])], args[2]))


def exact_gelu(model):
    for layer in model.visual_tokenizer.vit.vision_model.encoder.layers:
        layer.mlp.activation = nn.GELU()


def angles_in_another_order(model):
    for layer in model.visual_tokenizer.vit.vision_model.encoder.layers:
        layer.self_attn.register_forward_pre_hook(
            lambda _, args: (args[0], args[1], tuple(half.flip(1) for half in args[2]))
        )


def words_of_the_vocabulary_moved_by_one(model):
    model.visual_tokenizer.head[1].register_forward_pre_hook(lambda _, args: (args[0].roll(1, dims=1),))


def test_without_a_mistake_nothing_is_broken(distance):
    assert distance(lambda model: None) < 1e-5


@pytest.mark.parametrize(
    ("mistake", "least"),
    [
        (apply_last_norm, 0.1),
        (attend_across_frames, 0.1),
        (exact_gelu, 2e-5),
        (angles_in_another_order, 1e-2),
        (words_of_the_vocabulary_moved_by_one, 1e-2),
    ],
)
def test_a_mistake_in_the_tower(distance, mistake, least):
    assert distance(mistake) > least


@pytest.mark.parametrize(
    ("changed", "least"),
    [({"mode": "bilinear"}, 0.05), ({"antialias": True}, 0.05), ({"align_corners": True}, 0.05)],
    ids=["bilinear", "antialias", "aligned corners"],
)
def test_another_interpolation_of_the_learned_positions(distance, monkeypatch, changed, least):
    interpolate = torch.nn.functional.interpolate

    def other(unit, **settings):
        return interpolate(unit, **{**settings, **changed})

    monkeypatch.setattr(tower_module.functional, "interpolate", other)
    assert distance(lambda model: None) > least


def wrong_block_epsilon(model):
    change_every(model.visual_tokenizer.vit, nn.LayerNorm, functools.partial(with_epsilon, eps=1e-5))


def wrong_head_epsilon(model):
    model.visual_tokenizer.head[1] = with_epsilon(model.visual_tokenizer.head[1], 1e-6)


def with_epsilon(norm, eps):
    changed = nn.LayerNorm(norm.normalized_shape, eps=eps)
    changed.load_state_dict(norm.state_dict())
    return changed


@pytest.mark.parametrize(
    ("mistake", "broken"), [(wrong_block_epsilon, [False, True, True]), (wrong_head_epsilon, [True, False, False])]
)
def test_a_wrong_epsilon_shows_through_the_probes(ovis_goldens, epsilon_probes, mistake, broken):
    model = ovis_goldens.model()
    mistake(model)
    far = [float((ours - theirs).abs().max()) > 1e-4 for ours, theirs in epsilon_probes(model, ovis_goldens.variants())]
    assert far == broken


def test_the_indicators_of_images_for_those_of_a_video(ovis_goldens, monkeypatch):
    case, model = ovis_goldens.case(CASE), ovis_goldens.model()
    swapped = model.vte.weight[[-2, -1, -4, -3]]
    monkeypatch.setattr(Ovis25Model, "indicators", lambda self: swapped)
    with torch.no_grad():
        out = model(case["in.input_ids"], None, case["in.pixel_values"], case["in.grid_thws"], case["in.labels"])
    assert abs(float(out.loss) - float(case["out.loss"])) > 1e-3


def test_torchvision_resizes_otherwise_by_one_grey_level(ovis_goldens):
    """So pixels are compared bit for bit, and PIL is used."""
    goldens, far = ovis_goldens.tensors("preprocess"), 0
    for case in ovis_goldens.json("preprocess"):
        frames = goldens[f"in.{case['key']}.frames"].permute(0, 3, 1, 2)
        t, h, w = case["grid_thw"]
        resized = vision.resize(frames, [16 * h, 16 * w], antialias=True)
        ours = (
            resized.reshape(t, 3, h // 2, 2, 16, w // 2, 2, 16).permute(0, 2, 5, 3, 6, 1, 4, 7).reshape(t * h * w, -1)
        )
        theirs = goldens.get(f"out.{case['key']}.grey")
        if theirs is None:
            theirs = ((goldens[f"out.{case['key']}.pixel_values"] / 2 + 0.5) * 255).round()
        difference = np.abs(ours.numpy().astype(int) - theirs.numpy().astype(int)).max()
        assert difference <= 1
        far += int(difference)
    assert far > 0
