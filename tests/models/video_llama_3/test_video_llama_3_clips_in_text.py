"""VideoLLaMA3 with four clips inside the text of a question, each before its caption."""

import copy

import pytest
import torch


@pytest.mark.parametrize("compress", [False, True], ids=["all tokens", "compressed"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])
def test_four_clips(tiny_family, alone, make_clip, four_clips_law, compress, dtype, tolerance):
    family = tiny_family(tokens_per_frame=(4, 30), compress=compress)
    family.model.to(dtype)
    reference = copy.deepcopy(family.model)
    reference.set_attn_implementation("sdpa")
    frames = [make_clip(*size, seed=i) for i, size in enumerate([(4, 56, 84), (3, 84, 56), (2, 56, 112), (1, 56, 56)])]
    first, rotated = four_clips_law(family, reference.eval(), alone, frames, tolerance)
    shown = family.processor.decode(first.ids.tolist()).replace("<|video_pad|>", "")
    times = "Time 0.0s:,Time 0.2s:,Time 0.5s:"
    assert f"\n1: {times},Time 0.8s:\nLa zia preme un tasto\n2: {times}\nIl sarto preme il bottone\n3: Time" in shown
    shown = family.processor.decode(rotated.ids.tolist()).replace("<|video_pad|>", "")
    assert "\n1: Time 0.0s:,Time 0.2s:\nIl re spinge la guardia\n2: Time 0.0s:\nUn bimbo" in shown
