"""The processor of VideoLLaMA3 against transformers' own and against the official template's rule: ids, pixels, times, counts."""

import pickle
import re
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Environment
from transformers import VideoLlama3Processor
from transformers.video_utils import VideoMetadata

from actdeny_train.errors import CheckpointError, ConfigError, DataError
from actdeny_train.models.family import Visual
from actdeny_train.models.video_llama_3.processing import VideoLlama3Processing, write_clip
from actdeny_train.types import Frames

TEXT = "Which action does the video show?\n1. archery\n2. bowling – none of these"


@pytest.fixture(scope="module")
def theirs(tiny_folder):
    return VideoLlama3Processor.from_pretrained(tiny_folder)


@pytest.fixture
def make(tiny_folder):
    """Make our processor with other settings."""

    def make(tokens_per_frame=None, compress=None):
        return VideoLlama3Processing(VideoLlama3Processor.from_pretrained(tiny_folder), tokens_per_frame, compress)

    return make


def whole(theirs, clips, text, answer, fps):
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
            "video_metadata": [
                VideoMetadata(total_num_frames=len(clip.indices), fps=fps, frames_indices=clip.indices.tolist())
                for clip in clips
            ],
        },
    )


@pytest.mark.parametrize("answer", ["1", "10", "a man draws a bow"])
@pytest.mark.parametrize(
    "sizes",
    [[(8, 56, 84)], [(3, 140, 168)], [(1, 240, 320)], [(4, 56, 56), (5, 112, 90)], [(2, 56, 84)] * 4],
    ids=str,
)
def test_ids_pixels_and_masks_are_those_of_transformers(make, theirs, make_clip, sizes, answer):
    ours = make()
    clips = [make_clip(*size, fps=4.0, seed=i) for i, size in enumerate(sizes)]
    visuals = [ours.visual(clip) for clip in clips]
    sequence = ours.sequence(visuals, TEXT, answer, question=3, choice=1)
    expected = whole(theirs, clips, TEXT, answer, fps=4.0)
    ids = expected["input_ids"][0].tolist()
    end = len(ids) - 1 - ids[::-1].index(theirs.tokenizer.convert_tokens_to_ids("<|im_end|>"))
    assert sequence.ids.tolist() == ids[: end + 1]  # the template's last newline is never generated
    joined = Visual.join(visuals)
    for name, tensor in joined.inputs.items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0)
    is_visual = sequence.ids == theirs.video_token_id
    assert joined.num_tokens == int(expected["video_compression_mask"].sum()) == is_visual.sum()
    np.testing.assert_array_equal(sequence.visual, np.where(is_visual, np.cumsum(is_visual) - 1, -1))
    assert sequence.positions.tolist() == [list(range(len(sequence.ids)))]
    assert (sequence.question, sequence.choice) == (3, 1)


def test_the_prompt_tells_each_frames_time(make, make_clip):
    ours = make(tokens_per_frame=(4, 4), compress=False)
    sequence = ours.sequence([ours.visual(make_clip(3, 56, 56, fps=4.0))], TEXT, "10", question=0, choice=0)
    assert ours.decode(sequence.ids[sequence.answer_start :].tolist()) == "10<|im_end|>"
    pads = "<|video_pad|>" * 4
    assert ours.decode(sequence.ids[: sequence.answer_start].tolist()) == (
        f"<|im_start|>user\nTime 0.0s:{pads},Time 0.2s:{pads},Time 0.5s:{pads}\n{TEXT}<|im_end|>\n<|im_start|>assistant\n"
    )


def test_clips_follow_each_other_each_with_its_own_times(make, make_clip):
    ours = make(tokens_per_frame=(4, 4))
    visuals = [ours.visual(make_clip(count, 56, 56, fps=2.0, seed=count)) for count in (2, 1, 3)]
    sequence = ours.sequence(visuals, "Which?", "3", question=0, choice=0)
    shown = ours.decode([i for i in sequence.ids.tolist() if i != ours.processor.video_token_id])
    assert shown == (
        "<|im_start|>user\nTime 0.0s:,Time 0.5s:\nTime 0.0s:\nTime 0.0s:,Time 0.5s:,Time 1.0s:\nWhich?<|im_end|>\n"
        "<|im_start|>assistant\n3<|im_end|>"
    )
    counts = [tokens for visual in visuals for tokens in visual.frame_tokens]
    starts = np.flatnonzero(np.diff(np.concatenate(([-2], np.flatnonzero(sequence.visual >= 0)))) > 1)
    assert np.diff([*starts, sum(counts)]).tolist() == counts


@given(time=st.floats(0, 1e5) | st.integers(0, 10**6).map(lambda n: n / 100))
@settings(max_examples=300, deadline=None)
def test_times_are_rounded_as_the_official_template_rounds(time):
    official = Environment().from_string("Time {{ time | round(1) | string }}s:<image>")
    assert write_clip([time], "<image>") == official.render(time=time)


@pytest.mark.parametrize("compress", [False, True, None])
def test_a_frame_keeps_what_changed_and_at_least_one_token(make, compress):
    pixels = np.zeros((5, 56, 84, 3), dtype=np.uint8)
    pixels[1:, :28, 28:56] = 200  # one cell changes, once
    pixels[3:, 28:] = 90  # three cells
    frames = Frames(pixels=pixels, time_s=np.arange(5) / 2, indices=np.arange(5), num_decoded=5, sampling="all")
    visual = make(tokens_per_frame=(6, 6), compress=compress).visual(frames)
    assert visual.frame_tokens == ((6, 6, 6, 6, 6) if compress is False else (6, 1, 1, 3, 1))
    assert visual.num_tokens == sum(visual.frame_tokens)
    mask = visual.inputs["video_compression_mask"].view(5, 6)
    assert mask[0].all()
    if compress is not False:
        assert mask[1:].nonzero().tolist() == [[0, 1], [1, 0], [2, 3], [2, 4], [2, 5], [3, 0]]
    assert visual.seconds == 0.5


@given(count=st.integers(1, 5), height=st.integers(28, 150), width=st.integers(28, 150), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_the_text_has_as_many_places_as_the_encoder_gives_tokens(
    module_processor, make_clip, count, height, width, seed
):
    visual = module_processor.visual(make_clip(count, height, width, seed=seed))
    sequence = module_processor.sequence([visual], "?", "1", question=0, choice=0)
    t, h, w = visual.inputs["video_grid_thw"][0].tolist()
    assert len(visual.inputs["video_compression_mask"]) == t * h * w // 4 and t == count == len(visual.frame_tokens)
    assert visual.num_tokens == (sequence.visual >= 0).sum() == int(visual.inputs["video_compression_mask"].sum())
    assert min(visual.frame_tokens) >= 1 and visual.frame_tokens[0] == h * w // 4


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
    return VideoLlama3Processing(theirs)


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


def test_joined_clips_are_no_clip(make, make_clip):
    ours = make()
    with pytest.raises(AssertionError, match="joined clips have lost the times of their frames"):
        ours.sequence([Visual.join([ours.visual(make_clip(2))])], TEXT, "1", question=0, choice=0)


@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize(("bounds", "tokens"), [((4, 16), 12), ((4, 6), 4), ((40, 60), 48), ((12, 12), 12)])
def test_bounds_hold_for_a_frame_however_many_there_are(make, make_clip, count, bounds, tokens):
    visual = make(tokens_per_frame=bounds, compress=False).visual(make_clip(count, 84, 112))
    assert set(visual.frame_tokens) == {tokens}


def test_without_bounds_the_frames_share_those_of_the_clip(make, make_clip):
    ours = make(compress=False)
    ours.processor.video_processor.size = {"shortest_edge": 4 * 784, "longest_edge": 24 * 784}
    counts = [ours.visual(make_clip(count, 84, 112)).frame_tokens[0] for count in (1, 2, 4, 12)]
    assert counts == [12, 12, 4, 1]  # the smallest bound, 4, gives way


@pytest.mark.parametrize("bounds", [(0, 4), (8, 4), (-1, -1)])
def test_impossible_bounds(make, bounds):
    with pytest.raises(ConfigError) as caught:
        make(tokens_per_frame=bounds)
    assert str(caught.value) == (
        f"tokens_per_frame is {bounds}, but must be (smallest, largest) with 1 <= smallest <= largest. Correct it, or leave it out "
        "to keep the checkpoint's own bounds."
    )


def test_a_processor_travels_into_workers_and_folders(make, make_clip, tmp_path):
    ours = make(tokens_per_frame=(4, 9), compress=False)
    ours.save(tmp_path)
    saved = VideoLlama3Processing(VideoLlama3Processor.from_pretrained(tmp_path))
    clip = make_clip(4, 100, 70)
    expected = ours.visual(clip)
    sequence = ours.sequence([expected], TEXT, "2", question=0, choice=1)
    for other in (pickle.loads(pickle.dumps(ours)), saved):
        visual = other.visual(clip)
        torch.testing.assert_close(dict(visual.inputs), dict(expected.inputs), rtol=0, atol=0)
        again = other.sequence([pickle.loads(pickle.dumps(visual))], TEXT, "2", question=0, choice=1)
        np.testing.assert_array_equal(again.ids, sequence.ids)
        assert other.fingerprint == ours.fingerprint


def test_the_fingerprint_changes_with_whatever_changes_the_tokens(make):
    def template(ours):
        ours.processor.chat_template += " "

    def vocabulary(ours):
        ours.processor.tokenizer.add_tokens(["archery"])

    def mean(ours):
        ours.processor.video_processor.image_mean = [0.4, 0.5, 0.5]

    plain = make()
    assert plain.fingerprint == make().fingerprint == make(compress=True).fingerprint and len(plain.fingerprint) == 16
    changed = [make(compress=False), make(tokens_per_frame=(4, 16)), make(tokens_per_frame=(4, 9))]
    for change in (template, vocabulary, mean):
        ours = make()
        change(ours)
        changed.append(ours)
    assert len({plain.fingerprint, *(ours.fingerprint for ours in changed)}) == 7


def test_it_stops_at_the_end_of_a_turn_or_of_the_text(make):
    ours = make()
    assert [ours.decode([i]) for i in ours.stop_ids] == ["<|im_end|>", "<|endoftext|>"]


@pytest.mark.parametrize(
    ("template", "found"),
    [
        (None, "Cannot use apply_chat_template because this processor does not have a chat template."),
        ("{{ messages[0]['content'][1]['text'] }}", "'?'"),
        ("{% for", "unexpected"),
    ],
)
def test_a_template_that_cannot_show_a_video_is_refused(tiny_folder, template, found):
    processor = VideoLlama3Processor.from_pretrained(tiny_folder)
    processor.chat_template = template
    with pytest.raises(CheckpointError) as caught:
        VideoLlama3Processing(processor)
    text = str(caught.value)
    assert text.startswith(
        "The checkpoint's chat template cannot show a video; for a user's turn with a video and the text '?' it"
    )
    assert found.lower() in text.lower()
    assert text.endswith("(or chat_template.json) from the model that the checkpoint was finetuned from.")


def test_a_tokenizer_of_another_model_is_refused(tiny_folder):
    processor = VideoLlama3Processor.from_pretrained(tiny_folder)
    content = processor.tokenizer.backend_tokenizer.to_str().replace("<|video_pad|>", "<|movie_pad|>")
    processor.tokenizer._tokenizer = processor.tokenizer.backend_tokenizer.from_str(content)
    with pytest.raises(CheckpointError) as caught:
        VideoLlama3Processing(processor)
    assert str(caught.value) == (
        "The checkpoint's tokenizer has no special token <|video_pad|>, so it is not that of a VideoLLaMA3. Take the tokenizer files "
        "from the model that the checkpoint was finetuned from."
    )


@pytest.mark.parametrize(("name", "frames", "patches"), [("temporal_patch_size", 2, 2), ("merge_size", 1, 4)])
def test_patches_that_the_model_has_no_weights_for_are_refused(tiny_folder, name, frames, patches):
    processor = VideoLlama3Processor.from_pretrained(tiny_folder)
    setattr(processor.video_processor, name, max(frames, patches))
    with pytest.raises(CheckpointError) as caught:
        VideoLlama3Processing(processor)
    assert str(caught.value) == (
        f"The checkpoint's video processor joins {frames} frames and {patches} x {patches} patches (temporal_patch_size, merge_size), "
        "but VideoLLaMA3 has 1 frame and at most 2 x 2 patches. Take the processor files from the model that the checkpoint was "
        "finetuned from."
    )
