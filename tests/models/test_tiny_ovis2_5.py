"""Tiny Ovis2.5 models: made of a seed, in the official layout, whole or not at all."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from actdeny_train.models import ovis2_5, tiny, tiny_ovis2_5
from actdeny_train.models.ovis2_5.processing import Ovis25Processor
from actdeny_train.models.tiny_ovis2_5 import TinySize

SMALL = TinySize(
    hidden_size=64, intermediate_size=32, num_layers=1, num_vision_layers=1, vocab_size=300, visual_vocab_size=20
)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    state = torch.random.get_rng_state()
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        tiny_ovis2_5.build(tmp_path / name, seed, SMALL)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    differing = {name for name, data in content(tmp_path / "a").items() if data != content(tmp_path / "c")[name]}
    assert differing == {"model.safetensors"}
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's random numbers were used up"


def test_the_folder_has_the_official_layout(tiny_ovis_folder):
    with safe_open(tiny_ovis_folder / "model.safetensors", "pt") as weights:
        names = set(weights.keys())
    assert {"vte.weight", "visual_tokenizer.head.0.weight", "llm.model.embed_tokens.weight"} <= names
    assert "visual_tokenizer.vit.vision_model.encoder.layers.0.self_attn.out_proj.bias" in names
    assert all(name.startswith(("llm.model.", "visual_tokenizer.", "vte.")) for name in names)  # tied: no llm.lm_head
    config = json.loads((tiny_ovis_folder / "config.json").read_text())
    assert config["model_type"] == "ovis2_5" and config["vit_config"]["model_type"] == "siglip2_navit"
    found = {path.name for path in tiny_ovis_folder.iterdir()}
    assert {"preprocessor_config.json", "tokenizer.json", "generation_config.json", "chat_template.jinja"} <= found


def test_its_tokenizer_is_that_of_the_other_tiny_models_with_room_for_thoughts(tiny_ovis):
    tokenizer = tiny_ovis().processor.tokenizer
    plain = tiny.make_tokenizer(400)
    assert len(tokenizer) == len(plain) + 2 == tiny_ovis().model.get_input_embeddings().num_embeddings
    for text in ("1", "10", " A person draws a bow.\n", "Grüße – 你好 🎯"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer("<think></think>")["input_ids"]) == 2


def test_load_builds_once_and_keys_folders_by_what_is_in_them(tmp_path, monkeypatch):
    family = tiny_ovis2_5.load(root=str(tmp_path), size=SMALL)
    (folder,) = tmp_path.iterdir()
    before = folder.stat().st_mtime_ns
    again = tiny_ovis2_5.load(root=str(tmp_path), size=SMALL, thinking=True)
    assert again.fingerprint() == family.fingerprint() and again.processor.thinking
    assert [p.stat().st_mtime_ns for p in tmp_path.iterdir()] == [before]
    tiny_ovis2_5.load(root=str(tmp_path), seed=1, size=SMALL)
    monkeypatch.setattr(tiny_ovis2_5, "CHAT_TEMPLATE", "{# changed #}" + tiny_ovis2_5.CHAT_TEMPLATE)
    tiny_ovis2_5.load(root=str(tmp_path), size=SMALL)
    assert len(list(tmp_path.iterdir())) == 3
    assert family.processor.tokens_per_frame == (4, 4)


def test_a_broken_off_build_leaves_nothing(tmp_path, monkeypatch):
    def broken_off(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ovis25Processor, "save", broken_off)
        with pytest.raises(KeyboardInterrupt):
            tiny_ovis2_5.build(tmp_path / "model", 0, SMALL)
    assert list(tmp_path.iterdir()) == []


def test_the_default_size_is_what_its_docstring_says(tmp_path):
    tiny_ovis2_5.build(tmp_path / "default")
    weights = load_file(tmp_path / "default" / "model.safetensors")
    assert round(sum(w.numel() for w in weights.values()) / 1e6, 1) == 1.6


def test_an_untied_one_has_a_head_of_its_own(tmp_path):
    family = tiny_ovis2_5.load(root=str(tmp_path), size=TinySize(64, 32, 1, 1, 300, 20, tied=False))
    assert "model.llm.lm_head.weight" in dict(family.named_parameters())
    assert isinstance(family, ovis2_5.Ovis25)
