"""The official config.json of Ovis2.5 as a transformers config. Nothing is registered with the Auto classes: a transformers
release that owns the model type `ovis2_5` meets no second owner, and a folder loads here with and without one.
"""

from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig, Qwen3Config

MODEL_TYPE = "ovis2_5"
ARCHITECTURE = "Ovis2_5"
"""Class name in the released config.json."""

REMOTE_CODE = {
    "AutoConfig": "configuration_ovis2_5.Ovis2_5_Config",
    "AutoModelForCausalLM": "modeling_ovis2_5.Ovis2_5",
}
"""Where transformers finds the official code, once its files lie in the folder."""

NUM_INDICATORS = 4
"""Rows at the end of the visual embedding table: image start, image end, video start, video end."""


@strict
class VisionConfig(PreTrainedConfig):
    """The vision tower: SigLIP 2 at native resolution. Defaults are those of the released models."""

    model_type = "siglip2_navit"
    base_config_key = "vit_config"

    hidden_size: int = 1152
    intermediate_size: int = 4304
    num_hidden_layers: int = 27
    num_attention_heads: int = 16
    num_channels: int = 3
    num_patches: int = -1
    image_size: int = 512
    """Pixels of the square that the learned positions were made for."""
    patch_size: int = 16
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    attention_dropout: float | int = 0.0
    hidden_stride: int = 2
    """Patches a side that become one visual token."""
    window_size: int = 112
    """Pixels a side of a window, for blocks that attend in windows."""
    fullatt_block_indexes: str | list[int] | None = None
    """Blocks that attend over whole frames, as "0|2" or a list; None: all of them."""
    temporal_patch_size: int = 1
    preserve_original_pe: bool = True
    use_rope: bool = True

    def whole_frame_blocks(self) -> frozenset[int]:
        """Return the blocks that attend over whole frames rather than windows."""
        chosen = self.fullatt_block_indexes
        if chosen is None:
            return frozenset(range(self.num_hidden_layers))
        return frozenset(int(block) for block in (chosen.split("|") if isinstance(chosen, str) else chosen))


@strict
class Ovis25Config(PreTrainedConfig):
    """The whole model. Fields that we do not use stay as they are when a checkpoint is loaded and saved again."""

    model_type = MODEL_TYPE
    sub_configs: ClassVar = {"llm_config": Qwen3Config, "vit_config": VisionConfig}

    llm_config: Any = None
    vit_config: Any = None
    visual_vocab_size: int = 65536
    """Rows of the visual embedding table, the indicators among them."""
    conversation_formatter_class: str = "Qwen3ConversationFormatter"

    def __post_init__(self, **kwargs: Any) -> None:
        if not isinstance(self.llm_config, PreTrainedConfig):
            self.llm_config = Qwen3Config(**_without_type(self.llm_config))
        if not isinstance(self.vit_config, PreTrainedConfig):
            self.vit_config = VisionConfig(**_without_type(self.vit_config))
        for name in ("hidden_size", "vocab_size", "num_attention_heads", "max_position_embeddings"):
            kwargs[name] = getattr(self.llm_config, name)
        kwargs["tie_word_embeddings"] = self.llm_config.tie_word_embeddings
        super().__post_init__(**kwargs)

    def to_diff_dict(self) -> dict[str, Any]:
        """Return what config.json holds: the official names, and the older spellings that the official code reads."""
        fields = super().to_diff_dict()
        for name, config in (("llm_config", self.llm_config), ("vit_config", self.vit_config)):
            fields[name] = config.to_diff_dict()
        # The official code runs on transformers 4.51, which would take its own defaults for what only the new names tell.
        fields["llm_config"]["rope_theta"] = self.llm_config.rope_parameters["rope_theta"]
        fields["llm_config"]["tie_word_embeddings"] = self.llm_config.tie_word_embeddings
        if "dtype" in fields:
            fields["torch_dtype"] = fields["dtype"]
        fields["use_cache"] = getattr(self, "use_cache", True)
        fields.setdefault("auto_map", REMOTE_CODE)
        return {**fields, "model_type": MODEL_TYPE, "architectures": [ARCHITECTURE]}


def _without_type(fields: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (fields or {}).items() if name != "model_type"}
