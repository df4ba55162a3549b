"""Checkpoints in the layout of the authors' own code (DAMO-NLP-SG/VideoLLaMA3-*), read into transformers' native classes.

Their weights have other names, their config other fields, their processor one token for images and frames. Nothing of their
code is run. What is saved has the layout of converted checkpoints.
"""

import json
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import (
    Qwen2Config,
    Qwen2Tokenizer,
    VideoLlama3Config,
    VideoLlama3ImageProcessor,
    VideoLlama3Processor,
    VideoLlama3VideoProcessor,
    VideoLlama3VisionConfig,
)

from actdeny_train.errors import CheckpointError
from actdeny_train.models import loading
from actdeny_train.models.video_llama_3.processing import CHAT_TEMPLATE, write_clip

MODEL_TYPE = "videollama3_qwen2"
KEYS = {
    r"^model\.vision_encoder\.": "model.vision_model.",
    r"^model\.mm_projector\.": "model.projector.",
    r"^model\.embed_tokens\.": "model.language_model.embed_tokens.",
    r"^model\.layers\.": "model.language_model.layers.",
    r"^model\.norm\.": "model.language_model.norm.",
}
"""Names of weights: the authors' (patterns) and the native ones."""

IMAGE = "<image>"
"""The token that stands for the visual tokens of an image and of every frame."""

VISION_FIELDS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_channels",
    "patch_size",
    "hidden_act",
    "layer_norm_eps",
    "attention_dropout",
)
TEXT_FIELDS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "hidden_act",
    "max_position_embeddings",
    "initializer_range",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "tie_word_embeddings",
    "use_sliding_window",
    "sliding_window",
    "max_window_layers",
    "attention_dropout",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
)
PIXEL_FIELDS = ("do_resize", "resample", "do_rescale", "rescale_factor", "do_normalize", "do_convert_rgb", "patch_size")


def is_official(folder: Path) -> bool:
    """Tell whether a checkpoint folder has the authors' layout; False where its config cannot be read."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == MODEL_TYPE


def load_config(folder: Path, processor: VideoLlama3Processor) -> VideoLlama3Config:
    """Return the native config of a checkpoint in the authors' layout; the ids of visual places are the tokenizer's.

    Raises CheckpointError where a field is missing, or asks for what the native model has not.
    """
    found = _read(folder, "config.json")
    vision = found.get("vision_encoder_config")
    if not isinstance(vision, dict) or "hidden_size" not in vision:
        raise CheckpointError(
            f"{folder / 'config.json'} does not describe the vision encoder (vision_encoder_config with hidden_size and more). Take "
            "config.json from the model that the checkpoint was finetuned from."
        )
    if (projector := found.get("mm_projector_type", "mlp2x_gelu")) != "mlp2x_gelu":
        raise CheckpointError(
            f"{folder / 'config.json'} asks for a projector of type {projector!r} (mm_projector_type), but only 'mlp2x_gelu' can be "
            "loaded, which all released VideoLLaMA3 checkpoints have."
        )
    try:
        text = Qwen2Config(**{name: found[name] for name in TEXT_FIELDS if name in found})
        return VideoLlama3Config(
            text_config=text,
            vision_config=VideoLlama3VisionConfig(**{name: vision[name] for name in VISION_FIELDS if name in vision}),
            image_token_id=processor.image_token_id,
            video_token_id=processor.video_token_id,
            tie_word_embeddings=text.tie_word_embeddings,
        )
    except loading.UNREADABLE as error:
        raise CheckpointError(f"Cannot read {folder / 'config.json'}: {' '.join(str(error).split())[:300]}") from error


def load_processor(folder: Path) -> VideoLlama3Processor:
    """Return the native processor of a checkpoint in the authors' layout, with a chat template that writes the same prompts.

    Raises CheckpointError where a file is damaged, or where the checkpoint's own template writes other prompts.
    """
    tokenizer = loading.load_processor(Qwen2Tokenizer, folder)
    _check_template(folder, tokenizer)
    pixels, merges = _read(folder, "preprocessor_config.json"), _read(folder, "processor_config.json")
    settings = {name: pixels[name] for name in PIXEL_FIELDS if name in pixels}
    settings |= {name: pixels[name] for name in ("image_mean", "image_std") if pixels.get(name) is not None}
    sizes = {}
    for kind, merge in (("image", 1), ("video", 2)):
        merge_size = int(merges.get(f"{kind}_merge_size", merge))
        area = (int(settings.get("patch_size", 14)) * merge_size) ** 2
        least, most = (int(pixels.get(name, tokens)) for name, tokens in (("min_tokens", 16), ("max_tokens", 16384)))
        size = {"shortest_edge": least * area, "longest_edge": most * area}
        sizes[kind] = {"size": size, "merge_size": merge_size}
    compress = _read(folder, "config.json").get("use_token_compression")
    return VideoLlama3Processor(
        image_processor=VideoLlama3ImageProcessor(**settings, **sizes["image"]),
        tokenizer=tokenizer,
        video_processor=VideoLlama3VideoProcessor(
            **settings, **sizes["video"], use_token_compression=compress is not False
        ),
        chat_template=CHAT_TEMPLATE,
    )


def _check_template(folder: Path, tokenizer: Qwen2Tokenizer) -> None:
    """Refuse a chat template that writes other prompts than the released one; without any, the released one holds."""
    template = tokenizer.chat_template or _read(folder, "chat_template.json").get("chat_template")
    if template is None:
        return
    times = [0.0, 12.54]
    video = {"type": "video", "num_frames": len(times), "timestamps": times}
    asked = [{"role": "user", "content": [video, {"type": "text", "text": "?"}]}]
    expected = f"<|im_start|>user\n{write_clip(times, IMAGE)}\n?<|im_end|>\n<|im_start|>assistant\n"
    try:
        found = tokenizer.apply_chat_template(
            asked,
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
            add_system_prompt=False,
            image_token=IMAGE,
        )
    except (ValueError, TypeError, TemplateError) as error:
        found = " ".join(str(error).split())
    if found != expected:
        raise CheckpointError(
            f"The chat template in {folder} is not that of a VideoLLaMA3; for a user's turn with a video of two frames and the text '?' it "
            f"gives {found!r} instead of {expected!r}. Take chat_template.json or tokenizer_config.json from the model that the "
            "checkpoint was finetuned from."
        )


def _read(folder: Path, name: str) -> dict[str, Any]:
    """Return a JSON file of the folder, an empty dictionary where there is none."""
    path = folder / name
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"Cannot read {path}: {error}. Download the file again.") from error
    return found if isinstance(found, dict) else {}
