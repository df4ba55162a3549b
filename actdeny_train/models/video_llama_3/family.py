"""VideoLLaMA3 as a family over transformers' own class: plain positions, tree attention, and tokens dropped before the projector.

The authors' checkpoints and converted ones (transformers' names) both load; what is saved is a converted one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from transformers import DynamicCache, VideoLlama3ForConditionalGeneration, VideoLlama3Processor

from actdeny_train.errors import CheckpointError
from actdeny_train.models import attention, loading
from actdeny_train.models.family import PLAIN_TRANSFORMERS, Family, Visual
from actdeny_train.models.video_llama_3 import official
from actdeny_train.models.video_llama_3.processing import VideoLlama3Processing
from actdeny_train.trees import Forest

MODEL_TYPE = "video_llama_3"


class VideoLlama3(Family):
    """VideoLLaMA3 (and finetunes that keep its layout) over a forest."""

    PART_PREFIXES: ClassVar = (
        ("model.model.vision_model.", "vision"),
        ("model.model.projector.", "projector"),
        ("model.model.language_model.", "llm"),
        ("model.lm_head.", "llm"),
    )
    LOADING: ClassVar = PLAIN_TRANSFORMERS

    def __init__(self, model: VideoLlama3ForConditionalGeneration, processor: VideoLlama3Processing) -> None:
        super().__init__()
        text, vision = model.config.text_config, model.config.vision_config
        if "sliding_attention" in text.layer_types:
            raise CheckpointError(
                "This checkpoint's language model uses sliding-window attention (use_sliding_window: true), which tree attention does "
                "not compute. The released VideoLLaMA3 checkpoints do not use it; choose one of them."
            )
        for name, dropout in (("text_config", text.attention_dropout), ("vision_config", vision.attention_dropout)):
            if dropout:
                raise CheckpointError(
                    f"This checkpoint drops attention weights ({name}.attention_dropout: {dropout}), which a forest cannot do as its "
                    "sequences alone would. Set it to 0.0 in config.json, as the released VideoLLaMA3 checkpoints have it."
                )
        self.model = model
        self.processor = processor
        model.set_attn_implementation({"text_config": attention.NAME, "vision_config": "sdpa"})
        model.model.vision_model.pixel_unshuffle = _pool

    def part_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        inner = self.model.model
        return {
            "vision": [inner.vision_model],
            "projector": [inner.projector],
            "llm": [inner.language_model, self.model.lm_head],
        }

    def encode(self, visual: Visual) -> Tensor:
        inner = self.model.model
        with torch.set_grad_enabled(_wants_gradients(inner.vision_model)):
            seen = inner.vision_model(
                pixel_values=visual.inputs["pixel_values_videos"],
                grid_thw=visual.inputs["video_grid_thw"],
                merge_sizes=visual.inputs["video_merge_sizes"],
            ).last_hidden_state
        with torch.set_grad_enabled(seen.requires_grad or _wants_gradients(inner.projector)):
            return inner.projector(seen[visual.inputs["video_compression_mask"]])

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
            position_ids=positions,
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
        """Write the layout of converted checkpoints, whatever layout was loaded."""
        self.model.save_pretrained(folder, save_original_format=False)
        self.processor.save(folder)


def _pool(hidden: Tensor, grid_thw: Tensor, merge_sizes: Tensor) -> Tensor:
    """Return (V, C) means of each visual token's patches, which lie together, from (N, C).

    Halving by bilinear interpolation, as transformers does here, is this mean; but its backward pass on CUDA adds in any order.
    """
    counts = grid_thw.prod(dim=1).tolist()
    pairs = zip(hidden.split(counts), merge_sizes.tolist(), strict=True)
    return torch.cat([patches.unflatten(0, (-1, merge**2)).mean(dim=1) for patches, merge in pairs])


def _wants_gradients(module: nn.Module) -> bool:
    return torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())


def load(
    checkpoint: str,
    revision: str | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    tokens_per_frame: tuple[int, int] | None = None,
    compress: bool | None = None,
) -> VideoLlama3:
    """Load a Hub checkpoint by name and revision, or a local folder, in the authors' layout or converted to transformers'.

    ``tokens_per_frame``: smallest and largest number of visual tokens of a frame before compression; None keeps the checkpoint's
    own bounds. ``compress``: whether to drop visual tokens that are nearly those of the frame before; None does as the checkpoint
    says (the released ones: yes).
    Raises CheckpointError where files, weights or the network are missing.
    """
    folder = loading.fetch(checkpoint, revision)
    cls, precision = VideoLlama3ForConditionalGeneration, getattr(torch, dtype)
    if not official.is_official(folder):
        model = loading.load_model(cls, MODEL_TYPE, folder, precision)
        processor = loading.load_processor(VideoLlama3Processor, folder)
        return VideoLlama3(model, VideoLlama3Processing(processor, tokens_per_frame, compress))
    processing = VideoLlama3Processing(official.load_processor(folder), tokens_per_frame, compress)
    config = official.load_config(folder, processing.processor)
    settings = {"config": config, "key_mapping": official.KEYS}
    return VideoLlama3(loading.load_model(cls, official.MODEL_TYPE, folder, precision, **settings), processing)
