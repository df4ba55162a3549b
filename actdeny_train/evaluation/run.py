"""What an evaluation is made of: the dataclasses behind ``tools/evaluate.py CONFIG``."""

import dataclasses
from dataclasses import dataclass, field
from typing import Literal

from actdeny_train.config import Component
from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.errors import ConfigError
from actdeny_train.evaluation.controls import Control
from actdeny_train.evaluation.scoring import Mode
from actdeny_train.evaluation.views import View
from actdeny_train.models.family import Family
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.prompts import CausalAct, Plain, Prompt
from actdeny_train.questions.source import QuestionSource
from actdeny_train.types import ClipKind
from actdeny_train.video.sampling import Middle, Sampling


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question source in an evaluation."""

    source: QuestionSource
    count: int = 1
    """Questions per clip, indices 0 to count - 1; 14 asks every kind of graph question once."""
    kinds: tuple[ClipKind, ...] | None = None
    """Kinds of clip that are asked; None: all that the source is about."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"count of an evaluation's question source is {self.count}, but must be at least 1.")


def grid(setups: tuple[QuestionSource, ...], prompts: tuple[Prompt, ...], count: int = 1) -> tuple[Ask, ...]:
    """Return every setup under every prompt, for the key ``ask``; ``count`` questions a clip in each."""
    if not setups or not prompts:
        raise ConfigError("A grid needs at least one entry under setups and one under prompts.")
    asked = []
    for setup in setups:
        if not any(field.name == "prompt" for field in dataclasses.fields(setup)):  # type: ignore[arg-type]
            raise ConfigError(
                f"A grid has {type(setup).__name__} under setups, which takes no prompt. List such a source under ask, without a grid."
            )
        asked += [Ask(source=dataclasses.replace(setup, prompt=prompt), count=count) for prompt in prompts]  # type: ignore[type-var]
    return tuple(asked)


def _standard_plain_and_causalact() -> tuple[Ask, ...]:
    return grid((Standard(),), (Plain(), CausalAct()))


@dataclass(frozen=True, kw_only=True)
class EvaluateRun:
    """A complete evaluation. All questions about a clip go through one forest."""

    name: str
    """Name of the evaluation and of its folder."""
    model: Component[Family | Control]
    """Which model answers, or which control."""
    data: Component[ClipDataModule]
    """Which clips it is asked about."""
    split: str = "test"
    """Which split of them."""
    frames: Sampling = field(default_factory=Middle)
    """Which frames of a clip the model sees; 12 middle frames as the released evaluation."""
    ask: tuple[Ask, ...] = field(default_factory=_standard_plain_and_causalact)
    """What is asked; the standard setup under the plain and the CausalAct prompt by default."""
    questions_file: str | None = None
    """File of frozen questions, asked in place of those under ask."""
    answers: Mode = "score"
    """How: score every choice, generate (greedy) and parse a response, or both; then the response is the answer."""
    max_new_tokens: int = 64
    """Longest response in tokens; what is cut off without an answer is truncated."""
    view: View = "video"
    """What is shown of a clip: video, text_only (nothing), one_frame (the middle one), shuffled_frames."""
    clips_per_share: int = 8
    """Consecutive clips or groups that one process takes at a time; answers do not depend on the number of processes, but on this."""
    tokens_per_forest: int = 16384
    """Most tokens in one forward pass, over the clips of a share; a clip with more has a pass of its own."""
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
        for name in ("clips_per_share", "tokens_per_forest", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} of an evaluation is {getattr(self, name)}, but must be at least 1.")
        if not self.ask:
            raise ConfigError("An evaluation needs at least one entry under ask.")
        if self.num_workers < 0:
            raise ConfigError(f"num_workers is {self.num_workers}, but must be 0 or more.")
