"""What an evaluation is made of: the dataclasses behind ``tools/evaluate.py CONFIG``."""

from dataclasses import dataclass, field
from typing import Literal

from actdeny_train.config import Component
from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.errors import ConfigError
from actdeny_train.models.family import Family
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.prompts import CausalAct, Plain
from actdeny_train.questions.source import QuestionSource
from actdeny_train.types import ClipKind
from actdeny_train.video.sampling import Middle, Sampling


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question source in an evaluation."""

    source: QuestionSource
    count: int = 1
    """Questions per clip, indices 0 to count - 1; 14 asks every kind of graph question once."""
    kinds: tuple[ClipKind, ...] = tuple(ClipKind)
    """Kinds of clip that are asked."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"count of an evaluation's question source is {self.count}, but must be at least 1.")


def _standard_plain_and_causalact() -> tuple[Ask, ...]:
    return Ask(source=Standard(prompt=Plain())), Ask(source=Standard(prompt=CausalAct()))


@dataclass(frozen=True, kw_only=True)
class EvaluateRun:
    """A complete evaluation. All questions about a clip go through one forest."""

    name: str
    """Name of the evaluation and of its folder."""
    model: Component[Family]
    """Which model answers."""
    data: Component[ClipDataModule]
    """Which clips it is asked about."""
    split: str = "test"
    """Which split of them."""
    frames: Sampling = field(default_factory=Middle)
    """Which frames of a clip the model sees; 12 middle frames as the released evaluation."""
    ask: tuple[Ask, ...] = field(default_factory=_standard_plain_and_causalact)
    """What is asked; the standard setup under the plain and the CausalAct prompt by default."""
    clips_per_forest: int = 1
    """Clips in one forward pass."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the computation."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the model computes; auto takes a CUDA device where there is one."""
    num_workers: int = 0
    """Processes that decode and tokenise ahead."""
    folder: str = "runs"
    """Where evaluations lie."""
    seed: int = 0
    """Decides every question."""

    def __post_init__(self) -> None:
        if not self.name or any(c in self.name for c in "/\\") or self.name.startswith("."):
            raise ConfigError(f"name is {self.name!r}, but must be the plain name of a folder.")
        if self.clips_per_forest < 1 or not self.ask:
            raise ConfigError("An evaluation needs clips_per_forest of at least 1 and at least one entry under ask.")
        if self.num_workers < 0:
            raise ConfigError(f"num_workers is {self.num_workers}, but must be 0 or more.")
