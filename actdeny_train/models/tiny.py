"""Tiny random models with the true architecture, made on the spot: a tokenizer trained on the benchmark's own words, the real
processor classes, and weights drawn from a seed, saved in the official layout and loaded like any checkpoint.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AddedToken,
    GenerationConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.causal.prompt import render
from actdeny_train.causal.variants import full
from actdeny_train.models import qwen2_5_vl
from actdeny_train.questions.objects import INSTRUCTION
from actdeny_train.questions.prompts import WORDING, Plain
from actdeny_train.types import ClipKind

SPECIAL_TOKENS = (
    "<|im_start|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)

INITIALIZER_RANGE = 0.08
"""About 1 / sqrt(width). The 0.02 of large models leaves a narrow one near uniform attention for hundreds of steps."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The layout that Qwen2.5-VL's own template writes for text, images and videos, in our words."""


@dataclass(frozen=True, slots=True)
class TinySize:
    """How large a tiny Qwen2.5-VL is. Defaults: 1.9 million parameters, which learn MiniAD in minutes on two cores."""

    hidden_size: int = 128
    """Width of vision tower and language model; a multiple of 32."""
    intermediate_size: int = 384
    """Width of the language model's feed-forward layers."""
    num_layers: int = 4
    """Layers of the language model."""
    num_vision_layers: int = 2
    """Blocks of the vision tower; the last attends over whole time steps, the others in windows."""
    vocab_size: int = 2048
    """Tokens of the byte-level vocabulary, special tokens not counted."""


def load(
    root: str = "data/tiny",
    seed: int = 0,
    size: TinySize = TinySize(),
    tokens_per_frame: tuple[int, int] = (4, 4),
) -> qwen2_5_vl.Qwen25VL:
    """Make (once, under ``root``) and load a random Qwen2.5-VL. ``tokens_per_frame`` 4 is a 56 x 56 px frame, 64 is 224 x 224."""
    key = hashlib.sha256(
        repr((seed, asdict(size), CHAT_TEMPLATE, INITIALIZER_RANGE, corpus(), sentences())).encode()
    ).hexdigest()[:12]
    folder = Path(root) / f"qwen2_5_vl_{key}"
    if not folder.is_dir():
        build(folder, seed, size)
    return qwen2_5_vl.load(str(folder), tokens_per_frame=tokens_per_frame)


def build(folder: Path, seed: int = 0, size: TinySize = TinySize()) -> None:
    """Write a random checkpoint in the official layout. A killed build leaves no folder of this name."""
    with new_folder(folder) as made:
        processor = _processor(size.vocab_size)
        _model(processor.tokenizer, seed, size).save_pretrained(made)
        processor.save_pretrained(made)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to write into, which gets its name when all is written. An earlier folder of this name stays."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as work:
        made = Path(work) / folder.name
        made.mkdir()
        yield made
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same bytes
                raise


def corpus() -> list[str]:
    """All words that the benchmark uses, so that a small vocabulary covers them with few tokens."""
    labels = load_ucf101()
    lines = [Plain().render(), render(full()), *labels.descriptions.values()]
    for kinds in labels.components.values():
        lines += [kinds[kind].of(node) for kind in ClipKind if kind in kinds for node in "POLSIM"]
    return lines


def sentences() -> list[str]:
    """The captions of the benchmark, the none choice, and the sentences of its prompts; longer ones first."""
    found = {*load_ucf101().descriptions.values(), WORDING["none_option"], Plain().render().strip(), INSTRUCTION}
    return sorted(found, key=lambda sentence: (-len(sentence), sentence))


def _processor(vocab_size: int) -> Qwen2_5_VLProcessor:
    tokenizer = make_tokenizer(vocab_size)
    size = {"shortest_edge": 56 * 56, "longest_edge": 448 * 448}
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(size=size),
        chat_template=CHAT_TEMPLATE,
    )


def make_tokenizer(vocab_size: int, plain_tokens: Sequence[str] = ()) -> Qwen2Tokenizer:
    """Train a byte-level tokenizer of ``vocab_size`` tokens; special, plain and sentence tokens come on top, in this order."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(
        corpus(), trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
    )
    trained = _trained(bpe)
    tokenizer = Qwen2Tokenizer(
        vocab=trained[0], merges=trained[1], eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token=None
    )
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in plain_tokens])
    # Whole sentences as single tokens: an eleven-choice question is then 46 tokens instead of 280, and a tiny model learns to
    # look its choices up.
    tokenizer.add_tokens([AddedToken(sentence, rstrip=True, normalized=False) for sentence in sentences()])
    return tokenizer


def _trained(bpe: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = json.loads(bpe.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def _model(tokenizer: Qwen2Tokenizer, seed: int, size: TinySize) -> Qwen2_5_VLForConditionalGeneration:
    def token(name: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(name))

    head_dim = 32
    heads = size.hidden_size // head_dim
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": size.hidden_size,
            "intermediate_size": size.intermediate_size,
            "num_hidden_layers": size.num_layers,
            "initializer_range": INITIALIZER_RANGE,
            "num_attention_heads": heads,
            "num_key_value_heads": max(1, heads // 2),
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 6, 6]},
            "bos_token_id": None,
            "eos_token_id": token("<|im_end|>"),
            "pad_token_id": token("<|endoftext|>"),
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": size.num_vision_layers,
            "initializer_range": INITIALIZER_RANGE,
            "hidden_size": size.hidden_size,
            "intermediate_size": 2 * size.hidden_size,
            "num_heads": heads,
            "out_hidden_size": size.hidden_size,
            "fullatt_block_indexes": [size.num_vision_layers - 1],
            "tokens_per_second": 2,
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2_5_VLForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        eos_token_id=[token("<|im_end|>"), token("<|endoftext|>")], pad_token_id=token("<|endoftext|>")
    )
    return model
