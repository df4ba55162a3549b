"""Ovis2.5 as one transformers model under the official weight names: visual tokenizer, visual embedding table, Qwen3.

A visual token is no vector of the tower but a distribution over a visual vocabulary, and its embedding the expectation of the
table's rows under it. Shapes: N patches, V visual tokens (N / 4), K words of the visual vocabulary, D width of the language model.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, Qwen3ForCausalLM
from transformers import initialization as init
from transformers.modeling_outputs import CausalLMOutputWithPast

from actdeny_train.models.ovis2_5.config import NUM_INDICATORS, Ovis25Config
from actdeny_train.models.ovis2_5.vision import VisionTower

VISUAL_ATOM_ID = -300
"""Token id that stands for a visual token in the official inputs."""

INDICATOR_IDS = (-301, -302, -303, -304)
"""Token ids of image start, image end, video start, video end in the official inputs."""

CHUNK = 256
"""Visual tokens whose distribution is held at once: 64 MiB of float32 with the released 65,536 words, whatever the clip's length."""


class VisualTokenizer(nn.Module):
    """Tower and head: frames to distributions over the visual vocabulary."""

    gradient_checkpointing = False
    _gradient_checkpointing_func: Callable[..., Tensor]

    def __init__(self, config: Ovis25Config) -> None:
        super().__init__()
        vit = config.vit_config
        self.num_patches = vit.hidden_stride**2
        self.vit = VisionTower(vit)
        num_words = config.visual_vocab_size - NUM_INDICATORS
        self.head = nn.Sequential(
            nn.Linear(vit.hidden_size * self.num_patches, num_words, bias=False), nn.LayerNorm(num_words)
        )

    def features(self, pixel_values: Tensor, grid_thws: Tensor) -> Tensor:
        """Return (V, 4 * C): the tower's output, neighbours side by side."""
        return self.vit(pixel_values, grid_thws).unflatten(0, (-1, self.num_patches)).flatten(1)

    def probabilities(self, features: Tensor) -> Tensor:
        """Return (V, K) distributions over the words, indicators not counted."""
        logits = self.head(features)
        precise = torch.promote_types(logits.dtype, torch.float32)
        return torch.softmax(logits, dim=-1, dtype=precise).to(logits.dtype)

    def embed(self, features: Tensor, table: Tensor) -> Tensor:
        """Return (V, D): the expectation of ``table`` (K + 4, D) for each visual token, CHUNK tokens at a time."""
        words = table[:-NUM_INDICATORS]
        recompute = self.gradient_checkpointing and self.head.training and torch.is_grad_enabled()
        embeds = []
        for chunk in features.split(CHUNK):
            if recompute:
                embeds.append(self._gradient_checkpointing_func(self._expect, chunk, words))
            else:
                embeds.append(self._expect(chunk, words))
        return torch.cat(embeds)

    def _expect(self, features: Tensor, words: Tensor) -> Tensor:
        probabilities = self.probabilities(features)
        return probabilities @ words.to(probabilities.dtype)


class Ovis25Model(PreTrainedModel):
    """The whole model. Its own ``forward`` takes the official inputs, one conversation a row; forests go through the family."""

    config_class = Ovis25Config
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_attention_backend = True

    def __init__(self, config: Ovis25Config) -> None:
        super().__init__(config)
        self.llm = Qwen3ForCausalLM(config.llm_config)
        self.visual_tokenizer = VisualTokenizer(config)
        self.vte = nn.Embedding(config.visual_vocab_size, config.llm_config.hidden_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Draw matrices and tables from a normal of the language model's ``initializer_range``; the official code has no rule."""
        if isinstance(module, (nn.Linear, nn.Conv2d, nn.Embedding)):
            init.normal_(module.weight, mean=0.0, std=self.config.llm_config.initializer_range)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
        if getattr(module, "bias", None) is not None:
            init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Module:
        return self.llm.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.llm.set_input_embeddings(value)

    def visual_embeds(self, pixel_values: Tensor, grid_thws: Tensor) -> Tensor:
        """Return the (V, D) embeddings of all clips' visual tokens, indicators not among them."""
        features = self.visual_tokenizer.features(pixel_values, grid_thws)
        return self.visual_tokenizer.embed(features, self.vte.weight)

    def indicators(self) -> Tensor:
        """Return the (4, D) embeddings of image start, image end, video start, video end."""
        return self.vte.weight[-NUM_INDICATORS:]

    def merge(self, input_ids: Tensor, visual_embeds: Tensor | None) -> Tensor:
        """Return (B, L, D) embeddings of official ``input_ids`` (B, L); visual ones stand in order where the atoms are."""
        embeds = self.llm.get_input_embeddings()(input_ids.clamp(min=0))
        for token, row in zip(INDICATOR_IDS, self.indicators(), strict=True):
            embeds = torch.where((input_ids == token)[..., None], row.to(embeds.dtype), embeds)
        if visual_embeds is not None:
            is_atom = (input_ids == VISUAL_ATOM_ID)[..., None].expand_as(embeds)
            embeds = embeds.masked_scatter(is_atom, visual_embeds.to(embeds.dtype))
        return embeds

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        pixel_values: Tensor | None = None,
        grid_thws: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Return ``logits`` (B, L, vocabulary) of official inputs and, with ``labels`` (-100: not predicted), the mean ``loss``."""
        visual = None
        if pixel_values is not None and grid_thws is not None:
            visual = self.visual_embeds(pixel_values, grid_thws)
        out = self.llm(inputs_embeds=self.merge(input_ids, visual), attention_mask=attention_mask, **kwargs)
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(out.logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=out.logits)
