"""The family around Ovis2.5: parts, encoding in chunks, saving and loading in the official layout, foreign registrations."""

import copy
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoConfig, PreTrainedConfig, conversion_mapping
from transformers.core_model_loading import WeightRenaming
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from actdeny_train.errors import CheckpointError
from actdeny_train.models import ovis2_5, tiny_ovis2_5
from actdeny_train.models.family import PARTS, Visual
from actdeny_train.models.ovis2_5 import Ovis25
from actdeny_train.models.ovis2_5.config import Ovis25Config
from actdeny_train.models.ovis2_5.model import Ovis25Model

NAMES = {
    "vision": ("model.visual_tokenizer.vit.",),
    "projector": ("model.visual_tokenizer.head.", "model.vte."),
    "llm": ("model.llm.",),
}


@pytest.fixture
def folder(tiny_ovis_folder, tmp_path):
    """A copy of the tiny checkpoint, to be changed."""
    return shutil.copytree(tiny_ovis_folder, tmp_path / "checkpoint")


@pytest.fixture
def untied(tiny_ovis, tiny_ovis_folder):
    config = Ovis25Config.from_pretrained(tiny_ovis_folder)
    config.llm_config.tie_word_embeddings = config.tie_word_embeddings = False
    return Ovis25(Ovis25Model(config), tiny_ovis().processor)


def rewrite(folder, change, name="config.json"):
    config = json.loads((folder / name).read_text())
    change(config)
    (folder / name).write_text(json.dumps(config))


def message(folder):
    with pytest.raises(CheckpointError) as caught:
        ovis2_5.load(str(folder))
    return str(caught.value)


# Parts


@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_lies_in_exactly_one_part(tiny_ovis, untied, tied):
    family = tiny_ovis() if tied else untied
    parts = {part: [name for name, _ in named] for part, named in family.part_parameters().items()}
    assert list(parts) == list(PARTS)
    for part, names in parts.items():
        assert names and all(name.startswith(NAMES[part]) for name in names), part
    found = [id(p) for named in family.part_parameters().values() for _, p in named]
    assert sorted(found) == sorted({id(p) for p in family.parameters()})
    assert ("model.llm.lm_head.weight" in parts["llm"]) is not tied
    assert {name.rsplit(".", 2)[-2] for name in parts["projector"]} == {"0", "1", "vte"}


def test_modules_of_parts_hold_their_parameters_and_no_others(tiny_ovis):
    family = tiny_ovis()
    for part, named in family.part_parameters().items():
        inside = {id(p) for module in family.part_modules()[part] for p in module.parameters()}
        assert inside == {id(p) for _, p in named}, part


# Encoding


def test_a_clip_s_tokens_lie_between_its_indicators_and_clips_do_not_mix(tiny_ovis, make_frames):
    family = tiny_ovis(tokens_per_frame=(4, 30))
    visuals = [
        family.processor.visual(make_frames(3, 140, 168)),
        family.processor.visual(make_frames(4, 56, 84, seed=1)),
    ]
    with torch.no_grad():
        joined = family.encode(Visual.join(visuals))
        alone = [family.encode(v) for v in visuals]
        atoms = [family.model.visual_embeds(**v.inputs) for v in visuals]
    assert joined.shape == (sum(v.num_tokens for v in visuals), 64)
    torch.testing.assert_close(joined, torch.cat(alone), rtol=1e-5, atol=1e-6)
    for tokens, inner in zip(alone, atoms, strict=True):
        assert torch.equal(tokens[0], family.model.vte.weight[-2])
        assert torch.equal(tokens[-1], family.model.vte.weight[-1])
        torch.testing.assert_close(tokens[1:-1], inner, rtol=1e-5, atol=1e-6)


def test_a_frame_does_not_see_the_others(tiny_ovis, make_frames):
    family = tiny_ovis()
    clip, other = (family.processor.visual(make_frames(4, seed=seed)) for seed in (0, 1))
    mixed = clip.inputs["pixel_values"].clone()
    mixed[16:] = other.inputs["pixel_values"][16:]  # all frames but the first
    with torch.no_grad():
        tokens = [
            family.encode(Visual({**clip.inputs, "pixel_values": p}, clip.num_tokens))
            for p in (clip.inputs["pixel_values"], mixed)
        ]
    torch.testing.assert_close(tokens[0][:5], tokens[1][:5], rtol=1e-6, atol=1e-7)
    assert (tokens[0][5:-1] - tokens[1][5:-1]).abs().max() > 1e-4


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("recomputed", [False, True])
def test_chunks_give_what_all_at_once_gives(tiny_ovis, monkeypatch, size, recomputed):
    """The distribution over 65,536 words is never held for all tokens; results and gradients are those of the whole."""
    family = tiny_ovis().double().train()
    tokenizer, table = family.model.visual_tokenizer, family.model.vte.weight
    features = torch.randn(33, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    direction = torch.randn(33, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weights = (features, *tokenizer.head.parameters(), table)
    whole = tokenizer.probabilities(features) @ table[:-4]
    expected = torch.autograd.grad((whole * direction).sum(), weights)
    if recomputed:
        family.checkpoint_gradients()
    largest = 0
    probabilities = tokenizer.probabilities

    def watched(chunk):
        nonlocal largest
        largest = max(largest, len(chunk))
        return probabilities(chunk)

    monkeypatch.setattr(tokenizer, "probabilities", watched)
    monkeypatch.setattr("actdeny_train.models.ovis2_5.model.CHUNK", size)
    ours = tokenizer.embed(features, table)
    torch.testing.assert_close(ours, whole, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(torch.autograd.grad((ours * direction).sum(), weights), expected, rtol=1e-10, atol=1e-12)
    assert largest == min(size, 33)


def test_recomputing_keeps_no_distribution_until_the_backward_pass(tiny_ovis, make_frames):
    family = tiny_ovis(tokens_per_frame=(16, 16)).train()
    visual = family.processor.visual(make_frames(2, 128, 128))

    def kept():
        """Count what is kept for the backward pass with one number for each of 32 visual tokens and 64 words."""
        shapes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: shapes.append(tuple(t.shape)) or t, lambda t: t):
            family.encode(visual)
        return shapes.count((32, 64))

    assert kept() >= 2  # before and after the softmax
    family.checkpoint_gradients()
    assert kept() == 0


# Saving and loading


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_family_loads_as_the_same(tiny_ovis, untied, tmp_path, tied):
    family = tiny_ovis() if tied else untied
    family.save(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert ("llm.lm_head.weight" in weights) is not tied
    assert set(weights) == set(family.model.state_dict()) - ({"llm.lm_head.weight"} if tied else set())
    again = ovis2_5.load(str(tmp_path))
    assert again.fingerprint() == family.fingerprint()
    assert again.processor.fingerprint == family.processor.fingerprint
    shared = again.model.llm.lm_head.weight is again.model.llm.model.embed_tokens.weight
    assert shared is tied
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == "ovis2_5" and config["architectures"] == ["Ovis2_5"]
    assert config["llm_config"]["tie_word_embeddings"] is tied
    assert "actdeny" not in (tmp_path / "config.json").read_text()


def test_the_official_folder_loads_and_keeps_its_names_and_fields(ovis_goldens, tmp_path):
    """As released: older spellings, remote code that is not run, weights under the official names."""
    folder, fields = tmp_path / "official", {"auto_map": {"AutoConfig": "configuration_ovis2_5.Ovis2_5_Config"}}
    shutil.copytree(ovis_goldens.folder / "tokenizer", folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    rewrite(folder, lambda c: c.update(chat_template=tiny_ovis2_5.CHAT_TEMPLATE), "tokenizer_config.json")
    official = copy.deepcopy({**ovis_goldens.config, **fields, "torch_dtype": "float32", "use_cache": True})
    beside = {"_attn_implementation_autoset": True, "_name_or_path": "Qwen/Qwen3-8B", "torch_dtype": "float32"}
    beside_llm = {"rope_scaling": None, "sliding_window": None, "architectures": ["Qwen3ForCausalLM"]}
    written = copy.deepcopy(official)
    written["llm_config"] |= beside | beside_llm
    written["vit_config"] |= beside
    (folder / "config.json").write_text(json.dumps(written))
    settings = {"image_processor_type": "SiglipImageProcessor", "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    settings |= {"resample": 2, "rescale_factor": 1 / 255, "do_normalize": True, "do_rescale": True, "do_resize": True}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": True, "top_k": 20, "temperature": 0.6}))
    weights = ovis_goldens.weights()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    family = ovis2_5.load(str(folder))
    state = family.model.state_dict()
    assert set(state) == set(weights) and all(torch.equal(state[name], w) for name, w in weights.items())
    assert {p.dtype for p in ovis2_5.load(str(folder), dtype="bfloat16").parameters()} == {torch.bfloat16}
    assert family.model.config.llm_config.rope_parameters["rope_theta"] == 1_000_000
    family.save(tmp_path / "again")
    saved = load_file(tmp_path / "again" / "model.safetensors")
    assert set(saved) == set(weights) and all(torch.equal(saved[name], w) for name, w in weights.items())
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    for name, value in official.items():
        if name in ("llm_config", "vit_config"):
            assert {key: config[name].get(key) for key in value} == value, name
        else:
            assert config.get(name) == value, name
    assert ovis2_5.load(str(tmp_path / "again")).fingerprint() == family.fingerprint()
    generation = json.loads((tmp_path / "again" / "generation_config.json").read_text())
    assert (generation["do_sample"], generation["top_k"], generation["temperature"]) == (True, 20, 0.6)


def test_loading_in_bfloat16(tiny_ovis, make_frames):
    family = tiny_ovis(dtype="bfloat16")
    assert {p.dtype for p in family.parameters()} == {torch.bfloat16}
    with torch.no_grad():
        rough, exact = (f.encode(f.processor.visual(make_frames(2))) for f in (family, tiny_ovis()))
    assert rough.dtype == torch.bfloat16
    torch.testing.assert_close(rough.float(), exact, rtol=0.1, atol=0.02)


def test_the_fingerprint_sees_every_weight(tiny_ovis):
    family = tiny_ovis()
    seen = {family.fingerprint()}
    for _, parameter in family.named_parameters():
        with torch.no_grad():
            parameter.view(-1)[-1] += 1.0
        seen.add(family.fingerprint())
    assert len(seen) == 1 + len(list(family.parameters()))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda w: w.pop("vte.weight"), "1 missing keys, the first are vte.weight."),
        (
            lambda w: w.pop("visual_tokenizer.head.1.bias"),
            "1 missing keys, the first are visual_tokenizer.head.1.bias.",
        ),
        (
            lambda w: [w.pop(k) for k in list(w) if "post_layernorm" in k],
            "2 missing keys, the first are visual_tokenizer.vit.vision_model.post_layernorm.bias",
        ),
        (
            lambda w: w.update({"llm.model.norm.weight": torch.zeros(7)}),
            "1 mismatched keys, the first are llm.model.norm",
        ),
        (
            lambda w: w.update({"llm.extra.weight": torch.zeros(2)}),
            "1 unexpected keys, the first are llm.extra.weight.",
        ),
    ],
)
def test_weights_that_do_not_fit_are_never_filled_in(folder, change, what):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    text = message(folder)
    assert text.startswith(f"The weights of {folder} do not fit Ovis25Model: {what}")
    assert text.endswith("Use a complete checkpoint in the official layout.")


def test_an_untied_checkpoint_without_its_head(folder):
    def untie(config):
        config["llm_config"]["tie_word_embeddings"] = config["tie_word_embeddings"] = False

    rewrite(folder, untie)
    assert "1 missing keys, the first are llm.lm_head.weight." in message(folder)


def test_each_missing_file_is_named(folder):
    (folder / "preprocessor_config.json").unlink()
    text = message(folder)
    assert f"{folder} lacks preprocessing (preprocessor_config.json or processor_config.json) (found: " in text


def test_a_checkpoint_of_another_family(folder, tiny_folder):
    assert message(tiny_folder) == (
        f"{tiny_folder} is a checkpoint of model type 'qwen2_5_vl', but this family loads 'ovis2_5'. Choose the family that belongs to "
        "the checkpoint (key model._target_), or another model.checkpoint."
    )
    rewrite(folder, lambda config: config.update(model_type="ovis9"))
    assert message(folder).startswith(
        f"{folder} is a checkpoint of model type 'ovis9', but this family loads 'ovis2_5'. Choose"
    )
    rewrite(folder, lambda config: config.pop("auto_map"))
    text = message(folder)
    assert text.startswith(f"Cannot read the weights in the folder {folder}: ") and "`ovis9`" in text


@pytest.mark.parametrize(
    ("part", "field", "value", "text"),
    [
        ("llm_config", "use_sliding_window", True, "language model uses sliding-window attention"),
        ("llm_config", "attention_dropout", 0.1, "drops attention weights (llm_config.attention_dropout: 0.1)"),
        ("vit_config", "attention_dropout", 0.1, "drops attention weights (vit_config.attention_dropout: 0.1)"),
        ("vit_config", "temporal_patch_size", 2, "joins 2 frames into one patch (vit_config.temporal_patch_size)"),
    ],
)
def test_what_is_not_computed_here_is_refused(folder, part, field, value, text):
    def change(config):
        config[part][field] = value
        if field == "use_sliding_window":
            config[part] |= {"layer_types": None, "sliding_window": 64, "max_window_layers": 0}

    rewrite(folder, change)
    assert text in message(folder)


def test_a_damaged_generation_config(folder):
    (folder / "generation_config.json").write_text("{")
    assert message(folder).startswith(f"Cannot read {folder / 'generation_config.json'}: ")


# Foreign registrations


class Foreign(PreTrainedConfig):
    """Stands for the class of a transformers release that has Ovis2.5."""

    model_type = "ovis2_5"


def test_nothing_is_registered_and_another_owner_of_the_name_does_not_matter(tiny_ovis, monkeypatch):
    before = tiny_ovis().fingerprint()
    assert "ovis2_5" not in CONFIG_MAPPING
    AutoConfig.register("ovis2_5", Foreign)
    try:
        renaming = [WeightRenaming(source_patterns=r"^llm\.", target_patterns="model.language_model.")]
        conversion_mapping.get_checkpoint_conversion_mapping("ovis2_5")  # fills the cache
        monkeypatch.setitem(conversion_mapping._checkpoint_conversion_mapping_cache, "ovis2_5", renaming)
        assert tiny_ovis().fingerprint() == before
    finally:
        CONFIG_MAPPING._extra_content.pop("ovis2_5")


# Random weights


def test_every_weight_is_drawn_or_set(tiny_ovis_folder):
    config = Ovis25Config.from_pretrained(tiny_ovis_folder)
    config.llm_config.initializer_range = 0.3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Ovis25Model(config)
    norms = {id(p) for m in model.modules() if isinstance(m, nn.LayerNorm) for p in m.parameters()}
    for name, parameter in model.named_parameters():
        if name.endswith(".bias"):
            assert not parameter.any(), name
        elif id(parameter) in norms or "norm" in name:
            assert bool((parameter == 1).all()), name
        else:
            row = model.config.llm_config.pad_token_id
            drawn = torch.cat((parameter[:row], parameter[row + 1 :])) if "embed_tokens" in name else parameter
            assert abs(drawn.std().item() - 0.3) < 0.02 and abs(drawn.mean().item()) < 0.02, name
