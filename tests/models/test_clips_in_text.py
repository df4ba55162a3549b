"""Clips inside the text of a question, each before its caption: what the processors write, and the law of forests."""

import copy

import numpy as np
import pytest
import torch
from transformers import Qwen2_5_VLProcessor
from transformers.video_utils import VideoMetadata

from actdeny_train.errors import DataError
from actdeny_train.models.family import user_turn

TEXT = "Which one?\n1: a cook\n2: a king"
PLACES = (TEXT.index("a cook"), TEXT.index("a king"))


def test_a_turn_with_clips_in_its_text():
    video = {"type": "video"}
    assert user_turn(2, TEXT, PLACES)["content"] == [
        {"type": "text", "text": "Which one?\n1: "}, video, {"type": "text", "text": "a cook\n2: "}, video,
        {"type": "text", "text": "a king"},
    ]  # fmt: skip
    assert (
        user_turn(2, "ab", (0, 0))["content"]
        == user_turn(2, "ab")["content"]
        == [video, video, {"type": "text", "text": "ab"}]
    )
    assert user_turn(2, "ab", (1, 2))["content"] == [
        {"type": "text", "text": "a"}, video, {"type": "text", "text": "b"}, video
    ]  # fmt: skip
    assert user_turn(0, "ab")["content"] == [{"type": "text", "text": "ab"}]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])
def test_four_clips_of_qwen2_5_vl(tiny_family, alone, make_frames, four_clips_law, dtype, tolerance):
    family = tiny_family(tokens_per_frame=(4, 30))
    family.model.to(dtype)
    reference = copy.deepcopy(family.model)
    reference.set_attn_implementation("sdpa")
    frames = [
        make_frames(*size, seed=i) for i, size in enumerate([(4, 56, 56), (2, 84, 56), (3, 56, 112), (1, 56, 56)])
    ]
    first, rotated = four_clips_law(family, reference.eval(), alone, frames, tolerance)
    shown = family.processor.decode(first.ids.tolist()).replace("<|video_pad|>", "")
    assert (
        "\n1: <|vision_start|><|vision_end|>La zia preme un tasto\n2: <|vision_start|><|vision_end|>Il sarto" in shown
    )
    assert (
        family.processor.decode(rotated.ids.tolist())
        .replace("<|video_pad|>", "")
        .index("1: <|vision_start|><|vision_end|>Il re")
    )


def test_ids_are_those_of_transformers(tiny_family, tiny_folder, make_frames):
    theirs = Qwen2_5_VLProcessor.from_pretrained(tiny_folder)
    ours = tiny_family(tokens_per_frame=None).processor
    clips = [make_frames(4, 56, 84, seed=1), make_frames(2, 84, 56, seed=2)]
    videos = [{"type": "video", "video": clip.pixels.transpose(0, 3, 1, 2)} for clip in clips]
    text = [{"type": "text", "text": part} for part in ("Which one?\n1: ", "a cook\n2: ", "a king")]
    expected = theirs.apply_chat_template(
        [{"role": "user", "content": [text[0], videos[0], text[1], videos[1], text[2]]}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="np",
        processor_kwargs={
            "do_sample_frames": False,
            "cap_pixels_per_frame": False,
            "video_metadata": [VideoMetadata(total_num_frames=len(clip.indices), fps=4.0) for clip in clips],
        },
    )
    visuals = [ours.visual(clip) for clip in clips]
    sequence = ours.sequence(visuals, TEXT, "1", question=0, choice=0, places=PLACES)
    assert sequence.ids[: sequence.answer_start].tolist() == expected["input_ids"][0].tolist()
    assert sequence.visual.max() + 1 == sum(visual.num_tokens for visual in visuals)


def test_one_clip_of_ovis2_5(tiny_ovis, make_frames):
    processor = tiny_ovis().processor
    visual = processor.visual(make_frames(2))
    sequence = processor.sequence([visual], "Look: here", "1", question=0, choice=0, places=(6,))
    in_front = processor.sequence([visual], "Look: here", "1", question=0, choice=0)
    is_visual = sequence.visual >= 0
    assert (
        sequence.visual[is_visual].tolist()
        == list(range(visual.num_tokens))
        == in_front.visual[in_front.visual >= 0].tolist()
    )
    first = int(np.argmax(is_visual))
    assert processor.decode(sequence.ids[:first].tolist()).endswith("user\nLook: \n")
    assert "here" in processor.decode(sequence.ids[first + visual.num_tokens :].tolist())
    assert processor.max_clips == 1
    with pytest.raises(DataError, match=r"about 2 clips, but Ovis2.5 takes one video a conversation"):
        processor.sequence([visual, visual], "ab", "1", question=0, choice=0, places=(0, 1))
