"""The family around transformers' Qwen2.5-VL: parts, encoding, saving, and the same object still generating."""

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, Qwen2_5_VLForConditionalGeneration

from actdeny_train.models import qwen2_5_vl
from actdeny_train.models.family import PARTS, Visual
from actdeny_train.models.qwen2_5_vl import Qwen25VL

NAMES = {
    "vision": ("patch_embed.", "blocks."),
    "projector": ("merger.",),
    "llm": ("embed_tokens.", "layers.", "norm.", "lm_head."),
}


def untied(tiny_folder, processor):
    config = AutoConfig.from_pretrained(tiny_folder)
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = False
    return Qwen25VL(Qwen2_5_VLForConditionalGeneration(config), processor)


def named(family):
    return {part: [name for name, _ in parameters] for part, parameters in family.part_parameters().items()}


def short(name):
    """Parameter name without what leads to its part."""
    for lead in ("model.model.visual.", "model.model.language_model.", "model."):
        if name.startswith(lead):
            return name.removeprefix(lead)
    raise AssertionError(name)


@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_lies_in_exactly_one_part(tiny_family, tiny_folder, tied):
    family = tiny_family()
    if not tied:
        family = untied(tiny_folder, family.processor)
    parts = named(family)
    assert list(parts) == list(PARTS)
    for part, names in parts.items():
        assert names and all(short(name).startswith(NAMES[part]) for name in names), part
    found = [id(p) for parameters in family.part_parameters().values() for _, p in parameters]
    assert sorted(found) == sorted({id(p) for p in family.parameters()})
    assert ("model.lm_head.weight" in parts["llm"]) is not tied
    assert "model.model.language_model.embed_tokens.weight" in parts["llm"]


def test_a_parameter_without_a_part_is_a_broken_invariant(tiny_family):
    family = tiny_family()
    family.extra = nn.Parameter(torch.zeros(1))
    with pytest.raises(AssertionError, match="parameter extra of Qwen25VL lies in no part"):
        family.part_parameters()


def test_modules_of_parts_hold_their_parameters(tiny_family):
    family = tiny_family()
    modules = family.part_modules()
    inside = {part: {id(p) for m in modules[part] for p in m.parameters()} for part in PARTS}
    own = {part: {id(p) for _, p in parameters} for part, parameters in family.part_parameters().items()}
    assert inside["projector"] == own["projector"] and inside["llm"] == own["llm"]
    assert inside["vision"] == own["vision"] | own["projector"]  # the merger lies inside the tower


def test_visual_tokens_are_those_of_transformers_and_clips_do_not_mix(tiny_family, tiny_folder, make_frames):
    family = tiny_family(tokens_per_frame=(4, 30))
    reference = Qwen2_5_VLForConditionalGeneration.from_pretrained(tiny_folder)
    visuals = [
        family.processor.visual(make_frames(3, 140, 168)),
        family.processor.visual(make_frames(4, 56, 84, seed=1)),
    ]
    with torch.no_grad():
        joined = family.encode(Visual.join(visuals))
        alone = [reference.get_video_features(**v.inputs).pooler_output[0] for v in visuals]
    assert joined.shape == (sum(v.num_tokens for v in visuals), 64)
    torch.testing.assert_close(joined, torch.cat(alone), rtol=1e-5, atol=1e-6)


def test_the_same_object_generates_like_the_saved_folder(tiny_family, make_frames, tmp_path):
    family = tiny_family()
    with torch.no_grad():
        for parameter in family.parameters():  # a trained model, not the one that was loaded
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    family.save(tmp_path)
    assert "actdeny" not in (tmp_path / "config.json").read_text()
    fresh = AutoModelForImageTextToText.from_pretrained(tmp_path, attn_implementation="sdpa").eval()
    processor = AutoProcessor.from_pretrained(tmp_path)
    visual = family.processor.visual(make_frames(4))
    video = "<|vision_start|>" + "<|video_pad|>" * visual.num_tokens + "<|vision_end|>"
    texts = {
        "plain": ["Say yes."],
        "padded": ["Say yes.", "Count from one to ten."],
        "video": [f"{video}What happens?"],
    }
    family.eval()
    for name, prompts in texts.items():
        inputs = processor.tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
        if name == "video":
            inputs["mm_token_type_ids"] = 2 * (inputs["input_ids"] == processor.video_token_id).long()
            inputs |= visual.inputs
        settings = {"max_new_tokens": 6, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
        ours, theirs = (model.generate(**inputs, **settings) for model in (family.model, fresh))
        assert ours.sequences.tolist() == theirs.sequences.tolist(), name
        torch.testing.assert_close(torch.stack(ours.logits), torch.stack(theirs.logits), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_family_loads_as_the_same(tiny_family, tiny_folder, tmp_path, tied):
    family = tiny_family()
    if not tied:
        family = untied(tiny_folder, family.processor)
    family.save(tmp_path)
    again = qwen2_5_vl.load(str(tmp_path))
    assert again.fingerprint() == family.fingerprint()
    assert again.processor.fingerprint == family.processor.fingerprint
    assert named(again) == named(family)


def test_the_fingerprint_sees_every_weight(tiny_family):
    family = tiny_family()
    before = family.fingerprint()
    seen = {before}
    for _, parameter in family.named_parameters():
        with torch.no_grad():
            parameter.view(-1)[-1] += 1.0
        seen.add(family.fingerprint())
    assert len(seen) == 1 + len(list(family.parameters()))
    assert tiny_family().fingerprint() == before
    assert tiny_family(dtype="bfloat16").fingerprint() != before


def test_loading_in_bfloat16(tiny_family):
    assert {p.dtype for p in tiny_family(dtype="bfloat16").parameters()} == {torch.bfloat16}
    assert {p.dtype for p in tiny_family().parameters()} == {torch.float32}
