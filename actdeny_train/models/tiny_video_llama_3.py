"""Tiny random VideoLLaMA3 models, made on the spot as ``tiny`` makes Qwen2.5-VL's: same tokenizer, true architecture, converted layout."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import (
    GenerationConfig,
    Qwen2Tokenizer,
    VideoLlama3Config,
    VideoLlama3ForConditionalGeneration,
    VideoLlama3ImageProcessor,
    VideoLlama3Processor,
    VideoLlama3VideoProcessor,
)

from actdeny_train.models import tiny, video_llama_3
from actdeny_train.models.video_llama_3.processing import CHAT_TEMPLATE

MAX_TOKENS = 16384
"""Visual tokens of a clip at most, as in the released checkpoints."""


@dataclass(frozen=True, slots=True)
class TinySize:
    """How large a tiny VideoLLaMA3 is. Defaults: 1.4 million parameters."""

    hidden_size: int = 128
    """Width of vision tower and language model; a multiple of 32."""
    intermediate_size: int = 384
    """Width of the language model's feed-forward layers."""
    num_layers: int = 4
    """Layers of the language model."""
    num_vision_layers: int = 2
    """Blocks of the vision tower."""
    vocab_size: int = 2048
    """Tokens of the byte-level vocabulary, added tokens not counted."""
    tied: bool = True
    """Whether the language model's head is its embedding table."""


def load(
    root: str = "data/tiny",
    seed: int = 0,
    size: TinySize = TinySize(),
    tokens_per_frame: tuple[int, int] = (4, 4),
    compress: bool = True,
) -> video_llama_3.VideoLlama3:
    """Make (once, under ``root``) and load a random VideoLLaMA3. ``tokens_per_frame`` 4 is a 56 x 56 px frame, 64 is 224 x 224."""
    settings = (seed, asdict(size), CHAT_TEMPLATE, tiny.INITIALIZER_RANGE, tiny.corpus(), tiny.sentences())
    folder = Path(root) / f"video_llama_3_{hashlib.sha256(repr(settings).encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        build(folder, seed, size)
    return video_llama_3.load(str(folder), tokens_per_frame=tokens_per_frame, compress=compress)


def build(folder: Path, seed: int = 0, size: TinySize = TinySize()) -> None:
    """Write a random checkpoint in the layout of converted ones. A killed build leaves no folder of this name."""
    with tiny.new_folder(folder) as made:
        processor = _processor(size.vocab_size)
        _model(processor.tokenizer, seed, size).save_pretrained(made)
        processor.save_pretrained(made)


def _processor(vocab_size: int) -> VideoLlama3Processor:
    half = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    bounds = [{"shortest_edge": 4 * side**2, "longest_edge": MAX_TOKENS * side**2} for side in (14, 28)]
    return VideoLlama3Processor(
        image_processor=VideoLlama3ImageProcessor(size=bounds[0], **half),
        tokenizer=tiny.make_tokenizer(vocab_size),
        video_processor=VideoLlama3VideoProcessor(size=bounds[1], **half),
        chat_template=CHAT_TEMPLATE,
    )


def _model(tokenizer: Qwen2Tokenizer, seed: int, size: TinySize) -> VideoLlama3ForConditionalGeneration:
    def token(name: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(name))

    head_dim = 32
    heads = size.hidden_size // head_dim
    end, pad = token("<|im_end|>"), token("<|endoftext|>")
    config = VideoLlama3Config(
        text_config={
            "model_type": "qwen2",
            "vocab_size": len(tokenizer),
            "hidden_size": size.hidden_size,
            "intermediate_size": size.intermediate_size,
            "num_hidden_layers": size.num_layers,
            "num_attention_heads": heads,
            "num_key_value_heads": max(1, heads // 2),
            "initializer_range": tiny.INITIALIZER_RANGE,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
            "bos_token_id": None,
            "eos_token_id": end,
            "pad_token_id": pad,
            "tie_word_embeddings": size.tied,
        },
        vision_config={
            "hidden_size": size.hidden_size,
            "intermediate_size": 2 * size.hidden_size,
            "num_hidden_layers": size.num_vision_layers,
            "num_attention_heads": heads,
            "patch_size": 14,
            "initializer_range": tiny.INITIALIZER_RANGE,
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        tie_word_embeddings=size.tied,
        initializer_range=tiny.INITIALIZER_RANGE,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = VideoLlama3ForConditionalGeneration(config)
    model.generation_config = GenerationConfig(eos_token_id=[end, pad], pad_token_id=pad)
    return model
