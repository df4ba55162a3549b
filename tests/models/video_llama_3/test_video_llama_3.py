"""The family around transformers' VideoLLaMA3: parts, encoding, saving, and the same object still generating."""

import json

import pytest
import torch
from safetensors import safe_open
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    VideoLlama3ForConditionalGeneration,
    VideoLlama3Processor,
)
from transformers.video_utils import VideoMetadata

from actdeny_train.errors import CheckpointError
from actdeny_train.evaluation.generation import generate
from actdeny_train.models import tiny_video_llama_3, video_llama_3
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.family import PARTS, Visual
from actdeny_train.models.tiny_video_llama_3 import TinySize
from actdeny_train.models.video_llama_3 import VideoLlama3

SMALL = TinySize(hidden_size=64, intermediate_size=32, num_layers=1, num_vision_layers=1, vocab_size=300)
LEADS = {
    "vision": ("model.model.vision_model.",),
    "projector": ("model.model.projector.",),
    "llm": ("model.model.language_model.", "model.lm_head."),
}


def untied(tiny_folder, processor):
    config = AutoConfig.from_pretrained(tiny_folder)
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = False
    return VideoLlama3(VideoLlama3ForConditionalGeneration(config), processor)


def named(family):
    return {part: [name for name, _ in parameters] for part, parameters in family.part_parameters().items()}


def shaken(family):
    """A trained model, not the one that was loaded."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in family.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return family.eval()


@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_lies_in_exactly_one_part(tiny_family, tiny_folder, tied):
    family = tiny_family()
    if not tied:
        family = untied(tiny_folder, family.processor)
    parts = named(family)
    assert list(parts) == list(PARTS)
    for part, names in parts.items():
        assert names and all(name.startswith(LEADS[part]) for name in names), part
    found = [id(p) for parameters in family.part_parameters().values() for _, p in parameters]
    assert sorted(found) == sorted({id(p) for p in family.parameters()})
    assert ("model.lm_head.weight" in parts["llm"]) is not tied
    assert "model.model.language_model.embed_tokens.weight" in parts["llm"]


def test_a_parameter_without_a_part_is_a_broken_invariant(tiny_family):
    family = tiny_family()
    family.extra = nn.Parameter(torch.zeros(1))
    with pytest.raises(AssertionError, match="parameter extra of VideoLlama3 lies in no part"):
        family.part_parameters()


def test_modules_of_parts_hold_their_parameters(tiny_family):
    family = tiny_family()
    modules = family.part_modules()
    own = {part: {id(p) for _, p in parameters} for part, parameters in family.part_parameters().items()}
    assert {part: {id(p) for m in modules[part] for p in m.parameters()} for part in PARTS} == own


@pytest.mark.parametrize("compress", [False, True], ids=["all tokens", "compressed"])
def test_visual_tokens_are_those_of_transformers_and_clips_do_not_mix(tiny_family, tiny_folder, make_clip, compress):
    family = shaken(tiny_family(tokens_per_frame=(4, 30), compress=compress))
    reference = VideoLlama3ForConditionalGeneration.from_pretrained(tiny_folder)
    reference.load_state_dict(family.model.state_dict())
    clips = [make_clip(3, 140, 168), make_clip(4, 56, 84, seed=1), make_clip(1, 56, 56, seed=2)]
    visuals = [family.processor.visual(clip) for clip in clips]
    alone = []
    with torch.no_grad():
        joined = family.encode(Visual.join(visuals))
        for visual in visuals:
            inputs = dict(visual.inputs)
            mask = inputs.pop("video_compression_mask")
            alone.append(reference.model.get_video_features(**inputs).pooler_output[0][mask])
    assert joined.shape == (sum(v.num_tokens for v in visuals), 64)
    whole = sum(int(v.inputs["video_grid_thw"].prod()) for v in visuals) // 4
    assert len(joined) < whole if compress else len(joined) == whole
    torch.testing.assert_close(joined, torch.cat(alone), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("compress", [False, True], ids=["all tokens", "compressed"])
def test_a_saved_folder_gives_plain_transformers_the_same_tokens_and_logits(
    tiny_family, make_clip, make_question, tmp_path, compress
):
    """Words and frames in, logits out: nothing of ours is used on the way."""
    family = shaken(tiny_family(tokens_per_frame=None, compress=compress))
    family.save(tmp_path)
    processor = AutoProcessor.from_pretrained(tmp_path)
    model = AutoModelForImageTextToText.from_pretrained(tmp_path, attn_implementation="sdpa").eval()
    assert type(model) is VideoLlama3ForConditionalGeneration and type(processor) is VideoLlama3Processor
    clips = [make_clip(4, 56, 84, fps=2.0), make_clip(3, 112, 56, fps=0.5, seed=1)]
    content = [{"type": "video", "video": clip.pixels.transpose(0, 3, 1, 2)} for clip in clips]
    inputs = processor.apply_chat_template(
        [
            {"role": "user", "content": [*content, {"type": "text", "text": "Which clip?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "the second"}]},
        ],
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={
            "do_sample_frames": False,
            "video_metadata": [
                VideoMetadata(total_num_frames=len(clip.indices), fps=fps, frames_indices=clip.indices.tolist())
                for clip, fps in zip(clips, (2.0, 0.5), strict=True)
            ],
        },
    )
    visuals = [family.processor.visual(clip) for clip in clips]
    sequence = family.processor.sequence(visuals, "Which clip?", "the second", question=0, choice=0)
    ids = inputs["input_ids"][0]
    assert sequence.ids.tolist() == ids[: len(sequence.ids)].tolist()
    assert processor.tokenizer.decode(ids[len(sequence.ids) :]) == "\n"  # never generated
    inputs.pop("video_metadata", None)
    with torch.no_grad():
        expected = model(**inputs).logits[0, sequence.answer_start - 1 : len(sequence.ids) - 1]
    batch = Batch.of(
        family.processor, [Asked.for_training(clips, [make_question("Which clip?", ["the second", "none"])])]
    )
    with torch.no_grad():
        ours = family.logits(family(batch.forest, family.encode(batch.visual)))
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_the_same_object_generates_like_the_saved_folder(tiny_family, make_clip, tmp_path):
    family = shaken(tiny_family())
    family.save(tmp_path)
    assert "actdeny" not in (tmp_path / "config.json").read_text()
    fresh = AutoModelForImageTextToText.from_pretrained(tmp_path, attn_implementation="sdpa").eval()
    tokenizer = AutoProcessor.from_pretrained(tmp_path).tokenizer
    visual = family.processor.visual(make_clip(4))
    sequence = family.processor.sequence([visual], "What happens?", "nothing", question=0, choice=0)
    prompts = {
        "plain": tokenizer(["Say yes."], return_tensors="pt"),
        "padded": tokenizer(
            ["Say yes.", "Count from one to ten."], return_tensors="pt", padding=True, padding_side="left"
        ),
        "video": {"input_ids": torch.from_numpy(sequence.ids[: sequence.answer_start])[None], **visual.inputs},
    }
    for name, inputs in prompts.items():
        settings = {"max_new_tokens": 6, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
        ours, theirs = (model.generate(**inputs, **settings) for model in (family.model, fresh))
        assert ours.sequences.tolist() == theirs.sequences.tolist(), name
        torch.testing.assert_close(torch.stack(ours.logits), torch.stack(theirs.logits), rtol=1e-5, atol=1e-5)


def test_responses_over_a_forest_are_those_of_transformers(tiny_family, make_clip, make_question):
    family = shaken(tiny_family())
    clips = [make_clip(4), make_clip(3, seed=1)]
    questions = [make_question("What happens?", ["a", "b"]), make_question("Does a person bow?", ["a", "b"])]
    batch = Batch.of(family.processor, [Asked.for_scoring([clip], questions) for clip in clips])
    with torch.no_grad():
        cache = family.new_cache()
        hidden = family(batch.forest, family.encode(batch.visual), cache)
        responses = generate(family, batch.forest, hidden, cache, len(batch.questions), max_new_tokens=5)
    for i, response in enumerate(responses):
        visual = family.processor.visual(clips[i // 2])
        text = questions[i % 2].text
        sequence = family.processor.sequence([visual], text, "a", question=0, choice=0)
        ids = torch.from_numpy(sequence.ids[: sequence.answer_start])[None]
        made = family.model.generate(input_ids=ids, **visual.inputs, max_new_tokens=5, do_sample=False)[
            0, ids.shape[1] :
        ]
        expected = [i for i in made.tolist() if i not in family.processor.stop_ids]
        assert response.text == family.processor.decode(expected)


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_family_loads_as_the_same(tiny_family, tiny_folder, tmp_path, tied):
    family = tiny_family()
    if not tied:
        family = untied(tiny_folder, family.processor)
    family.save(tmp_path)
    again = video_llama_3.load(str(tmp_path))
    assert again.fingerprint() == family.fingerprint()
    assert again.processor.fingerprint == family.processor.fingerprint
    assert named(again) == named(family)


def test_the_fingerprint_sees_every_weight(tiny_family):
    family = tiny_family()
    seen = {family.fingerprint()}
    for _, parameter in family.named_parameters():
        with torch.no_grad():
            parameter.view(-1)[-1] += 1.0
        seen.add(family.fingerprint())
    assert len(seen) == 1 + len(list(family.parameters()))


def test_loading_in_bfloat16(tiny_family, make_clip):
    family = tiny_family(dtype="bfloat16")
    assert {p.dtype for p in family.parameters()} == {torch.bfloat16}
    assert family.encode(family.processor.visual(make_clip(3))).dtype == torch.bfloat16
    assert {p.dtype for p in tiny_family().parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        (
            "text_config",
            {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0, "layer_types": None},
            "This checkpoint's language model uses sliding-window attention (use_sliding_window: true), which tree attention does not "
            "compute. The released VideoLLaMA3 checkpoints do not use it; choose one of them.",
        ),
        (
            "text_config",
            {"attention_dropout": 0.1},
            "This checkpoint drops attention weights (text_config.attention_dropout: 0.1), which a forest cannot do as its sequences "
            "alone would. Set it to 0.0 in config.json, as the released VideoLLaMA3 checkpoints have it.",
        ),
        (
            "vision_config",
            {"attention_dropout": 0.2},
            "This checkpoint drops attention weights (vision_config.attention_dropout: 0.2), which a forest cannot do as its sequences "
            "alone would. Set it to 0.0 in config.json, as the released VideoLLaMA3 checkpoints have it.",
        ),
    ],
)
def test_what_a_forest_cannot_compute_is_refused(tiny_family, tmp_path, part, changes, message):
    tiny_family().save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config[part] |= changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError) as caught:
        video_llama_3.load(str(tmp_path))
    assert str(caught.value) == message


# The tiny model


def test_a_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    state = torch.random.get_rng_state()
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        tiny_video_llama_3.build(tmp_path / name, seed, SMALL)
    content = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "abc"]
    assert content[0] == content[1]
    assert {name for name, data in content[0].items() if data != content[2][name]} == {"model.safetensors"}
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's random numbers were used up"


def test_the_tiny_folder_has_the_layout_of_converted_checkpoints(tiny_folder):
    with safe_open(tiny_folder / "model.safetensors", "pt") as weights:
        names = set(weights.keys())
    assert {name.split(".")[1] for name in names} == {"vision_model", "projector", "language_model"}
    assert "model.vision_model.encoder.layers.0.self_attn.out_proj.weight" in names
    config = json.loads((tiny_folder / "config.json").read_text())
    assert config["model_type"] == "video_llama_3" and config["text_config"]["model_type"] == "qwen2"
    tokenizer = AutoProcessor.from_pretrained(tiny_folder).tokenizer
    assert config["video_token_id"] == tokenizer.convert_tokens_to_ids("<|video_pad|>")
    assert config["text_config"]["vocab_size"] == len(tokenizer)


def test_the_tiny_model_is_built_once(tmp_path):
    family = tiny_video_llama_3.load(root=str(tmp_path), size=SMALL)
    (folder,) = tmp_path.iterdir()
    before = folder.stat().st_mtime_ns
    again = tiny_video_llama_3.load(root=str(tmp_path), size=SMALL, compress=False)
    assert again.fingerprint() == family.fingerprint()
    assert again.processor.fingerprint != family.processor.fingerprint
    assert [p.stat().st_mtime_ns for p in tmp_path.iterdir()] == [before]
    tiny_video_llama_3.load(root=str(tmp_path), seed=1, size=SMALL)
    assert len(list(tmp_path.iterdir())) == 2


def test_the_default_size_is_what_its_docstring_says(tmp_path):
    family = tiny_video_llama_3.load(root=str(tmp_path))
    assert round(sum(p.numel() for p in family.parameters()) / 1e6, 1) == 1.4
    assert family.processor.processor.video_processor.tokens_per_frame == [4, 4]
