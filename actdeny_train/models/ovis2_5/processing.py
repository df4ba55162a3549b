"""Frames and words for Ovis2.5: native resolution in steps of 32 pixels, PIL's bilinear filter, the chat layout of its training.

The official token ids of visual places are negative. Here they are the tokenizer's own vision start, video pad and vision end,
which Ovis2.5 leaves unused: they have embedding rows, can be shown, and cannot come out of a text.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import TemplateError
from PIL import Image
from transformers import Qwen2Tokenizer
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from actdeny_train.errors import CheckpointError, ConfigError, DataError
from actdeny_train.models import loading
from actdeny_train.models.family import Processor, Visual, user_turn
from actdeny_train.trees import TokenSequence
from actdeny_train.types import Frames

PREPROCESSING = "preprocessor_config.json"
VIDEO = "<video>"
"""What the chat template writes for a clip: no token, text is cut there."""

PLACEHOLDERS = ("<image>", VIDEO)
THINK = ("<think>", "</think>")
EMPTY_THOUGHT = "<think>\n\n</think>\n\n"
"""What the official training writes in front of an answer that was given without thinking."""

VISION_START = "<|vision_start|>"
VIDEO_PAD = "<|video_pad|>"
VISION_END = "<|vision_end|>"
START_OF_TURN = "<|im_start|>"
END_OF_TURN = "<|im_end|>"
END_OF_TEXT = "<|endoftext|>"

TOKENS_PER_FRAME = (196, 784)
"""448 x 448 to 896 x 896 px, the bounds of the official video demo; training upstream keeps to the smaller one."""

MAX_RATIO = 200
"""The official rule cuts a longer side than this times the shorter one."""


def smart_resize(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """Return the (height, width) that a frame is resized to: multiples of ``factor``, near the frame's shape, within the bounds.

    The official rule, except that a side never falls below ``factor``: it gives 2 x 5000 a side of zero and then fails.
    """
    if height < factor or width < factor:
        scale = factor / min(height, width)
        height, width = (factor, int(width * scale)) if height < width else (int(height * scale), factor)
    elif max(height, width) > MAX_RATIO * min(height, width):
        limit = MAX_RATIO * min(height, width)
        height, width = min(height, limit), min(width, limit)
    rows, columns = round(height / factor), round(width / factor)
    if rows * columns * factor**2 > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        rows, columns = math.floor(height / shrink / factor), math.floor(width / shrink / factor)
    elif rows * columns * factor**2 < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        rows, columns = math.ceil(height * grow / factor), math.ceil(width * grow / factor)
    return max(rows, 1) * factor, max(columns, 1) * factor


class Ovis25Processor(Processor):
    """Frames and words for Ovis2.5. A question is about one clip at most, as in the official code.

    ``tokens_per_frame`` bounds the visual tokens (32 x 32 px) of a frame, smallest and largest; None keeps the bounds saved with the
    checkpoint. Frames are resized, never cropped; rounding to whole tokens can miss a bound. ``thinking`` leaves the assistant's turn
    open for a thought; otherwise an empty one is part of the prompt.
    Raises CheckpointError if the tokenizer lacks a token of the chat layout, or the chat template writes another layout.
    """

    max_clips = 1

    def __init__(
        self,
        tokenizer: Qwen2Tokenizer,
        images: SiglipImageProcessorPil,
        patch_size: int = 16,
        hidden_stride: int = 2,
        tokens_per_frame: tuple[int, int] | None = None,
        thinking: bool = False,
    ) -> None:
        self.tokenizer = tokenizer
        self.images = images
        self.patch_size = patch_size
        self.hidden_stride = hidden_stride
        self.tokens_per_frame = TOKENS_PER_FRAME if tokens_per_frame is None else tokens_per_frame
        if not 1 <= self.tokens_per_frame[0] <= self.tokens_per_frame[1]:
            raise ConfigError(
                f"tokens_per_frame is {tokens_per_frame}, but must be (smallest, largest) with 1 <= smallest <= largest. "
                "Correct it, or leave it out to keep the checkpoint's own bounds."
            )
        self.thinking = thinking
        added = {str(token): token.special for token in tokenizer.added_tokens_decoder.values()}
        for token in (START_OF_TURN, END_OF_TURN, VISION_START, VIDEO_PAD, VISION_END, *THINK):
            if token not in added:
                raise CheckpointError(
                    f"The checkpoint's tokenizer has no token {token}, so it is not that of an Ovis2.5. Take the tokenizer files from the "
                    "model that the checkpoint was finetuned from."
                )
        self._barred = (*(token for token, special in added.items() if special), *PLACEHOLDERS, *THINK)
        self._end = self._token(END_OF_TURN)
        self._check_template()

    @property
    def factor(self) -> int:
        """Pixels a side of a visual token."""
        return self.patch_size * self.hidden_stride

    def _token(self, name: str) -> int:
        return int(self.tokenizer.convert_tokens_to_ids(name))

    def _check_template(self) -> None:
        """Refuse a chat template that is missing, damaged or writes another layout, before any clip is read."""
        expected = f"{START_OF_TURN}user\n{VIDEO}\n?{END_OF_TURN}\n{START_OF_TURN}assistant\n"
        expected += "" if self.thinking else EMPTY_THOUGHT
        try:
            found = self._render(1, "?")
        except (ValueError, TypeError, TemplateError) as error:
            found = " ".join(str(error).split())
        if found != expected:
            raise CheckpointError(
                f"The checkpoint's chat template is not that of an Ovis2.5; for a user's turn with a video and the text '?' it gives "
                f"{found!r} instead of {expected!r}. Take chat_template.jinja or tokenizer_config.json from the model that the checkpoint "
                "was finetuned from."
            )

    def _render(self, num_clips: int, text: str, places: Sequence[int] = ()) -> str:
        """Return the prompt up to where the answer begins."""
        return str(
            self.tokenizer.apply_chat_template(
                [user_turn(num_clips, text, places)],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=self.thinking,
            )
        )

    def visual(self, frames: Frames) -> Visual:
        patches, grid = self.patches(frames.pixels)
        steps = len(frames.time_s) - 1
        return Visual(
            {"pixel_values": patches, "grid_thws": torch.tensor([grid])},
            math.prod(grid) // self.hidden_stride**2 + 2,  # the indicators of start and end
            float(frames.time_s[-1] - frames.time_s[0]) / steps if steps else 0.0,
        )

    def patches(self, pixels: np.ndarray) -> tuple[torch.Tensor, tuple[int, int, int]]:
        """Return (N, 3 * patch * patch) normalised pixels of (T, H, W, 3) frames and their grid (T, rows, columns) in patches.

        The patches of a visual token lie together.
        """
        least, most = (tokens * self.factor**2 for tokens in self.tokens_per_frame)
        height, width = smart_resize(pixels.shape[1], pixels.shape[2], self.factor, least, most)
        out = self.images.preprocess(
            [Image.fromarray(frame) for frame in pixels],
            size={"height": height, "width": width},
            return_tensors="np",
        )
        p, s = self.patch_size, self.hidden_stride
        t, h, w = len(pixels), height // p, width // p
        cut = np.asarray(out["pixel_values"], dtype=np.float32).reshape(t, 3, h // s, s, p, w // s, s, p)
        cut = cut.transpose(0, 2, 5, 3, 6, 1, 4, 7).reshape(t * h * w, 3 * p * p)
        return torch.from_numpy(np.ascontiguousarray(cut)), (t, h, w)

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
        if len(visuals) > 1:
            raise DataError(
                f"A question is about {len(visuals)} clips, but Ovis2.5 takes one video a conversation. Leave out questions about several "
                f"clips, or choose another model family: {text[:80]!r}."
            )
        for token in self._barred:
            if token in text or token in answer:
                raise DataError(
                    f"The text of a question holds the tokenizer's special token {token!r}, which would become part of the chat "
                    f"layout: {text[:80]!r}. Remove it from the question or its choices."
                )
        asked = self._render(len(visuals), text, places)
        before, video, behind = asked.partition(VIDEO) if visuals else ("", "", asked)
        ids, is_visual = self._clip(before, visuals[0]) if video else ([], [])
        encoded = self.tokenizer(
            f"{behind}{answer}{END_OF_TURN}", add_special_tokens=False, return_offsets_mapping=True
        )
        starts = [start for start, _ in encoded["offset_mapping"]]
        assert len(behind) in starts, f"a token spans the border between prompt and answer {answer!r}"
        whole = np.array([*ids, *encoded["input_ids"]], dtype=np.int64)
        is_seen = np.zeros(len(whole), dtype=bool)
        is_seen[: len(ids)] = is_visual
        return TokenSequence(
            ids=whole,
            positions=np.arange(len(whole), dtype=np.int64)[None],
            visual=np.where(is_seen, np.cumsum(is_seen) - 1, -1),
            answer_start=len(ids) + starts.index(len(behind)),
            question=question,
            choice=choice,
        )

    def _clip(self, before: str, visual: Visual) -> tuple[list[int], list[bool]]:
        """Return the tokens up to the end of a clip, and which of them are visual."""
        ids = list(self.tokenizer(before, add_special_tokens=False)["input_ids"])
        pads = [self._token(VIDEO_PAD)] * (visual.num_tokens - 2)
        clip = [self._token(VISION_START), *pads, self._token(VISION_END)]
        return ids + clip, [False] * len(ids) + [True] * len(clip)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)
        least, most = (tokens * self.factor**2 for tokens in self.tokens_per_frame)
        settings = {
            **self._image_settings(),
            "image_processor_type": "SiglipImageProcessor",  # the official name, whatever the backend
            "min_pixels": least,
            "max_pixels": most,
        }
        (folder / PREPROCESSING).write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")

    def _image_settings(self) -> dict[str, Any]:
        settings = self.images.to_dict()
        kept = ("do_convert_rgb", "do_normalize", "do_rescale", "do_resize", "image_mean", "image_std", "resample")
        return {name: settings[name] for name in (*kept, "rescale_factor")}

    @property
    def stop_ids(self) -> tuple[int, ...]:
        end_of_text = self.tokenizer.convert_tokens_to_ids(END_OF_TEXT)
        return (self._end,) if end_of_text is None else (self._end, int(end_of_text))

    @property
    def fingerprint(self) -> str:
        settings = (self._image_settings(), self.patch_size, self.hidden_stride, self.tokens_per_frame, self.thinking)
        parts = (
            self.tokenizer.backend_tokenizer.to_str(),
            str(self.tokenizer.chat_template),
            json.dumps(settings, sort_keys=True, default=str),
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def load_processor(
    folder: Path, patch_size: int, hidden_stride: int, tokens_per_frame: tuple[int, int] | None, thinking: bool
) -> Ovis25Processor:
    """Return the processor of a checkpoint folder; bounds that it was saved with hold unless others are given.

    Raises CheckpointError where files are damaged.
    """
    tokenizer = loading.load_processor(Qwen2Tokenizer, folder)
    images = loading.load_processor(SiglipImageProcessorPil, folder)
    if tokens_per_frame is None and (folder / PREPROCESSING).is_file():
        saved = json.loads((folder / PREPROCESSING).read_text(encoding="utf-8"))
        least, most = saved.get("min_pixels"), saved.get("max_pixels")
        if isinstance(least, int) and isinstance(most, int):
            pixels = (patch_size * hidden_stride) ** 2
            tokens_per_frame = (least // pixels, most // pixels)
    return Ovis25Processor(tokenizer, images, patch_size, hidden_stride, tokens_per_frame, thinking)
