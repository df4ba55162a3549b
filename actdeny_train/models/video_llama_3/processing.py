"""Frames and words for VideoLLaMA3: every frame's time in the text, and only those visual tokens that differ from the frame before."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import TemplateError
from transformers import VideoLlama3Processor
from transformers.video_utils import VideoMetadata

from actdeny_train.errors import CheckpointError, ConfigError, DataError
from actdeny_train.models.family import Processor, Visual, user_turn
from actdeny_train.trees import TokenSequence
from actdeny_train.types import Frames

VIDEO_PAD = "<|video_pad|>"
END_OF_TURN = "<|im_end|>"
END_OF_TEXT = "<|endoftext|>"
LARGEST_MERGE = 2
"""Visual tokens are means of 2 x 2 patches at most; beyond that the official pooling is no mean."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}<|video_pad|>\n"
    "{% elif part['type'] == 'image' %}<|image_pad|>\n"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The layout of the official training, in our words: no system prompt; a clip's frames are written in place of its pad token."""


def write_clip(time_s: Sequence[float], pad: str = VIDEO_PAD) -> str:
    """Return a clip as the prompt shows it: the time of each frame in seconds, then ``pad`` in place of its visual tokens."""
    return ",".join(f"Time {time:.1f}s:{pad}" for time in time_s)


@dataclass(frozen=True, eq=False)
class Clip(Visual):
    """One clip, with the ``time_s`` that its prompt shows and the visual tokens that are left of each frame."""

    time_s: tuple[float, ...] = ()
    frame_tokens: tuple[int, ...] = ()


class VideoLlama3Processing(Processor):
    """Frames and words for VideoLLaMA3; a question may be about several clips.

    Sizes follow transformers' rule, so that a saved folder shows frames to plain transformers as it did in training: a frame may
    have a clip's bound divided by its frames, and the smallest bound gives way. (Officially the clips of a question share one
    bound, and the smallest is kept: other sizes only where a clip comes near 16384 visual tokens.) ``tokens_per_frame``, smallest and
    largest, bounds a frame's visual tokens (28 x 28 px, before compression) however many frames there are; None keeps the
    checkpoint's bounds. Frames are resized, never cropped; rounding to whole tokens can miss a bound where both are close.
    ``compress`` drops a frame's visual tokens that are nearly those of the frame before; None does as the checkpoint says.
    Raises CheckpointError if the tokenizer lacks a token of the chat layout, or the chat template cannot show a video.
    """

    def __init__(
        self,
        processor: VideoLlama3Processor,
        tokens_per_frame: tuple[int, int] | None = None,
        compress: bool | None = None,
    ) -> None:
        self.processor = processor
        video = processor.video_processor
        if tokens_per_frame is not None:
            if not 1 <= tokens_per_frame[0] <= tokens_per_frame[1]:
                raise ConfigError(
                    f"tokens_per_frame is {tokens_per_frame}, but must be (smallest, largest) with 1 <= smallest <= largest. "
                    "Correct it, or leave it out to keep the checkpoint's own bounds."
                )
            video.tokens_per_frame = list(tokens_per_frame)  # saved with the rest; plain transformers passes it over
        if compress is not None:
            video.use_token_compression = compress
        if video.temporal_patch_size != 1 or video.merge_size > LARGEST_MERGE:
            raise CheckpointError(
                f"The checkpoint's video processor joins {video.temporal_patch_size} frames and {video.merge_size} x {video.merge_size} "
                f"patches (temporal_patch_size, merge_size), but VideoLLaMA3 has 1 frame and at most {LARGEST_MERGE} x {LARGEST_MERGE} "
                "patches. Take the processor files from the model that the checkpoint was finetuned from."
            )
        tokenizer = processor.tokenizer
        self._special = tuple(str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
        for token in (VIDEO_PAD, END_OF_TURN):
            if token not in self._special:
                raise CheckpointError(
                    f"The checkpoint's tokenizer has no special token {token}, so it is not that of a VideoLLaMA3. Take the tokenizer "
                    "files from the model that the checkpoint was finetuned from."
                )
        self._pad = int(tokenizer.convert_tokens_to_ids(VIDEO_PAD))
        self._end = int(tokenizer.convert_tokens_to_ids(END_OF_TURN))
        self._check_template()

    def _check_template(self) -> None:
        """Refuse a chat template that is missing, damaged, or written for text alone, before any clip is read."""
        user = {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "?"}]}
        try:
            found = self._render([user], add_generation_prompt=True)
        except (ValueError, TypeError, TemplateError) as error:
            found = " ".join(str(error).split())
        if found.count(VIDEO_PAD) != 1:
            raise CheckpointError(
                f"The checkpoint's chat template cannot show a video; for a user's turn with a video and the text '?' it gives: {found!r}. "
                "Take chat_template.jinja (or chat_template.json) from the model that the checkpoint was finetuned from."
            )

    def visual(self, frames: Frames) -> Clip:
        count = len(frames.indices)
        pixels = torch.from_numpy(np.ascontiguousarray(frames.pixels.transpose(0, 3, 1, 2)))
        out = self.processor.video_processor(
            videos=[pixels],
            video_metadata=[VideoMetadata(total_num_frames=count, fps=1.0)],
            do_sample_frames=False,
            size=self._size(count),
            return_tensors="pt",
        )
        names = ("pixel_values_videos", "video_grid_thw", "video_merge_sizes", "video_compression_mask")
        inputs = {name: out[name] for name in names}
        mask = inputs["video_compression_mask"]
        interval = float(frames.time_s[-1] - frames.time_s[0]) / (count - 1) if count > 1 else 0.0
        return Clip(
            inputs,
            int(mask.sum()),
            interval,
            time_s=tuple(frames.time_s.tolist()),
            frame_tokens=tuple(mask.view(count, -1).sum(dim=1).tolist()),
        )

    def _size(self, num_frames: int) -> dict[str, int]:
        """Return the bounds in pixels: the smallest of a frame, the largest of the clip, which is shared out among its frames."""
        video = self.processor.video_processor
        bounds = getattr(video, "tokens_per_frame", None)
        if bounds is None:
            return {name: int(video.size[name]) for name in ("shortest_edge", "longest_edge")}
        pixels = (int(video.patch_size) * int(video.merge_size)) ** 2
        return {"shortest_edge": bounds[0] * pixels, "longest_edge": bounds[1] * pixels * num_frames}

    def sequence(
        self,
        visuals: Sequence[Visual],
        text: str,
        answer: str,
        *,
        question: int,
        choice: int,
        places: Sequence[int] = (),
    ) -> TokenSequence:
        for token in self._special:
            if token in text or token in answer:
                raise DataError(
                    f"The text of a question holds the tokenizer's special token {token!r}, which would become part of the chat "
                    f"layout: {text[:80]!r}. Remove it from the question or its choices."
                )
        clips = [visual for visual in visuals if isinstance(visual, Clip)]
        assert len(clips) == len(visuals), "joined clips have lost the times of their frames"
        user = user_turn(len(clips), text, places)
        asked = _write(clips, self._render([user], add_generation_prompt=True))
        assistant = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
        whole = _write(clips, self._render([user, assistant]))
        assert whole.startswith(asked), "the chat template writes another prompt when the answer is there"
        encoded = self.processor.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
        starts = [start for start, _ in encoded["offset_mapping"]]
        assert len(asked) in starts, f"a token spans the border between prompt and answer {answer!r}"
        begin = starts.index(len(asked))
        stop = encoded["input_ids"].index(self._end, begin) + 1
        ids = np.array(encoded["input_ids"][:stop], dtype=np.int64)
        repeats = np.ones(len(ids), dtype=np.int64)
        repeats[ids == self._pad] = [tokens for clip in clips for tokens in clip.frame_tokens]
        expanded = np.repeat(ids, repeats)
        is_visual = expanded == self._pad
        return TokenSequence(
            ids=expanded,
            positions=np.arange(len(expanded), dtype=np.int64)[None],
            visual=np.where(is_visual, np.cumsum(is_visual) - 1, -1),
            answer_start=begin + len(expanded) - len(ids),
            question=question,
            choice=choice,
        )

    def _render(self, conversation: list[dict[str, Any]], add_generation_prompt: bool = False) -> str:
        return str(
            self.processor.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        )

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.processor.tokenizer.decode(list(ids), skip_special_tokens=False))

    def save(self, folder: Path) -> None:
        """Write the layout of converted checkpoints. Plain transformers obeys the clip's bound in it, not ``tokens_per_frame``."""
        self.processor.save_pretrained(folder)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        end_of_text = self.processor.tokenizer.convert_tokens_to_ids(END_OF_TEXT)
        return (self._end,) if end_of_text is None else (self._end, int(end_of_text))

    @property
    def fingerprint(self) -> str:
        video = self.processor.video_processor.to_dict()
        settings = {k: v for k, v in video.items() if isinstance(v, (int, float, str, bool, list, dict))}
        parts = (
            self.processor.tokenizer.backend_tokenizer.to_str(),
            str(self.processor.chat_template),
            json.dumps(settings, sort_keys=True, default=str),
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _write(clips: Sequence[Clip], prompt: str) -> str:
    """Write the frames of each clip in place of its pad token; no text can hold one."""
    texts = prompt.split(VIDEO_PAD)
    assert len(texts) == len(clips) + 1, f"{len(texts) - 1} videos in the template, {len(clips)} given"
    shown = [write_clip(clip.time_s) for clip in clips]
    return "".join(part for pair in zip(texts, [*shown, ""], strict=True) for part in pair)
