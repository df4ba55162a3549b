"""Ovis2.5 as a family: one clip a conversation, plain rotary positions, and a projector that is a visual vocabulary.

The parts: the tower is ``vision``, the visual tokenizer's head and the visual embedding table are ``projector``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from transformers import DynamicCache, GenerationConfig

from actdeny_train.errors import CheckpointError
from actdeny_train.models import attention, loading
from actdeny_train.models.family import Family, Visual
from actdeny_train.models.ovis2_5.config import MODEL_TYPE
from actdeny_train.models.ovis2_5.model import Ovis25Model
from actdeny_train.models.ovis2_5.processing import Ovis25Processor, load_processor
from actdeny_train.trees import Forest

GENERATION = "generation_config.json"

LOADING = """Transformers has no class for Ovis2.5. Load it with actdeny:

```python
from actdeny_train.models import ovis2_5

family = ovis2_5.load("FOLDER")
```

Weights, `config.json` and preprocessing have the official names, so the official code loads the folder too. That code is not part of
it: copy `configuration_ovis2_5.py` and `modeling_ovis2_5.py` from `AIDC-AI/Ovis2.5-2B` on the Hub into the folder; then
`AutoModelForCausalLM.from_pretrained("FOLDER", trust_remote_code=True)`, with the packages that the official model card names.
"""


class Ovis25(Family):
    """Ovis2.5 (and finetunes that keep its layout) over a forest."""

    PART_PREFIXES: ClassVar = (
        ("model.visual_tokenizer.vit.", "vision"),
        ("model.visual_tokenizer.head.", "projector"),
        ("model.vte.", "projector"),
        ("model.llm.", "llm"),
    )
    UNUSED_PREFIXES: ClassVar = ("model.visual_tokenizer.vit.vision_model.post_layernorm.",)
    LOADING: ClassVar = LOADING

    def __init__(self, model: Ovis25Model, processor: Ovis25Processor) -> None:
        super().__init__()
        llm, vit = model.config.llm_config, model.config.vit_config
        if "sliding_attention" in llm.layer_types:
            raise CheckpointError(
                "This checkpoint's language model uses sliding-window attention (use_sliding_window: true), which tree attention does "
                "not compute. The released Ovis2.5 checkpoints do not use it; choose one of them."
            )
        for name, dropout in (("llm_config", llm.attention_dropout), ("vit_config", vit.attention_dropout)):
            if dropout:
                raise CheckpointError(
                    f"This checkpoint drops attention weights ({name}.attention_dropout: {dropout}), which attention here does not do. "
                    "Set it to 0.0 in config.json, as the released Ovis2.5 checkpoints have it."
                )
        if vit.temporal_patch_size != 1:
            raise CheckpointError(
                f"This checkpoint joins {vit.temporal_patch_size} frames into one patch (vit_config.temporal_patch_size); Ovis2.5 has "
                "no weights for. Set it to 1 in config.json, as the released checkpoints have it."
            )
        self.model = model
        self.processor = processor
        model.llm.set_attn_implementation(attention.NAME)

    def part_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        tokenizer = self.model.visual_tokenizer
        return {"vision": [tokenizer.vit], "projector": [tokenizer.head, self.model.vte], "llm": [self.model.llm]}

    def encode(self, visual: Visual) -> Tensor:
        """Return each clip's visual tokens between the embeddings of its start and end."""
        modules = self.part_modules()
        grids = visual.inputs["grid_thws"]
        with torch.set_grad_enabled(_wants_gradients(modules["vision"])):
            features = self.model.visual_tokenizer.features(visual.inputs["pixel_values"], grids)
        with torch.set_grad_enabled(features.requires_grad or _wants_gradients(modules["projector"])):
            embeds = self.model.visual_tokenizer.embed(features, self.model.vte.weight)
            start, end = self.model.indicators()[2:, None].to(embeds.dtype)
            counts = (grids.prod(dim=1) // self.model.visual_tokenizer.num_patches).tolist()
            return torch.cat([rows for clip in embeds.split(counts) for rows in (start, clip, end)])

    def forward(self, forest: Forest, visual_tokens: Tensor, cache: Any = None) -> Tensor:
        embeds = self.model.get_input_embeddings()(forest.ids)
        if len(forest.visual_rows):
            embeds = embeds.index_copy(0, forest.visual_rows, visual_tokens[forest.visual_index].to(embeds.dtype))
        mask = attention.TreeMask(forest, embeds.dtype)
        return self._read(embeds, forest.positions, mask, cache)[forest.predict_rows]

    def new_cache(self) -> DynamicCache:
        return DynamicCache(config=self.model.config.llm_config)

    def extend(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: DynamicCache) -> Tensor:
        return self._read(self.model.get_input_embeddings()(ids), positions, mask[None, None], cache)

    def _read(self, embeds: Tensor, positions: Tensor, mask: Any, cache: DynamicCache | None) -> Tensor:
        """Return the hidden rows (N, D) of N tokens."""
        hidden = self.model.llm.model(
            inputs_embeds=embeds[None],
            position_ids=positions,
            attention_mask={"full_attention": mask},
            cache=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        return hidden[0]

    def logits(self, hidden: Tensor) -> Tensor:
        return self.model.llm.lm_head(hidden)

    def checkpoint_gradients(self) -> None:
        self.model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})

    def save(self, folder: Path) -> None:
        """Write the official layout: its weight names and config fields. It has no code in it; the official repository has."""
        self.model.save_pretrained(folder)
        self.model.llm.generation_config.save_pretrained(folder)
        self.processor.save(folder)


def _wants_gradients(modules: Sequence[nn.Module]) -> bool:
    return torch.is_grad_enabled() and any(p.requires_grad for module in modules for p in module.parameters())


def load(
    checkpoint: str,
    revision: str | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    tokens_per_frame: tuple[int, int] | None = None,
    thinking: bool = False,
) -> Ovis25:
    """Load a Hub checkpoint by name and revision, or a local folder in the official layout.

    ``tokens_per_frame``: smallest and largest number of visual tokens (32 x 32 px) of a frame; None keeps the bounds saved with the
    checkpoint, or else 196 to 784. ``thinking``: leave room for a thought before the answer.
    Raises CheckpointError where files, weights or the network are missing.
    """
    folder = loading.fetch(checkpoint, revision)
    model = loading.load_model(Ovis25Model, MODEL_TYPE, folder, getattr(torch, dtype))
    if (folder / GENERATION).is_file():
        try:
            model.llm.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
        except loading.UNREADABLE as error:
            raise CheckpointError(f"Cannot read {folder / GENERATION}: {' '.join(str(error).split())[:300]}") from error
    vit = model.config.vit_config
    processor = load_processor(folder, vit.patch_size, vit.hidden_stride, tokens_per_frame, thinking)
    return Ovis25(model, processor)
