"""Tiny random Ovis2.5 models, made on the spot as ``tiny`` makes Qwen2.5-VL's: same tokenizer, true architecture, official layout."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import GenerationConfig
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from actdeny_train.models import ovis2_5, tiny
from actdeny_train.models.ovis2_5.config import Ovis25Config
from actdeny_train.models.ovis2_5.model import Ovis25Model
from actdeny_train.models.ovis2_5.processing import THINK, Ovis25Processor

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% set is_text = message['content'] is string %}"
    "{% for part in ([{'type': 'text', 'text': message['content']}] if is_text else message['content']) %}"
    "{% if part['type'] == 'text' %}{% set words = part['text'] | replace('<image>', '') | replace('<video>', '') %}"
    "{{ words.split('</think>')[-1].lstrip('\\n') if message['role'] == 'assistant' else words }}"
    "{% else %}<{{ part['type'] }}>{% endif %}"
    "{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}<|im_end|>{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{{ '\\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"
)
"""The layout that Ovis2.5's own template writes, in our words."""


@dataclass(frozen=True, slots=True)
class TinySize:
    """How large a tiny Ovis2.5 is. Defaults: 1.6 million parameters."""

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
    visual_vocab_size: int = 260
    """Rows of the visual embedding table, four indicators among them."""
    tied: bool = True
    """Whether the language model's head is its embedding table, as in Ovis2.5-2B; the 9B has both."""


def load(
    root: str = "data/tiny",
    seed: int = 0,
    size: TinySize = TinySize(),
    tokens_per_frame: tuple[int, int] = (4, 4),
    thinking: bool = False,
) -> ovis2_5.Ovis25:
    """Make (once, under ``root``) and load a random Ovis2.5. ``tokens_per_frame`` 4 is a 64 x 64 px frame, 64 is 256 x 256."""
    settings = (seed, asdict(size), CHAT_TEMPLATE, tiny.INITIALIZER_RANGE, tiny.corpus(), tiny.sentences())
    folder = Path(root) / f"ovis2_5_{hashlib.sha256(repr(settings).encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        build(folder, seed, size)
    return ovis2_5.load(str(folder), tokens_per_frame=tokens_per_frame, thinking=thinking)


def build(folder: Path, seed: int = 0, size: TinySize = TinySize()) -> None:
    """Write a random checkpoint in the official layout. A killed build leaves no folder of this name."""
    with tiny.new_folder(folder) as made:
        tokenizer = tiny.make_tokenizer(size.vocab_size, THINK)
        tokenizer.chat_template = CHAT_TEMPLATE
        images = SiglipImageProcessorPil(resample=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        processor = Ovis25Processor(tokenizer, images)
        end, pad = processor.stop_ids
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = Ovis25Model(_config(size, len(tokenizer), end, pad))
        model.llm.generation_config = GenerationConfig(eos_token_id=[end, pad], pad_token_id=pad)
        ovis2_5.Ovis25(model, processor).save(made)


def _config(size: TinySize, num_tokens: int, end: int, pad: int) -> Ovis25Config:
    head_dim = 32
    heads = size.hidden_size // head_dim
    return Ovis25Config(
        llm_config={
            "vocab_size": num_tokens,
            "hidden_size": size.hidden_size,
            "intermediate_size": size.intermediate_size,
            "num_hidden_layers": size.num_layers,
            "num_attention_heads": heads,
            "num_key_value_heads": max(1, heads // 2),
            "head_dim": head_dim,
            "initializer_range": tiny.INITIALIZER_RANGE,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
            "bos_token_id": None,
            "eos_token_id": end,
            "pad_token_id": pad,
            "tie_word_embeddings": size.tied,
        },
        vit_config={
            "hidden_size": size.hidden_size,
            "intermediate_size": 2 * size.hidden_size,
            "num_hidden_layers": size.num_vision_layers,
            "num_attention_heads": heads,
            "image_size": 128,
        },
        visual_vocab_size=size.visual_vocab_size,
    )
