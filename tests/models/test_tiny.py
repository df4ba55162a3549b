"""Tiny models: made of a seed, in the official layout, whole or not at all."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
)

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.models import qwen2_5_vl, tiny
from actdeny_train.models.tiny import TinySize

SMALL = TinySize(hidden_size=64, intermediate_size=32, num_layers=1, num_vision_layers=1, vocab_size=300)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    state = torch.random.get_rng_state()
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        tiny.build(tmp_path / name, seed, SMALL)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    differing = {name for name, data in content(tmp_path / "a").items() if data != content(tmp_path / "c")[name]}
    assert differing == {"model.safetensors"}
    prints = [qwen2_5_vl.load(str(tmp_path / name)).fingerprint() for name in "abc"]
    assert prints[0] == prints[1] != prints[2]
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's random numbers were used up"


def test_the_folder_has_the_official_layout(tiny_folder):
    with safe_open(tiny_folder / "model.safetensors", "pt") as weights:
        names = set(weights.keys())
    # the names that Qwen/Qwen2.5-VL-3B-Instruct uses in its files
    assert {"visual.patch_embed.proj.weight", "visual.blocks.0.attn.qkv.weight", "visual.merger.mlp.2.bias"} <= names
    assert {"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"} <= names
    assert all(name.startswith(("visual.", "model.")) for name in names)
    assert "lm_head.weight" not in names  # tied
    config = json.loads((tiny_folder / "config.json").read_text())
    assert config["model_type"] == "qwen2_5_vl" and config["architectures"] == ["Qwen2_5_VLForConditionalGeneration"]


def test_plain_transformers_loads_it(tiny_folder):
    model = AutoModelForImageTextToText.from_pretrained(tiny_folder)
    processor = AutoProcessor.from_pretrained(tiny_folder)
    assert type(model) is Qwen2_5_VLForConditionalGeneration and type(processor) is Qwen2_5_VLProcessor
    tokenizer = processor.tokenizer
    assert len(tokenizer) == model.config.text_config.vocab_size == model.get_input_embeddings().num_embeddings
    assert model.config.video_token_id == processor.video_token_id == tokenizer.convert_tokens_to_ids("<|video_pad|>")
    assert model.generation_config.eos_token_id == tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.pad_token == "<|endoftext|>"


def test_digits_and_any_other_text_survive_its_tokenizer(tiny_folder):
    tokenizer = AutoProcessor.from_pretrained(tiny_folder).tokenizer
    for text in ("1", "10", "11", " A person draws a bow.\n", "Grüße – 你好 🎯"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer("11")["input_ids"]) == 2  # digit by digit, as Qwen's own
    assert len(tokenizer("the video shows a person")["input_ids"]) < 15  # words of the benchmark are short


def test_a_caption_is_one_token(tiny_folder):
    tokenizer = AutoProcessor.from_pretrained(tiny_folder).tokenizer
    captions = load_ucf101().descriptions.values()
    assert len(captions) == 101
    for caption in captions:
        ids = tokenizer(f"1. {caption}\n2. {caption}")["input_ids"]
        assert ids[0] != ids[-1] and ids.count(ids[-1]) == 2 and tokenizer.decode(ids[-1]) == caption


def test_load_builds_once_and_keys_folders_by_what_is_in_them(tmp_path, monkeypatch):
    family = tiny.load(root=str(tmp_path), size=SMALL)
    (folder,) = tmp_path.iterdir()
    before = folder.stat().st_mtime_ns
    assert tiny.load(root=str(tmp_path), size=SMALL).fingerprint() == family.fingerprint()
    assert [p.stat().st_mtime_ns for p in tmp_path.iterdir()] == [before]
    tiny.load(root=str(tmp_path), seed=1, size=SMALL)
    tiny.load(
        root=str(tmp_path),
        size=TinySize(hidden_size=64, intermediate_size=64, num_layers=1, num_vision_layers=1, vocab_size=300),
    )
    monkeypatch.setattr(tiny, "CHAT_TEMPLATE", tiny.CHAT_TEMPLATE + " ")
    tiny.load(root=str(tmp_path), size=SMALL)
    assert len(list(tmp_path.iterdir())) == 4
    assert family.processor.processor.video_processor.size["shortest_edge"] == 4 * 28 * 28


def test_a_broken_off_build_leaves_nothing_and_a_second_builder_keeps_the_first_folder(tmp_path, monkeypatch):
    folder = tmp_path / "model"

    def broken_off(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Qwen2_5_VLProcessor, "save_pretrained", broken_off)
        with pytest.raises(KeyboardInterrupt):
            tiny.build(folder, 0, SMALL)
    assert list(tmp_path.iterdir()) == []
    tiny.build(folder, 0, SMALL)
    (folder / "mark").write_text("first")
    tiny.build(folder, 0, SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert (folder / "mark").read_text() == "first"


def test_the_default_size_is_what_its_docstring_says(tmp_path):
    tiny.build(tmp_path / "default")
    weights = load_file(tmp_path / "default" / "model.safetensors")
    assert round(sum(w.numel() for w in weights.values()) / 1e6, 1) == 1.9
