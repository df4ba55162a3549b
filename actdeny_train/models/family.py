"""What a model family is: a processor without weights, and a model of three parts. One file per family fills this in.

Shapes: T frames, L tokens of a sequence, V visual tokens, U rows that predict an answer token, D width of the language model.
"""

import abc
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from actdeny_train.trees import Forest, TokenSequence
from actdeny_train.types import Frames

PARTS = ("vision", "projector", "llm")
"""Every parameter of a family lies in exactly one of these."""

PLAIN_TRANSFORMERS = """Load it with plain transformers:

```python
from transformers import AutoModelForImageTextToText, AutoProcessor

model = AutoModelForImageTextToText.from_pretrained("FOLDER")
processor = AutoProcessor.from_pretrained("FOLDER")
```
"""
"""``Family.LOADING`` of a family whose classes transformers has."""


@dataclass(frozen=True, eq=False)
class Visual:
    """What the vision encoder takes of one clip, or of several joined.

    ``inputs`` are tensors whose first dimension joins clips. ``num_tokens`` is how many visual tokens come out. ``seconds`` is
    the time between two visual time steps, 0 where there is only one.
    """

    inputs: Mapping[str, Tensor]
    num_tokens: int
    seconds: float = 0.0

    @staticmethod
    def join(visuals: Sequence["Visual"]) -> "Visual":
        """Put the clips of a forest behind each other, in the order of its trees; without any clip, there are no inputs."""
        visuals = [v for v in visuals if v.inputs]
        keys = visuals[0].inputs if visuals else ()
        return Visual({k: torch.cat([v.inputs[k] for v in visuals]) for k in keys}, sum(v.num_tokens for v in visuals))

    def to(self, device: torch.device | str) -> "Visual":
        """Return the inputs on another device."""
        return Visual({k: v.to(device) for k, v in self.inputs.items()}, self.num_tokens, self.seconds)


class Processor(abc.ABC):
    """Frames and words into tensors and token ids. Holds no weights and pickles into data workers."""

    max_clips: int | None = None
    """Most clips that a conversation can show; None: any number."""

    @abc.abstractmethod
    def visual(self, frames: Frames) -> Visual:
        """Resize, normalise and cut frames into patches; the frames' own times give ``seconds``."""

    @abc.abstractmethod
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
        """Return the whole conversation (clips, then ``text``, then ``answer`` and end of turn) as the chat template writes it.

        ``question`` and ``choice`` name the leaf. ``places`` are where in the text, in characters, each clip stands; without them all
        clips stand before it. Raises DataError if the text holds one of the tokenizer's special tokens.
        """

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return token ids as text, special tokens shown."""

    @abc.abstractmethod
    def save(self, folder: Path) -> None:
        """Write tokenizer, processor settings and chat template in the official layout."""

    @property
    @abc.abstractmethod
    def stop_ids(self) -> tuple[int, ...]:
        """Return the tokens that end a response."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Return a short hash of everything that decides what ``visual`` and ``sequence`` give."""


def user_turn(num_clips: int, text: str, places: Sequence[int] = ()) -> dict[str, Any]:
    """Return the user's turn, as chat templates take it: the clips before ``text``, or each at its place in it."""
    starts = [*places] if places else [0] * num_clips
    assert len(starts) == num_clips, f"{num_clips} clips at {len(starts)} places"
    content: list[dict[str, str]] = []
    for i, (begin, end) in enumerate(itertools.pairwise((0, *starts, len(text)))):
        content += [{"type": "video"}] if i else []
        content += [{"type": "text", "text": text[begin:end]}] if begin < end else []
    return {"role": "user", "content": content}


class Family(nn.Module, abc.ABC):
    """A video language model: encoder, projector and language model over a forest."""

    PART_PREFIXES: ClassVar[tuple[tuple[str, str], ...]]
    """(parameter name prefix, part), first match wins."""

    UNUSED_PREFIXES: ClassVar[tuple[str, ...]] = ()
    """Name prefixes of parameters that checkpoints hold but the model computes nothing with, so that they never train."""

    LOADING: ClassVar[str]
    """Markdown for model cards: how to load what ``save`` wrote, with a Python block in which FOLDER stands for its path."""

    processor: Processor
    model: Any
    """Holds every weight under the names of the official code; adapters are named from here."""

    @abc.abstractmethod
    def encode(self, visual: Visual) -> Tensor:
        """Return the visual tokens (V, D) of joined clips. Frozen parts run without gradients."""

    @abc.abstractmethod
    def forward(self, forest: Forest, visual_tokens: Tensor, cache: Any = None) -> Tensor:
        """Return the hidden rows (U, D) at ``forest.predict_rows``, after the last norm. An empty ``cache`` keeps keys and values."""

    @abc.abstractmethod
    def new_cache(self) -> Any:
        """Return an empty cache of keys and values, for one forest."""

    @abc.abstractmethod
    def extend(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Return the hidden rows (Q, D) of Q further tokens behind what ``cache`` holds, and add them to it.

        ``ids`` (Q,), ``positions`` (R, Q); ``mask`` (Q, K) is True where a token may look among all K tokens, the new ones last.
        """

    @abc.abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Return (U, vocabulary) logits of hidden rows."""

    @abc.abstractmethod
    def part_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        """Return the modules of each part, for switching frozen ones to eval; a later part's module may lie inside an earlier one."""

    @abc.abstractmethod
    def checkpoint_gradients(self) -> None:
        """Trade compute for memory: recompute the blocks of trained parts in the backward pass (non-reentrant)."""

    @abc.abstractmethod
    def save(self, folder: Path) -> None:
        """Write weights, configs, tokenizer and processor so that plain transformers loads the folder."""

    def see(self, visual: Visual) -> Tensor:
        """Return ``encode(visual)``, or no visual tokens (0, 0) where there is no clip."""
        return self.encode(visual) if visual.num_tokens else torch.zeros(0, 0, device=self.device)

    def part_parameters(self) -> dict[str, list[tuple[str, nn.Parameter]]]:
        """Return (name, parameter) pairs per part. Tied weights count once; every parameter lies in exactly one part."""
        parts: dict[str, list[tuple[str, nn.Parameter]]] = {part: [] for part in PARTS}
        for name, parameter in self.named_parameters():
            parts[self._part_of(name)].append((name, parameter))
        return parts

    def is_unused(self, name: str) -> bool:
        """Tell whether the model computes nothing with a parameter."""
        return name.startswith(self.UNUSED_PREFIXES)

    def _part_of(self, name: str) -> str:
        for prefix, part in self.PART_PREFIXES:
            if name.startswith(prefix):
                return part
        raise AssertionError(f"parameter {name} of {type(self).__name__} lies in no part")

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    def fingerprint(self) -> str:
        """Return a short hash of all weights: names, shapes, types and bytes."""
        digest = hashlib.sha256()
        for name, tensor in sorted(_tensors(self)):
            digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()[:16]


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.state_dict().items()
