"""Checkpoints in the authors' layout: the same model as the converted one, and what is refused."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoProcessor, VideoLlama3ForConditionalGeneration

from actdeny_train.errors import CheckpointError
from actdeny_train.models import video_llama_3
from actdeny_train.models.video_llama_3.official import load_config, load_processor
from actdeny_train.models.video_llama_3.processing import CHAT_TEMPLATE


def change(folder, name, **fields):
    """Set fields of a JSON file; None removes them."""
    content = {**json.loads((folder / name).read_text()), **fields}
    (folder / name).write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


def message(folder):
    with pytest.raises(CheckpointError) as caught:
        video_llama_3.load(str(folder))
    return str(caught.value)


def test_both_layouts_are_the_same_model(official_folder, tiny_folder):
    ours, converted = video_llama_3.load(str(official_folder)), video_llama_3.load(str(tiny_folder))
    assert ours.fingerprint() == converted.fingerprint()
    theirs = converted.model.config.to_dict()
    for part in ("text_config", "vision_config"):
        mine = ours.model.config.to_dict()[part]
        assert {k for k, v in mine.items() if v != theirs[part].get(k)} <= {"initializer_range"}, part
    assert ours.model.config.video_token_id == converted.model.config.video_token_id


def test_a_config_with_the_fields_of_the_released_2b(official_folder):
    """Values as published for DAMO-NLP-SG/VideoLLaMA3-2B, read without its weights."""
    change(
        official_folder,
        "config.json",
        vocab_size=151936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=32768,
        rope_theta=1e6,
        use_sliding_window=False,
        sliding_window=32768,
        max_window_layers=28,
        use_cache=True,
        vision_encoder_config={
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "num_channels": 3,
            "patch_size": 14,
            "hidden_act": "gelu_pytorch_tanh",
            "layer_norm_eps": 1e-6,
        },
    )
    content = json.loads((official_folder / "config.json").read_text())
    (official_folder / "config.json").write_text(json.dumps({**content, "rope_scaling": None}))
    config = load_config(official_folder, load_processor(official_folder))
    with torch.device("meta"):
        model = VideoLlama3ForConditionalGeneration(config)
    assert set(config.text_config.layer_types) == {"full_attention"}
    assert config.text_config.rope_parameters == {"rope_type": "default", "rope_theta": 1e6}
    parts = {name: sum(p.numel() for p in part.parameters()) for name, part in model.model.named_children()}
    assert parts["language_model"] == 1_543_714_304, "that of Qwen2.5-1.5B"
    assert parts["projector"] == 1152 * 1536 + 1536 + 1536 * 1536 + 1536
    block = 4 * (1152 + 1) * 1152 + (1152 + 1) * 4304 + (4304 + 1) * 1152 + 4 * 1152
    assert parts["vision_model"] == 27 * block + (3 * 14 * 14 + 1) * 1152 + 2 * 1152


def test_a_head_of_its_own(official_folder):
    """Untied as the 7B, or tied with the head saved all the same."""
    weights = load_file(official_folder / "model.safetensors")
    head = torch.randn(weights["model.embed_tokens.weight"].shape)
    save_file({**weights, "lm_head.weight": head}, official_folder / "model.safetensors", {"format": "pt"})
    change(official_folder, "config.json", tie_word_embeddings=False)
    untied = video_llama_3.load(str(official_folder))
    assert torch.equal(untied.model.lm_head.weight, head)
    assert not torch.equal(untied.model.model.language_model.embed_tokens.weight, head)
    same = {**weights, "lm_head.weight": weights["model.embed_tokens.weight"].clone()}
    save_file(same, official_folder / "model.safetensors", {"format": "pt"})
    change(official_folder, "config.json", tie_word_embeddings=True)
    tied = video_llama_3.load(str(official_folder)).model
    assert tied.lm_head.weight is tied.model.language_model.embed_tokens.weight


def test_what_is_saved_is_a_converted_checkpoint(official_folder, tmp_path, make_clip):
    family = video_llama_3.load(str(official_folder))
    saved = tmp_path / "saved"
    family.save(saved)
    with safe_open(saved / "model.safetensors", "pt") as weights:
        assert {name.split(".")[1] for name in weights.keys()} == {"vision_model", "projector", "language_model"}  # noqa: SIM118
    assert json.loads((saved / "config.json").read_text())["model_type"] == "video_llama_3"
    again = video_llama_3.load(str(saved))
    assert again.fingerprint() == family.fingerprint()
    assert again.processor.fingerprint == family.processor.fingerprint
    model, info = VideoLlama3ForConditionalGeneration.from_pretrained(saved, output_loading_info=True)
    assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    processor = AutoProcessor.from_pretrained(saved)
    assert processor.chat_template == CHAT_TEMPLATE
    visual = family.processor.visual(make_clip(3))
    sequence = family.processor.sequence([visual], "What?", "1", question=0, choice=0)
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(sequence.ids)[None], **visual.inputs).logits
        ours = family.model(input_ids=torch.from_numpy(sequence.ids)[None], **visual.inputs).logits
    torch.testing.assert_close(logits, ours, rtol=1e-5, atol=1e-5)


def test_settings_of_the_processor_are_taken_over(official_folder):
    pixels = {"min_tokens": 9, "max_tokens": 81, "image_mean": [0.1, 0.2, 0.3], "resample": 2}
    change(official_folder, "preprocessor_config.json", **pixels)
    processor = video_llama_3.load(str(official_folder)).processor.processor
    video, image = processor.video_processor, processor.image_processor
    assert (video.merge_size, image.merge_size, video.use_token_compression) == (2, 1, True)
    assert video.size == {"shortest_edge": 9 * 784, "longest_edge": 81 * 784}
    assert image.size == {"shortest_edge": 9 * 196, "longest_edge": 81 * 196}
    assert list(video.image_mean) == list(image.image_mean) == [0.1, 0.2, 0.3] and list(video.image_std) == [0.5] * 3
    assert int(video.resample) == int(image.resample) == 2 and video.patch_size == 14
    (official_folder / "processor_config.json").unlink()
    change(official_folder, "config.json", use_token_compression=False)
    change(official_folder, "preprocessor_config.json", min_tokens=None, max_tokens=None, patch_size=None)
    video = video_llama_3.load(str(official_folder)).processor.processor.video_processor
    assert not video.use_token_compression
    assert video.size == {"shortest_edge": 16 * 784, "longest_edge": 16384 * 784}, "the official defaults"


def test_compression_can_be_chosen(official_folder, make_clip):
    clip = make_clip(4)
    counts = [
        video_llama_3.load(str(official_folder), compress=compress).processor.visual(clip).num_tokens
        for compress in (None, True, False)
    ]
    assert counts[0] == counts[1] < counts[2]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (
            lambda w: w.pop("model.mm_projector.readout.2.bias"),
            "1 missing keys, the first are model.projector.readout.2.bias.",
        ),
        (
            lambda w: [w.pop(k) for k in list(w) if k.startswith("model.layers.1.")],
            "12 missing keys, the first are model.language_model.layers.1.",
        ),
        (
            lambda w: w.update({"model.norm.weight": torch.zeros(7)}),
            "1 mismatched keys, the first are model.language_model.norm.weight.",
        ),
        (
            lambda w: w.update({"model.vision_encoder.extra.weight": torch.zeros(2)}),
            "1 unexpected keys, the first are ",
        ),
    ],
)
def test_weights_that_do_not_fit_are_never_filled_in(official_folder, damage, what):
    weights = load_file(official_folder / "model.safetensors")
    damage(weights)
    save_file(weights, official_folder / "model.safetensors", {"format": "pt"})
    text = message(official_folder)
    assert text.startswith(f"The weights of {official_folder} do not fit VideoLlama3ForConditionalGeneration: {what}")
    assert text.endswith("Use a complete checkpoint in the official layout.")


def test_converted_weights_under_an_official_config_still_load(official_folder, tiny_folder):
    """The names say what they are: a checkpoint whose weights alone were converted is complete."""
    (official_folder / "model.safetensors").write_bytes((tiny_folder / "model.safetensors").read_bytes())
    assert video_llama_3.load(str(official_folder)).fingerprint() == video_llama_3.load(str(tiny_folder)).fingerprint()


def test_a_checkpoint_of_another_family(official_folder):
    change(official_folder, "config.json", model_type="qwen2_5_vl")
    assert message(official_folder) == (
        f"{official_folder} is a checkpoint of model type 'qwen2_5_vl', but this family loads 'video_llama_3'. Choose the family that "
        "belongs to the checkpoint (key model._target_), or another model.checkpoint."
    )


@pytest.mark.parametrize("vision", [None, {}, "SigLIP-NaViT"])
def test_a_config_without_the_vision_encoder(official_folder, vision):
    change(official_folder, "config.json", vision_encoder_config=vision)
    assert message(official_folder) == (
        f"{official_folder / 'config.json'} does not describe the vision encoder (vision_encoder_config with hidden_size and more). "
        "Take config.json from the model that the checkpoint was finetuned from."
    )


def test_another_projector(official_folder):
    change(official_folder, "config.json", mm_projector_type="stc_connector")
    assert message(official_folder) == (
        f"{official_folder / 'config.json'} asks for a projector of type 'stc_connector' (mm_projector_type), but only 'mlp2x_gelu' can "
        "be loaded, which all released VideoLLaMA3 checkpoints have."
    )


def test_a_config_of_wrong_types(official_folder):
    change(official_folder, "config.json", hidden_size="wide")
    assert message(official_folder).startswith(f"Cannot read {official_folder / 'config.json'}: ")


def test_a_damaged_file(official_folder):
    (official_folder / "preprocessor_config.json").write_text("{")
    text = message(official_folder)
    assert text.startswith(f"Cannot read {official_folder / 'preprocessor_config.json'}: ")
    assert text.endswith("Download the file again.")


def test_the_template_may_lie_in_a_file_of_its_own_or_nowhere(official_folder):
    template = json.loads((official_folder / "tokenizer_config.json").read_text())["chat_template"]
    expected = video_llama_3.load(str(official_folder)).processor.fingerprint
    change(official_folder, "tokenizer_config.json", chat_template=None)
    assert video_llama_3.load(str(official_folder)).processor.fingerprint == expected
    (official_folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    assert video_llama_3.load(str(official_folder)).processor.fingerprint == expected
    (official_folder / "chat_template.json").write_text(json.dumps({"chat_template": f"{template} "}))
    assert message(official_folder).startswith(f"The chat template in {official_folder} is not that of a VideoLLaMA3; ")


@pytest.mark.parametrize(
    ("template", "found"), [("{{ messages[0]['content'][1]['text'] }}", "'?'"), ("{% for", "expected")]
)
def test_another_template(official_folder, template, found):
    change(official_folder, "tokenizer_config.json", chat_template=template)
    text = message(official_folder)
    assert text.lower().startswith(
        f"The chat template in {official_folder} is not that of a VideoLLaMA3; for a user's turn with a video of two frames and the "
        f"text '?' it gives ".lower()
    )
    assert found in text.lower()
    assert (
        "instead of '<|im_start|>user\\nTime 0.0s:<image>,Time 12.5s:<image>\\n?<|im_end|>\\n<|im_start|>assistant\\n'. Take "
        "chat_template.json or tokenizer_config.json from the model that the checkpoint was finetuned from."
    ) in text
