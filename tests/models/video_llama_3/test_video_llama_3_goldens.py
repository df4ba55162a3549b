"""VideoLLaMA3 against the official code: what it gave for a tiny random model (see tests/goldens/video_llama_3/README.md)."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from actdeny_train.models import video_llama_3
from actdeny_train.models.family import Visual
from actdeny_train.trees import Forest, PromptTree, TokenSequence
from actdeny_train.types import Frames

CASES = ("image", "video", "image_and_video")
HIDDEN, LOGITS, LOSS = 1e-5, 2e-5, 2e-6
"""Tolerances of the goldens."""

GREY = 2.1 / 255 / 0.5
"""Two grey levels: pixel values by PIL's filter (official) and by torchvision's (transformers)."""


def close(ours, theirs, atol):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


@pytest.fixture
def family(golden_folder):
    return video_llama_3.load(str(golden_folder))


def visual_of(case, compressed):
    mask = case["out.compression_mask"] if compressed else torch.ones_like(case["out.compression_mask"])
    inputs = {
        "pixel_values_videos": case["in.pixel_values"],
        "video_grid_thw": case["in.grid_sizes"],
        "video_merge_sizes": case["in.merge_sizes"],
        "video_compression_mask": mask,
    }
    return Visual(inputs, int(mask.sum()))


def sequence_of(goldens, case, compressed):
    """Return the official ids, labels and positions of a case as a sequence; what comes after the last label is not in it."""
    given = "out.compressed" if compressed else "in"
    ids, labels = case[f"{given}.native_input_ids"][0].numpy(), case[f"{given}.labels"][0].numpy()
    answer = np.flatnonzero(labels != -100)
    stop = int(answer[-1]) + 1
    pads = [goldens.meta["config"][f"native_{kind}_token_id"] for kind in ("image", "video")]
    is_visual = np.isin(ids[:stop], pads)
    positions = case["out.compressed.position_ids"].numpy() if compressed else np.arange(len(ids))[None]
    places = np.where(is_visual, np.cumsum(is_visual) - 1, -1)
    return TokenSequence(ids[:stop], positions[:, :stop], places, int(answer[0]), question=0, choice=0)


def test_the_drawn_weights_are_those_of_the_goldens(goldens):
    weights = goldens.weights()
    assert sum(w.numel() for w in weights.values()) == 244_672
    if (goldens.folder / "weights_probe.safetensors").is_file():
        probes = goldens.tensors("weights_probe")
        assert set(probes) == set(weights)
        for name, probe in probes.items():
            flat = weights[name].flatten()
            torch.testing.assert_close(flat[[0, len(flat) // 2, -1]], probe, rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.shared
def test_the_reduced_goldens_are_the_full_ones_bit_for_bit(shared, goldens):
    full = type(goldens)(shared / "goldens/videollama3")
    weights = goldens.weights()
    assert all(torch.equal(w, weights[name]) for name, w in full.tensors("model").items())
    for name in CASES:
        ours, theirs = goldens.case(name), full.case(name)
        for key in ("out", "out.compressed"):
            theirs[f"{key}.logits"] = theirs[f"{key}.logits"][:, ours[f"{key}.rows"]]
        assert all(torch.equal(ours[key], theirs[key]) for key in ours if key in theirs and not key.endswith("rows"))
        assert "in.pixel_values" in ours and torch.equal(ours["in.pixel_values"], theirs["in.pixel_values"])


@pytest.mark.parametrize("name", CASES)
def test_the_vision_tower_and_the_projector(goldens, family, name):
    case, tower = goldens.case(name), family.model.model.vision_model
    kept = {}
    tower.embeddings.register_forward_hook(lambda _, __, out: kept.update(embeddings=out))
    for i, layer in enumerate(tower.encoder.layers):
        layer.register_forward_hook(lambda _, __, out, i=i: kept.update({f"layer.{i}": out}))
    with torch.no_grad():
        kept["pooled"] = tower(
            case["in.pixel_values"], grid_thw=case["in.grid_sizes"], merge_sizes=case["in.merge_sizes"]
        ).last_hidden_state
        close(family.encode(visual_of(case, compressed=False)), case["out.mm_features"], HIDDEN)
        kept_tokens = case["out.mm_features"][case["out.compression_mask"]]
        close(family.encode(visual_of(case, compressed=True)), kept_tokens, HIDDEN)
    assert len(kept) == 4
    for stage, ours in kept.items():
        if (key := f"out.vit.{stage}") in case:
            close(ours, case[key], HIDDEN)


@pytest.mark.parametrize("compressed", [False, True], ids=["all tokens", "compressed"])
@pytest.mark.parametrize("name", CASES)
def test_logits_and_loss_over_a_forest(goldens, family, name, compressed):
    case = goldens.case(name)
    sequence, visual = sequence_of(goldens, case, compressed), visual_of(case, compressed)
    forest = Forest.plant([PromptTree.merge([sequence])], [visual.num_tokens])
    key = "out.compressed" if compressed else "out"
    with torch.no_grad():
        logits = family.logits(family(forest, family.encode(visual)))
    rows = case[f"{key}.rows"].tolist()
    close(logits, case[f"{key}.logits"][0, [rows.index(row) for row in forest.predict_rows.tolist()]], LOGITS)
    close(functional.cross_entropy(logits, forest.answer_ids)[None], case[f"{key}.loss"], LOSS)


@pytest.mark.parametrize("compressed", [False, True], ids=["all tokens", "compressed"])
@pytest.mark.parametrize("name", CASES)
def test_all_logits_of_the_native_class(goldens, family, name, compressed):
    case = goldens.case(name)
    given, key = ("out.compressed", "out.compressed") if compressed else ("in", "out")
    ids = case[f"{given}.native_input_ids"]
    images = int((case["in.merge_sizes"] == 1).sum())
    patches = int(case["in.grid_sizes"][:images].prod(dim=1).sum())
    inputs = {}
    if images:
        inputs |= {"pixel_values": case["in.pixel_values"][:patches]}
        inputs |= {f"image_{what}": case[f"in.{of}"][:images] for what, of in KINDS.items()}
    if images < len(case["in.merge_sizes"]):
        inputs |= {"pixel_values_videos": case["in.pixel_values"][patches:]}
        inputs |= {f"video_{what}": case[f"in.{of}"][images:] for what, of in KINDS.items()}
        inputs["video_compression_mask"] = visual_of(case, compressed).inputs["video_compression_mask"][patches:]
    with torch.no_grad():
        out = family.model(input_ids=ids, labels=case[f"{given}.labels"], **inputs)
    close(out.logits[:, case[f"{key}.rows"]], case[f"{key}.logits"], LOGITS)
    close(out.loss[None], case[f"{key}.loss"], LOSS)


KINDS = {"grid_thw": "grid_sizes", "merge_sizes": "merge_sizes"}


def frames_of(pixels, time_s):
    count = len(pixels)
    return Frames(
        pixels=pixels.numpy(),
        time_s=np.array(time_s),
        indices=np.arange(count),
        num_decoded=count,
        sampling="all",
    )


@pytest.fixture
def asked(goldens):
    """The video case as frames, its question and its answer."""
    user, assistant = goldens.meta["cases"]["video"]["conversation"]
    frames = frames_of(goldens.tensors("preprocess")["video.raw0"], user["content"][0]["timestamps"])
    return frames, user["content"][1]["text"], assistant["content"]


@pytest.mark.parametrize("compressed", [False, True], ids=["all tokens", "compressed"])
def test_a_question_becomes_the_official_ids_labels_and_positions(goldens, golden_folder, asked, compressed):
    processor = video_llama_3.load(str(golden_folder), compress=compressed).processor
    frames, text, answer = asked
    visual = processor.visual(frames)
    sequence = processor.sequence([visual], text, answer, question=0, choice=0)
    expected = sequence_of(goldens, goldens.case("video"), compressed)
    assert sequence.ids.tolist() == expected.ids.tolist()
    assert sequence.positions.tolist() == expected.positions.tolist()
    assert sequence.visual.tolist() == expected.visual.tolist()
    assert sequence.answer_start == expected.answer_start
    assert visual.num_tokens == goldens.meta["cases"]["video"]["n_kept" if compressed else "n_visual"]


def test_the_prompt_is_the_official_one(goldens, family, asked):
    frames, text, answer = asked
    sequence = family.processor.sequence([family.processor.visual(frames)], text, answer, question=0, choice=0)
    shown = family.processor.decode([i for i in sequence.ids[: sequence.answer_start].tolist() if i != 407])
    assert shown == goldens.meta["cases"]["video"]["prompt"].replace("<image>", "")
    assert family.processor.decode(sequence.ids[sequence.answer_start :].tolist()) == f"{answer}<|im_end|>"


@pytest.mark.parametrize(("raw", "name", "patches"), [("video", "video", 0), ("video2", "image_and_video", 18)])
def test_pixels_sizes_and_compression_of_a_clip(goldens, family, raw, name, patches):
    case, pixels = goldens.case(name), goldens.tensors("preprocess")[f"{raw}.raw0"]
    visual = family.processor.visual(frames_of(pixels, np.arange(len(pixels)) / 2.0))
    assert visual.inputs["video_grid_thw"].tolist() == case["in.grid_sizes"][-1:].tolist()
    assert visual.inputs["video_merge_sizes"].tolist() == case["in.merge_sizes"][-1:].tolist()
    close(visual.inputs["pixel_values_videos"], case["in.pixel_values"][patches:], GREY)
    assert torch.equal(visual.inputs["video_compression_mask"], case["out.compression_mask"][patches:])
    assert visual.num_tokens == sum(visual.frame_tokens) == int(case["out.compression_mask"][patches:].sum())


def test_a_tight_bound_gives_smaller_frames_than_the_official_rule(goldens, family):
    """Transformers' rule, which the docstring of the processor names: the clip's bound is shared out, the smallest gives way."""
    (official,) = [row for row in goldens.meta["preprocess"] if row["key"] == "video_small_budget"]
    video = family.processor.processor.video_processor
    video.size = {"shortest_edge": official["min_tokens"] * 784, "longest_edge": official["max_tokens"] * 784}
    pixels = goldens.tensors("preprocess")["video.raw0"]
    visual = family.processor.visual(frames_of(pixels, np.arange(4.0)))
    assert official["grid_sizes"] == [[4, 4, 6]] and visual.inputs["video_grid_thw"].tolist() == [[4, 2, 4]]


@pytest.mark.parametrize("compressed", [False, True], ids=["all tokens", "compressed"])
@pytest.mark.parametrize("name", CASES)
def test_greedy_tokens(goldens, family, name, compressed):
    case = goldens.case(name)
    sequence, visual = sequence_of(goldens, case, compressed), visual_of(case, compressed)
    forest = Forest.plant([PromptTree.merge([sequence])], [visual.num_tokens])
    cache = family.new_cache()
    with torch.no_grad():
        logits = family.logits(family(forest, family.encode(visual), cache))
        made, sees = [int(logits[0].argmax())], torch.arange(len(forest.ids)) < sequence.answer_start
        for step in range(7):  # behind the prompt, beside the answer
            sees = torch.cat((sees, torch.ones(1, dtype=torch.bool)))
            position = torch.tensor([[sequence.answer_start + step]])
            hidden = family.extend(torch.tensor(made[-1:]), position, sees[None], cache)
            made.append(int(family.logits(hidden)[0].argmax()))
    assert made == goldens.meta["cases"][name]["greedy8_compressed" if compressed else "greedy8"]
