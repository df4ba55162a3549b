"""Qwen2.5-VL over transformers' own classes: official positions, tree attention, three parts (the merger is the projector)."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jinja2 import TemplateError
from torch import Tensor, nn
from transformers import DynamicCache, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor
from transformers.video_utils import VideoMetadata
from transformers.vision_utils import get_vision_window_index

from actdeny_train.errors import CheckpointError, ConfigError, DataError
from actdeny_train.models import attention, loading
from actdeny_train.models.family import PLAIN_TRANSFORMERS, Family, Processor, Visual, user_turn
from actdeny_train.models.positions import Grid, mrope_positions
from actdeny_train.trees import Forest, TokenSequence
from actdeny_train.types import Frames

VIDEO_PAD = "<|video_pad|>"
END_OF_TURN = "<|im_end|>"
END_OF_TEXT = "<|endoftext|>"


class Qwen25VLProcessor(Processor):
    """Frames and words for Qwen2.5-VL.

    ``tokens_per_frame`` bounds the merged 28 x 28 patches (visual tokens) of a pair of frames, smallest and largest; None keeps the
    bounds saved with the checkpoint. Frames are resized, never cropped; rounding to whole patches can miss a bound where both are close.
    Raises CheckpointError if the tokenizer lacks a token of the chat layout, or the chat template cannot show a video.
    """

    def __init__(
        self, processor: Qwen2_5_VLProcessor, tokens_per_second: float, tokens_per_frame: tuple[int, int] | None = None
    ) -> None:
        self.processor = processor
        self.tokens_per_second = tokens_per_second
        video = processor.video_processor
        self.merge_size = int(video.merge_size)
        self.frames_per_step = int(video.temporal_patch_size)
        if tokens_per_frame is not None:
            if not 1 <= tokens_per_frame[0] <= tokens_per_frame[1]:
                raise ConfigError(
                    f"tokens_per_frame is {tokens_per_frame}, but must be (smallest, largest) with 1 <= smallest <= largest. "
                    "Correct it, or leave it out to keep the checkpoint's own bounds."
                )
            pixels = (int(video.patch_size) * self.merge_size) ** 2
            video.size = {"shortest_edge": tokens_per_frame[0] * pixels, "longest_edge": tokens_per_frame[1] * pixels}
        tokenizer = processor.tokenizer
        self._special = tuple(str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
        for token in (VIDEO_PAD, END_OF_TURN):
            if token not in self._special:
                raise CheckpointError(
                    f"The checkpoint's tokenizer has no special token {token}, so it is not that of a Qwen2.5-VL. Take the tokenizer "
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

    def visual(self, frames: Frames) -> Visual:
        pixels = torch.from_numpy(np.ascontiguousarray(frames.pixels.transpose(0, 3, 1, 2)))
        out = self.processor.video_processor(
            videos=[pixels],
            video_metadata=[VideoMetadata(total_num_frames=len(frames.indices), fps=1.0)],
            do_sample_frames=False,
            cap_pixels_per_frame=False,  # the bounds above are per frame already
            return_tensors="pt",
        )
        grid = out["video_grid_thw"]
        steps = len(frames.time_s) - 1
        interval = float(frames.time_s[-1] - frames.time_s[0]) / steps if steps else 0.0
        return Visual(
            {"pixel_values_videos": out["pixel_values_videos"], "video_grid_thw": grid},
            int(grid.prod()) // self.merge_size**2,
            interval * self.frames_per_step,
        )

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
        user = user_turn(len(visuals), text, places)
        asked = self._render([user], add_generation_prompt=True)
        whole = self._render([user, {"role": "assistant", "content": [{"type": "text", "text": answer}]}])
        assert whole.startswith(asked), "the chat template writes another prompt when the answer is there"
        encoded = self.processor.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
        starts = [start for start, _ in encoded["offset_mapping"]]
        assert len(asked) in starts, f"a token spans the border between prompt and answer {answer!r}"
        begin = starts.index(len(asked))
        stop = encoded["input_ids"].index(self._end, begin) + 1
        return self._expand(np.array(encoded["input_ids"][:stop], dtype=np.int64), begin, visuals, question, choice)

    def _expand(
        self, ids: np.ndarray, answer_start: int, visuals: Sequence[Visual], question: int, choice: int
    ) -> TokenSequence:
        """Repeat each video's pad token once per visual token; special tokens never merge with their neighbours."""
        repeats = np.ones(len(ids), dtype=np.int64)
        places = np.flatnonzero(ids == self._pad)
        assert len(places) == len(visuals), f"{len(places)} videos in the template, {len(visuals)} given"
        repeats[places] = [v.num_tokens for v in visuals]
        whole = np.repeat(ids, repeats)
        is_visual = whole == self._pad
        grids = [Grid(t, h, w, v.seconds) for v in visuals for t, h, w in v.inputs["video_grid_thw"].tolist()]
        return TokenSequence(
            ids=whole,
            positions=mrope_positions(whole, np.array([self._pad]), grids, self.tokens_per_second, self.merge_size),
            visual=np.where(is_visual, np.cumsum(is_visual) - 1, -1),
            answer_start=answer_start + int(repeats.sum()) - len(ids),
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
            str(self.tokens_per_second),
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


class Qwen25VL(Family):
    """Qwen2.5-VL (and finetunes that keep its layout) over a forest."""

    PART_PREFIXES: ClassVar = (
        ("model.model.visual.merger.", "projector"),
        ("model.model.visual.", "vision"),
        ("model.model.language_model.", "llm"),
        ("model.lm_head.", "llm"),
    )
    LOADING: ClassVar = PLAIN_TRANSFORMERS

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, processor: Qwen25VLProcessor) -> None:
        super().__init__()
        if "sliding_attention" in model.config.text_config.layer_types:
            raise CheckpointError(
                "This checkpoint's language model uses sliding-window attention (use_sliding_window: true), which tree attention does "
                "not compute. The released Qwen2.5-VL checkpoints do not use it; choose one of them."
            )
        if dropout := model.config.text_config.attention_dropout:
            raise CheckpointError(
                f"This checkpoint's language model drops attention weights (attention_dropout: {dropout}), which tree attention does not "
                "do. Set it to 0.0 in config.json, as the released Qwen2.5-VL checkpoints have it."
            )
        self.model = model
        self.processor = processor
        model.set_attn_implementation({"text_config": attention.NAME, "vision_config": "sdpa"})

    def part_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        inner = self.model.model
        return {
            "vision": [inner.visual],
            "projector": [inner.visual.merger],
            "llm": [inner.language_model, self.model.lm_head],
        }

    def encode(self, visual: Visual) -> Tensor:
        tower = self.model.model.visual
        grid = visual.inputs["video_grid_thw"]
        pixels = visual.inputs["pixel_values_videos"].to(tower.dtype)
        if any(p.requires_grad for p in tower.patch_embed.parameters()) or any(
            p.requires_grad for p in tower.blocks.parameters()
        ):
            return tower(pixels, grid_thw=grid).pooler_output
        with torch.no_grad():
            out = tower(pixels, grid_thw=grid)
        if not any(p.requires_grad for p in tower.merger.parameters()):
            return out.pooler_output
        # The tower merges inside its own forward; with the tower frozen and the merger trained, merge again with gradients.
        window_index, _ = get_vision_window_index(
            grid,
            spatial_merge_size=tower.spatial_merge_size,
            window_size=tower.window_size,
            patch_size=tower.patch_size,
        )
        return tower.merger(out.last_hidden_state)[torch.argsort(window_index)]

    def forward(self, forest: Forest, visual_tokens: Tensor, cache: Any = None) -> Tensor:
        embeds = self.model.model.language_model.embed_tokens(forest.ids)
        if len(forest.visual_rows):
            embeds = embeds.index_copy(0, forest.visual_rows, visual_tokens[forest.visual_index].to(embeds.dtype))
        mask = attention.TreeMask(forest, embeds.dtype)
        return self._read(embeds, forest.positions, mask, cache)[forest.predict_rows]

    def new_cache(self) -> DynamicCache:
        return DynamicCache(config=self.model.config.text_config)

    def extend(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: DynamicCache) -> Tensor:
        return self._read(self.model.model.language_model.embed_tokens(ids), positions, mask[None, None], cache)

    def _read(self, embeds: Tensor, positions: Tensor, mask: Any, cache: DynamicCache | None) -> Tensor:
        """Return the hidden rows (N, D) of N tokens."""
        hidden = self.model.model.language_model(
            inputs_embeds=embeds[None],
            position_ids=positions[:, None],
            attention_mask={"full_attention": mask},
            cache=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        return hidden[0]

    def logits(self, hidden: Tensor) -> Tensor:
        return self.model.lm_head(hidden)

    def checkpoint_gradients(self) -> None:
        self.model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.processor.save(folder)


def load(
    checkpoint: str,
    revision: str | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    tokens_per_frame: tuple[int, int] | None = None,
) -> Qwen25VL:
    """Load a Hub checkpoint by name and revision, or a local folder in the official layout.

    ``tokens_per_frame``: smallest and largest number of visual tokens of a frame pair; None keeps the checkpoint's own bounds.
    Raises CheckpointError where files, weights or the network are missing.
    """
    folder = loading.fetch(checkpoint, revision)
    processor = loading.load_processor(Qwen2_5_VLProcessor, folder)
    model = loading.load_model(Qwen2_5_VLForConditionalGeneration, "qwen2_5_vl", folder, getattr(torch, dtype))
    tokens_per_second = float(model.config.vision_config.tokens_per_second)
    return Qwen25VL(model, Qwen25VLProcessor(processor, tokens_per_second, tokens_per_frame))
