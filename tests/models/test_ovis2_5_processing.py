"""The processor of Ovis2.5: sizes and pixels bit for bit, the chat layout, and what it refuses."""

import pickle
import re
import shutil
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2Tokenizer

from actdeny_train.errors import CheckpointError, ConfigError, DataError
from actdeny_train.models import ovis2_5
from actdeny_train.models.ovis2_5.processing import Ovis25Processor, load_processor, smart_resize

TEXT = "Which action does the video show?\n1. archery\n2. bowling – none of these"
EMPTY_THOUGHT = "<think>\n\n</think>\n\n"


@pytest.fixture
def make(tiny_ovis_folder):
    """Make our processor with other settings."""

    def make(tokens_per_frame=None, thinking=False):
        return load_processor(tiny_ovis_folder, 16, 2, tokens_per_frame, thinking)

    return make


@pytest.fixture(scope="module")
def module_processor(tiny_ovis_folder):
    return load_processor(tiny_ovis_folder, 16, 2, (4, 16), False)


# Sizes and pixels


def test_sizes_are_the_official_ones(ovis_goldens):
    golden = ovis_goldens.json("smart_resize")
    assert len(golden["rows"]) == 160
    for *arguments, height, width in golden["rows"]:
        assert smart_resize(*arguments) == (height, width), arguments


def test_no_side_is_zero_where_the_official_one_is(ovis_goldens):
    for *arguments, height, width in ovis_goldens.json("smart_resize")["official_returns_zero_side"]:
        assert smart_resize(*arguments) == (max(height, 32), max(width, 32)), arguments


@given(
    height=st.integers(1, 6000), width=st.integers(1, 6000), bounds=st.tuples(st.integers(1, 500), st.integers(0, 3000))
)
def test_sides_are_whole_visual_tokens(height, width, bounds):
    least, most = bounds[0] * 1024, sum(bounds) * 1024
    sides = smart_resize(height, width, 32, least, most)
    assert min(sides) >= 32 and sides[0] % 32 == sides[1] % 32 == 0
    assert smart_resize(width, height, 32, least, most) == sides[::-1]


def test_pixels_are_the_official_ones_bit_for_bit(ovis_goldens):
    goldens, seen = ovis_goldens.tensors("preprocess"), 0
    for case in ovis_goldens.json("preprocess"):
        processor = ovis_goldens.processor()
        processor.tokens_per_frame = (case["min_pixels"] // 1024, case["max_pixels"] // 1024)
        pixels, grid = processor.patches(goldens[f"in.{case['key']}.frames"].numpy())
        assert list(grid) == case["grid_thw"]
        assert torch.equal(pixels, official_pixels(goldens, case["key"])), case
        seen += 1
    assert seen >= 6


def test_a_grey_picture_is_shown_in_three_equal_channels(ovis_goldens):
    goldens = ovis_goldens.tensors("preprocess")
    pixels = np.repeat(goldens["in.grey.frames"].numpy()[None, :, :, None], 3, axis=3)
    ours, _ = ovis_goldens.processor().patches(pixels)
    assert torch.equal(ours, official_pixels(goldens, "grey"))


def official_pixels(goldens, key):
    """Return a golden's pixel values; the reduced set has grey levels and what float32 each level became."""
    if (whole := goldens.get(f"out.{key}.pixel_values")) is not None:
        return whole
    return goldens["levels"][goldens[f"out.{key}.grey"].long()]


@given(height=st.integers(20, 300), width=st.integers(20, 300))
@settings(max_examples=20, deadline=None)
def test_a_frame_has_about_as_many_tokens_as_allowed(module_processor, make_frames, height, width):
    visual = module_processor.visual(make_frames(2, height, width))
    t, h, w = visual.inputs["grid_thws"][0].tolist()
    assert t == 2 and visual.inputs["pixel_values"].shape == (t * h * w, 768)
    assert visual.num_tokens == t * h * w // 4 + 2
    assert 4 <= h * w // 4 <= max(16, max(h, w) // 2)


@pytest.mark.parametrize(("count", "seconds"), [(1, 0.0), (2, 0.25), (5, 0.25)])
def test_every_frame_is_a_step_of_time(make, make_frames, count, seconds):
    visual = make((4, 4)).visual(make_frames(count, fps=4.0))
    assert visual.inputs["grid_thws"].tolist() == [[count, 4, 4]]
    assert visual.num_tokens == 4 * count + 2 and visual.seconds == pytest.approx(seconds)


# The chat layout


def test_the_chat_template_writes_the_official_text(ovis_goldens):
    tokenizer = ovis_goldens.processor().tokenizer
    for name, case in ovis_goldens.json("chat_template")["cases"].items():
        wanted = {key: case[key] for key in ("enable_thinking",) if case.get(key) is not None}
        prompt = case.get("add_generation_prompt") is not False
        text = tokenizer.apply_chat_template(case["messages"], tokenize=False, add_generation_prompt=prompt, **wanted)
        assert text == case["text"], name


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("kind", ["video", "text"])
def test_a_prompt_has_the_official_ids(ovis_goldens, make_frames, kind, thinking):
    golden = ovis_goldens.json("chat_template")["cases"][f"{kind}/thinking={thinking}/agp=True"]
    processor = ovis_goldens.processor(thinking=thinking)
    content = golden["messages"][0]["content"]
    visuals, text = [], content if kind == "text" else content[1]["text"]
    if kind == "video":
        visuals = [processor.visual(make_frames(4, 70, 101))]
        assert visuals[0].inputs["grid_thws"].tolist() == golden["grid_thws"]
    sequence = processor.sequence(visuals, text, "1", question=0, choice=0)
    ids = np.array(golden["input_ids"])
    np.testing.assert_array_equal(sequence.visual[: len(ids)] >= 0, ids < 0)
    np.testing.assert_array_equal(sequence.ids[: len(ids)][ids >= 0], ids[ids >= 0])
    assert sequence.answer_start == len(ids)
    assert ids[sequence.visual[: len(ids)] == 0].tolist() == ([-303] if visuals else [])


@pytest.mark.parametrize("thinking", [False, True])
def test_the_answer_is_everything_after_the_prompt(make, make_frames, thinking):
    ours = make((4, 4), thinking)
    visual = ours.visual(make_frames(2))
    sequence = ours.sequence([visual], TEXT, "10", question=3, choice=1)
    assert ours.decode(sequence.ids[sequence.answer_start :].tolist()) == "10<|im_end|>"
    assert ours.decode(sequence.ids[: sequence.answer_start].tolist()) == (
        f"<|im_start|>user\n<|vision_start|>{'<|video_pad|>' * 8}<|vision_end|>\n{TEXT}<|im_end|>\n<|im_start|>assistant\n"
        + ("" if thinking else EMPTY_THOUGHT)
    )
    assert sequence.visual[sequence.visual >= 0].tolist() == list(range(visual.num_tokens))
    assert sequence.positions.tolist() == [list(range(len(sequence.ids)))]
    assert (sequence.question, sequence.choice) == (3, 1)


def without_tokens(words: str) -> bool:
    return not re.search(r"<[^>]+>", words)  # what may be a special token, which is refused: see below


@given(text=st.text(max_size=30).filter(without_tokens), answer=st.text(min_size=1, max_size=10).filter(without_tokens))
@settings(max_examples=60, deadline=None)
def test_any_answer_splits_where_the_prompt_ends(module_processor, text, answer):
    prompt = module_processor.sequence([], text, "1", question=0, choice=0)
    sequence = module_processor.sequence([], text, answer, question=0, choice=1)
    start = sequence.answer_start
    assert start == prompt.answer_start
    np.testing.assert_array_equal(sequence.ids[:start], prompt.ids[:start])
    assert module_processor.decode(sequence.ids[start:].tolist()) == unicodedata.normalize("NFC", answer) + "<|im_end|>"


def test_a_token_over_the_border_of_prompt_and_answer_is_refused(make):
    ours = make()
    ours.tokenizer.add_tokens(["\nyes"])
    ours.sequence([], TEXT, "no", question=0, choice=0)
    with pytest.raises(AssertionError, match="a token spans the border between prompt and answer 'yes'"):
        ours.sequence([], TEXT, "yes", question=0, choice=0)


def test_a_response_ends_with_the_turn_or_the_text(make):
    ours = make()
    assert [ours.decode([token]) for token in ours.stop_ids] == ["<|im_end|>", "<|endoftext|>"]


# What is refused


@pytest.mark.parametrize("token", ["<|im_end|>", "<|video_pad|>", "<image>", "<video>", "<think>", "</think>"])
@pytest.mark.parametrize("place", ["text", "answer"])
def test_text_that_holds_a_piece_of_the_layout_is_refused(make, token, place):
    words = {"text": TEXT, "answer": "1"}
    words[place] += f" {token}"
    with pytest.raises(DataError) as caught:
        make().sequence([], **words, question=0, choice=0)
    assert str(caught.value) == (
        f"The text of a question holds the tokenizer's special token {token!r}, which would become part of the chat layout: "
        f"{words['text'][:80]!r}. Remove it from the question or its choices."
    )


def test_two_clips_in_a_question_are_refused(make, make_frames):
    ours = make((4, 4))
    visuals = [ours.visual(make_frames(2, seed=seed)) for seed in (0, 1)]
    with pytest.raises(DataError) as caught:
        ours.sequence(visuals, TEXT, "1", question=0, choice=0)
    assert str(caught.value) == (
        "A question is about 2 clips, but Ovis2.5 takes one video a conversation. Leave out questions about several clips, or choose "
        f"another model family: {TEXT[:80]!r}."
    )


@pytest.mark.parametrize("bounds", [(0, 4), (8, 4), (-1, -1)])
def test_impossible_bounds(make, bounds):
    with pytest.raises(ConfigError) as caught:
        make(bounds)
    assert str(caught.value) == (
        f"tokens_per_frame is {bounds}, but must be (smallest, largest) with 1 <= smallest <= largest. Correct it, or leave it out "
        "to keep the checkpoint's own bounds."
    )


@pytest.mark.parametrize(
    ("template", "found"),
    [
        (None, "Cannot use chat template functions because tokenizer.chat_template is not set"),
        ("{% for message in messages %}{{ message", "unexpected end of template"),
        ("{{ messages[0]['content'][-1]['text'] }}", "it gives '?'"),
    ],
)
def test_another_chat_template(make, template, found):
    ours = make()
    ours.tokenizer.chat_template = template
    with pytest.raises(CheckpointError) as caught:
        Ovis25Processor(ours.tokenizer, ours.images)
    before, after = str(caught.value).split(" instead of ")
    lead = "The checkpoint's chat template is not that of an Ovis2.5; for a user's turn with a video and the text '?' it gives "
    assert before.startswith(lead) and found in before
    expected = f"<|im_start|>user\n<video>\n?<|im_end|>\n<|im_start|>assistant\n{EMPTY_THOUGHT}"
    assert after == (
        f"{expected!r}. Take chat_template.jinja or tokenizer_config.json from the model that the checkpoint was finetuned from."
    )


@pytest.mark.parametrize("missing", ["<|vision_start|>", "<think>"])
def test_a_tokenizer_of_another_model(make, missing):
    ours = make()
    tokens = [t for t in ours.tokenizer.added_tokens_decoder.values() if str(t) != missing]
    vocabulary = {f"{i}": i for i in range(10)}
    other = Qwen2Tokenizer(
        vocab=vocabulary, merges=[], eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token=None
    )
    other.add_tokens(tokens)
    with pytest.raises(CheckpointError) as caught:
        Ovis25Processor(other, ours.images)
    assert str(caught.value) == (
        f"The checkpoint's tokenizer has no token {missing}, so it is not that of an Ovis2.5. Take the tokenizer files from the model that "
        "the checkpoint was finetuned from."
    )


# Settings that travel


def test_bounds_are_the_demo_s_unless_the_checkpoint_has_others(make, tmp_path):
    assert make().tokens_per_frame == (196, 784)
    make((4, 9)).save(tmp_path)
    assert load_processor(tmp_path, 16, 2, None, False).tokens_per_frame == (4, 9)
    assert load_processor(tmp_path, 16, 2, (1, 2), False).tokens_per_frame == (1, 2)


def test_a_processor_travels_into_workers_and_folders(make, make_frames, tmp_path):
    ours = make((4, 9))
    ours.save(tmp_path)
    clip = make_frames(4, 100, 70)
    expected = ours.visual(clip)
    sequence = ours.sequence([expected], TEXT, "2", question=0, choice=1)
    for other in (pickle.loads(pickle.dumps(ours)), load_processor(tmp_path, 16, 2, None, False)):
        visual = other.visual(clip)
        torch.testing.assert_close(dict(visual.inputs), dict(expected.inputs), rtol=0, atol=0)
        again = other.sequence([visual], TEXT, "2", question=0, choice=1)
        np.testing.assert_array_equal(again.ids, sequence.ids)
        np.testing.assert_array_equal(again.visual, sequence.visual)
        assert other.fingerprint == ours.fingerprint


def test_the_fingerprint_changes_with_whatever_changes_the_tokens(make):
    def template(ours):
        ours.tokenizer.chat_template += " "

    def vocabulary(ours):
        ours.tokenizer.add_tokens(["archery"])

    def mean(ours):
        ours.images.image_mean = [0.4, 0.5, 0.5]

    plain = make()
    assert plain.fingerprint == make().fingerprint and len(plain.fingerprint) == 16
    changed = [make((4, 16)), make((4, 9)), make(thinking=True)]
    for change in (template, vocabulary, mean):
        ours = make()
        change(ours)
        changed.append(ours)
    assert len({plain.fingerprint, *(ours.fingerprint for ours in changed)}) == 7


def test_damaged_preprocessing_is_told(tiny_ovis_folder, tmp_path):
    folder = shutil.copytree(tiny_ovis_folder, tmp_path / "checkpoint")
    (folder / "preprocessor_config.json").write_text("{")
    with pytest.raises(CheckpointError) as caught:
        ovis2_5.load(str(folder))
    assert str(caught.value).startswith(
        f"Cannot read the processor (tokenizer, chat template, preprocessing) in the folder {folder}: "
    )
