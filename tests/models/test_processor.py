"""The processor of Qwen2.5-VL against transformers' own: ids, pixels, times."""

import pickle
import re
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2_5_VLProcessor
from transformers.video_utils import VideoMetadata

from actdeny_train.errors import ConfigError, DataError
from actdeny_train.models.family import Visual
from actdeny_train.models.qwen2_5_vl import Qwen25VLProcessor

TEXT = "Which action does the video show?\n1. archery\n2. bowling – none of these"


@pytest.fixture(scope="module")
def theirs(tiny_folder):
    return Qwen2_5_VLProcessor.from_pretrained(tiny_folder)


@pytest.fixture
def make(tiny_folder):
    """Make our processor with other settings."""

    def make(tokens_per_second=2.0, tokens_per_frame=None):
        return Qwen25VLProcessor(Qwen2_5_VLProcessor.from_pretrained(tiny_folder), tokens_per_second, tokens_per_frame)

    return make


def whole(theirs, clips, text, answer, fps, **videos_kwargs):
    """Let transformers render, expand and tokenise the whole conversation at once."""
    videos = [{"type": "video", "video": clip.pixels.transpose(0, 3, 1, 2)} for clip in clips]
    return theirs.apply_chat_template(
        [
            {"role": "user", "content": [*videos, {"type": "text", "text": text}]},
            {"role": "assistant", "content": [{"type": "text", "text": answer}]},
        ],
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={
            "do_sample_frames": False,
            "cap_pixels_per_frame": False,
            "video_metadata": [VideoMetadata(total_num_frames=len(clip.indices), fps=fps) for clip in clips],
            **videos_kwargs,
        },
    )


@pytest.mark.parametrize("answer", ["1", "10", "yes", "a man draws a bow"])
@pytest.mark.parametrize(
    "sizes", [[(8, 56, 84)], [(3, 140, 168)], [(1, 240, 320)], [(4, 56, 56), (5, 112, 90)]], ids=str
)
def test_ids_pixels_and_times_are_those_of_transformers(make, theirs, make_frames, sizes, answer):
    ours = make()
    clips = [make_frames(*size, fps=4.0, seed=i) for i, size in enumerate(sizes)]
    visuals = [ours.visual(clip) for clip in clips]
    sequence = ours.sequence(visuals, TEXT, answer, question=3, choice=1)
    expected = whole(theirs, clips, TEXT, answer, fps=4.0)
    ids = expected["input_ids"][0].tolist()
    end = len(ids) - 1 - ids[::-1].index(theirs.tokenizer.convert_tokens_to_ids("<|im_end|>"))
    assert sequence.ids.tolist() == ids[: end + 1]  # the template's last newline is never generated
    assert ((sequence.visual >= 0) == (expected["mm_token_type_ids"][0, : end + 1].numpy() == 2)).all()
    joined = Visual.join(visuals)
    torch.testing.assert_close(joined.inputs["pixel_values_videos"], expected["pixel_values_videos"], rtol=0, atol=0)
    assert joined.inputs["video_grid_thw"].tolist() == expected["video_grid_thw"].tolist()
    assert joined.num_tokens == (sequence.visual >= 0).sum()
    assert sequence.visual[sequence.visual >= 0].tolist() == list(range(joined.num_tokens))
    for visual, clip, seconds in zip(visuals, clips, expected["second_per_grid_ts"], strict=True):
        assert visual.seconds == pytest.approx(float(seconds) if len(clip.indices) > 1 else 0.0)
    assert (sequence.question, sequence.choice) == (3, 1)


def test_the_answer_is_everything_after_the_prompt(make, make_frames):
    ours = make()
    visual = ours.visual(make_frames(2))
    sequence = ours.sequence([visual], TEXT, "10", question=0, choice=0)
    assert ours.decode(sequence.ids[sequence.answer_start :].tolist()) == "10<|im_end|>"
    assert ours.decode(sequence.ids[: sequence.answer_start].tolist()) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<|vision_start|>"
        + "<|video_pad|>" * visual.num_tokens
        + f"<|vision_end|>{TEXT}<|im_end|>\n<|im_start|>assistant\n"
    )


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


@pytest.fixture(scope="module")
def module_processor(theirs):
    return Qwen25VLProcessor(theirs, 2.0)


def test_a_token_over_the_border_of_prompt_and_answer_is_refused(tiny_folder):
    processor = Qwen2_5_VLProcessor.from_pretrained(tiny_folder)
    processor.tokenizer.add_tokens(["\nyes"])
    ours = Qwen25VLProcessor(processor, 2.0)
    ours.sequence([], TEXT, "no", question=0, choice=0)
    with pytest.raises(AssertionError, match="a token spans the border between prompt and answer 'yes'"):
        ours.sequence([], TEXT, "yes", question=0, choice=0)


@pytest.mark.parametrize("token", ["<|im_end|>", "<|video_pad|>", "<|endoftext|>"])
@pytest.mark.parametrize("place", ["text", "answer"])
def test_text_that_holds_a_special_token_is_refused(make, token, place):
    words = {"text": TEXT, "answer": "1"}
    words[place] += f" {token}"
    with pytest.raises(DataError) as caught:
        make().sequence([], **words, question=0, choice=0)
    assert str(caught.value) == (
        f"The text of a question holds the tokenizer's special token {token!r}, which would become part of the chat layout: "
        f"{words['text'][:80]!r}. Remove it from the question or its choices."
    )


@pytest.mark.parametrize(
    ("count", "fps", "steps", "seconds"),
    [(1, 4, 1, 0), (2, 4, 1, 0.5), (3, 4, 2, 0.5), (8, 25, 4, 0.08), (5, 0.5, 3, 4)],
)
def test_two_frames_make_a_step_of_time(make, make_frames, count, fps, steps, seconds):
    ours = make()
    visual = ours.visual(make_frames(count, fps=fps))
    assert visual.inputs["video_grid_thw"].tolist() == [[steps, 4, 4]]
    assert visual.num_tokens == 4 * steps
    assert visual.seconds == pytest.approx(seconds)
    sequence = ours.sequence([visual], TEXT, "1", question=0, choice=0)
    time = sequence.positions[0, sequence.visual >= 0].reshape(steps, 4)[:, 0]
    np.testing.assert_array_equal(time - time[0], [int(t * 2 * visual.seconds) for t in range(steps)])


def test_an_odd_last_frame_is_shown_twice(make, make_frames):
    clip = make_frames(3)
    patches = make().visual(clip).inputs["pixel_values_videos"].reshape(2, 16, 3, 2, 14, 14)
    torch.testing.assert_close(patches[1, :, :, 0], patches[1, :, :, 1], rtol=0, atol=0)
    assert (patches[0, :, :, 0] != patches[0, :, :, 1]).any()


@given(height=st.integers(30, 400), width=st.integers(30, 400))
@settings(max_examples=25, deadline=None)
def test_tokens_of_a_frame_stay_within_their_bounds(bounded, make_frames, height, width):
    visual = bounded.visual(make_frames(2, height, width))
    assert 4 <= visual.num_tokens <= 16
    t, h, w = visual.inputs["video_grid_thw"][0].tolist()
    assert (t, h % 2, w % 2) == (1, 0, 0)


@pytest.fixture(scope="module")
def bounded(tiny_folder):
    return Qwen25VLProcessor(Qwen2_5_VLProcessor.from_pretrained(tiny_folder), 2.0, (4, 16))


@pytest.mark.parametrize("bounds", [(0, 4), (8, 4), (-1, -1)])
def test_impossible_bounds(make, bounds):
    with pytest.raises(ConfigError) as caught:
        make(tokens_per_frame=bounds)
    assert str(caught.value) == (
        f"tokens_per_frame is {bounds}, but must be (smallest, largest) with 1 <= smallest <= largest. Correct it, or leave it out "
        "to keep the checkpoint's own bounds."
    )


def test_a_processor_travels_into_workers_and_folders(make, make_frames, tmp_path):
    ours = make(tokens_per_frame=(4, 9))
    ours.save(tmp_path)
    saved = Qwen25VLProcessor(Qwen2_5_VLProcessor.from_pretrained(tmp_path), 2.0)
    clip = make_frames(4, 100, 70)
    expected = ours.visual(clip)
    sequence = ours.sequence([expected], TEXT, "2", question=0, choice=1)
    for other in (pickle.loads(pickle.dumps(ours)), saved):
        visual = other.visual(clip)
        torch.testing.assert_close(dict(visual.inputs), dict(expected.inputs), rtol=0, atol=0)
        again = other.sequence([visual], TEXT, "2", question=0, choice=1)
        np.testing.assert_array_equal(again.ids, sequence.ids)
        np.testing.assert_array_equal(again.positions, sequence.positions)
        assert other.fingerprint == ours.fingerprint


def test_the_fingerprint_changes_with_whatever_changes_the_tokens(make):
    def template(ours):
        ours.processor.chat_template += " "

    def vocabulary(ours):
        ours.processor.tokenizer.add_tokens(["archery"])

    def mean(ours):
        ours.processor.video_processor.image_mean = [0.5, 0.5, 0.5]

    plain = make()
    assert plain.fingerprint == make().fingerprint and len(plain.fingerprint) == 16
    changed = [make(tokens_per_second=25.0), make(tokens_per_frame=(4, 16)), make(tokens_per_frame=(4, 9))]
    for change in (template, vocabulary, mean):
        ours = make()
        change(ours)
        changed.append(ours)
    assert len({plain.fingerprint, *(ours.fingerprint for ours in changed)}) == 7
