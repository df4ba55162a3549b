"""Any causal language model of transformers, asked without videos: what words alone are worth.

Every path of a forest goes through the model's own forward as a sequence alone, so that scores are exact whatever its architecture
(sliding windows, recurrent layers, learned positions): prompts of text alone are short.
"""

import hashlib
import inspect
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from jinja2 import TemplateError
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from actdeny_train.errors import CheckpointError, ConfigError, DataError
from actdeny_train.models import loading
from actdeny_train.models.family import Family, Processor, Visual
from actdeny_train.trees import Forest, TokenSequence
from actdeny_train.types import Frames

Layout = Literal["chat", "continuation"]

TOKENS_AT_ONCE = 4096
"""Most tokens of paths of one length that go through the model side by side."""


class TextProcessor(Processor):
    """Words for a language model, without clips.

    ``layout`` ``"chat"``: the user's turn by the tokenizer's chat template, the answer and the end of the turn. ``"continuation"``: the
    text, a blank and the answer, with neither template nor end, as harnesses score choices by log-likelihood; blanks at the end of
    the text belong to what is scored, as there. ``thinking`` is told to chat templates that know of it.
    """

    max_clips = 0

    def __init__(self, tokenizer: PreTrainedTokenizerBase, layout: Layout, thinking: bool = False) -> None:
        self.tokenizer = tokenizer
        self.layout = layout
        self.thinking = thinking
        if tokenizer.eos_token_id is None:
            raise CheckpointError(
                "The checkpoint's tokenizer has no end-of-text token (eos_token), so no answer would end. Add it."
            )
        self._special = tuple(str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
        self._end = int(tokenizer.eos_token_id)
        if layout == "chat":
            if not tokenizer.chat_template:
                raise ConfigError(
                    "The checkpoint's tokenizer has no chat template. Set model.layout to continuation, or leave it out."
                )
            self._end = self._find_end()

    def _find_end(self) -> int:
        """Return the token that ends an assistant's turn: the first added one that the template writes behind its words."""
        word = "answer"
        turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": word}]
        try:
            rendered = str(self.tokenizer.apply_chat_template(turns, tokenize=False))
            self._prompt("?")
        except (ValueError, TypeError, TemplateError) as error:
            raise CheckpointError(
                f"The checkpoint's chat template cannot write a user's and an assistant's turn: {' '.join(str(error).split())[:200]}. Set "
                "model.layout to continuation, or take the template from the model that the checkpoint was finetuned from."
            ) from None
        behind = self.tokenizer(rendered.rpartition(word)[2], add_special_tokens=False)["input_ids"]
        return next((i for i in behind if i in self.tokenizer.added_tokens_decoder), self._end)

    def visual(self, frames: Frames) -> Visual:
        raise ConfigError(
            "A language model cannot be shown a video. Set view to text_only, or choose a video language model."
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
        assert not visuals, "visual() makes none"
        for token in self._special:
            if token in text or token in answer:
                raise DataError(
                    f"The text of a question holds the tokenizer's special token {token!r}, which would become part of the chat "
                    f"layout: {text[:80]!r}. Remove it from the question or its choices."
                )
        if self.layout == "chat":
            prompt, whole = self._prompt(text), self._prompt(text) + answer
        else:
            prompt, whole = text.rstrip(), f"{text} {answer}"
        ids, start = self._encode(whole), self._encode(prompt)
        if ids[: len(start)] != start or len(ids) == len(start):
            raise DataError(
                f"The tokenizer joins the end of a question and its answer {answer!r} in one token, so the answer cannot be scored on its "
                f"own: {text[-80:]!r}. Let the prompt end in a line break or a letter, or use another layout."
            )
        ids += [self._end] if self.layout == "chat" else []
        return TokenSequence(
            ids=np.array(ids, dtype=np.int64),
            positions=np.arange(len(ids), dtype=np.int64)[None],
            visual=np.full(len(ids), -1, dtype=np.int64),
            answer_start=len(start),
            question=question,
            choice=choice,
        )

    def _prompt(self, text: str) -> str:
        turn = [{"role": "user", "content": text}]
        return str(
            self.tokenizer.apply_chat_template(
                turn, tokenize=False, add_generation_prompt=True, enable_thinking=self.thinking
            )
        )

    def _encode(self, text: str) -> list[int]:
        # A chat template writes the token that begins a text itself.
        return list(self.tokenizer(text, add_special_tokens=self.layout == "continuation")["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return tuple(sorted({self._end, int(self.tokenizer.eos_token_id)}))

    @property
    def fingerprint(self) -> str:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        parts = (
            backend.to_str() if backend is not None else json.dumps(self.tokenizer.get_vocab(), sort_keys=True),
            str(self.tokenizer.chat_template) if self.layout == "chat" else "",
            json.dumps([self.layout, self.thinking]),
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@dataclass
class _Read:
    """The tokens that a forest and its responses have so far: each new token reads them anew."""

    ids: Tensor


class CausalLM(Family):
    """A language model over a forest without clips. Its hidden rows are logits: some models scale or cap them behind the last layer."""

    PART_PREFIXES: ClassVar = (("model.", "llm"),)
    LOADING: ClassVar = 'Load it with plain transformers: `AutoModelForCausalLM.from_pretrained("FOLDER")`.\n'

    def __init__(self, model: PreTrainedModel, processor: TextProcessor) -> None:
        super().__init__()
        self.model = model
        self.processor = processor
        self._can_keep = "logits_to_keep" in inspect.signature(model.forward).parameters

    def part_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        return {"vision": [], "projector": [], "llm": [self.model]}

    def encode(self, visual: Visual) -> Tensor:
        raise AssertionError("a language model is shown no clips")

    def forward(self, forest: Forest, visual_tokens: Tensor, cache: _Read | None = None) -> Tensor:
        if cache is not None:
            cache.ids = forest.ids
        rows, leave = forest.predict_rows.tolist(), forest.leave
        # In depth-first order, a row with a predicting row below it has the next one below it.
        ends = [row for row, after in zip(rows, [*rows[1:], len(leave)], strict=True) if after >= int(leave[row])]
        index = torch.arange(len(leave), device=leave.device)
        paths = [index[(index <= end) & (leave > end)] for end in ends]
        # The first end from a row on lies below it.
        owners = np.searchsorted(ends, rows).tolist()
        behind = [int((paths[owner] >= row).sum()) for owner, row in zip(owners, rows, strict=True)]
        tails = [max(b for b, owner in zip(behind, owners, strict=True) if owner == k) for k in range(len(ends))]
        logits = self._logits([forest.ids[path] for path in paths], tails)
        return torch.stack([logits[owner][-b] for owner, b in zip(owners, behind, strict=True)])

    def new_cache(self) -> _Read:
        return _Read(torch.zeros(0, dtype=torch.int64))

    def extend(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: _Read) -> Tensor:
        cache.ids = torch.cat((cache.ids, ids))
        logits = self._logits([cache.ids[seen] for seen in mask], [1] * len(ids))
        return torch.stack([one[-1] for one in logits])

    def _logits(self, sequences: Sequence[Tensor], tails: Sequence[int]) -> list[Tensor]:
        """Return the logits (at least ``tails[i]``, vocabulary) of the last tokens of each sequence. Equally long ones go side by side."""
        by_length: dict[int, list[int]] = defaultdict(list)
        for i, sequence in enumerate(sequences):
            by_length[len(sequence)].append(i)
        found: dict[int, Tensor] = {}
        for length, members in by_length.items():
            size = max(1, TOKENS_AT_ONCE // length)
            for part in (members[i : i + size] for i in range(0, len(members), size)):
                kept = {"logits_to_keep": max(tails[i] for i in part)} if self._can_keep else {}
                batch = torch.stack([sequences[i] for i in part])
                found |= zip(part, self.model(input_ids=batch, use_cache=False, **kept).logits, strict=True)
        return [found[i] for i in range(len(sequences))]

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def checkpoint_gradients(self) -> None:
        self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.processor.save(folder)


def load(
    checkpoint: str,
    revision: str | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    layout: Layout | None = None,
    thinking: bool = False,
) -> CausalLM:
    """Load any causal language model of transformers, a Hub checkpoint by name and revision or a local folder. No remote code.

    ``layout``: ``"chat"`` or ``"continuation"`` (see ``TextProcessor``); None takes the chat template where there is one. ``thinking``
    is told to templates that know of it. Raises CheckpointError where files, weights or the network are missing.
    """
    folder = loading.fetch(checkpoint, revision, is_text=True)
    tokenizer = loading.load_processor(AutoTokenizer, folder)
    processor = TextProcessor(tokenizer, layout or ("chat" if tokenizer.chat_template else "continuation"), thinking)
    return CausalLM(loading.load_model(AutoModelForCausalLM, None, folder, getattr(torch, dtype)), processor)
