"""What a training run is made of: the dataclasses behind ``tools/train.py CONFIG``."""

import math
from dataclasses import dataclass, field
from typing import Literal

from lightning import Callback

from actdeny_train.config import Component
from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.errors import ConfigError
from actdeny_train.models import quantised
from actdeny_train.models.family import PARTS, Family
from actdeny_train.models.tuning import TuningSettings
from actdeny_train.questions.graph_vqa import GraphQuestions
from actdeny_train.questions.mixture import Share
from actdeny_train.video.sampling import Middle, Sampling


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How clips become steps. A step is one update of the optimiser."""

    clips_per_step: int
    """Clips whose questions make one step, over all devices."""
    clips_per_micro_batch: int
    """Clips in one forest, that is in one forward pass on one device; the gradient does not depend on it."""
    questions_per_clip: int = 14
    """Questions asked about a clip each time it comes up; 14 asks every kind of graph question once."""
    num_epochs: int | None = None
    """Times that every clip comes up. Give this or num_steps."""
    num_steps: int | None = None
    """Steps in all. Give this or num_epochs."""
    new_questions_each_epoch: bool = True
    """True: a clip's next questions each time it comes up. False: the same ones (as the paper, one question a clip)."""
    num_workers: int = 0
    """Processes that decode and tokenise ahead; 0 does it in the training process."""
    cache_gib: float = 0.0
    """GiB of decoded frames that each such process keeps in memory; 0 keeps none."""

    def __post_init__(self) -> None:
        for name in ("clips_per_step", "clips_per_micro_batch", "questions_per_clip"):
            if getattr(self, name) < 1:
                raise ConfigError(f"batch.{name} is {getattr(self, name)}, but must be at least 1.")
        if (self.num_epochs is None) == (self.num_steps is None):
            raise ConfigError("Give either batch.num_epochs or batch.num_steps, not both and not neither.")
        if (self.num_epochs or self.num_steps or 0) < 1:
            raise ConfigError("batch.num_epochs or batch.num_steps must be at least 1.")
        if self.num_workers < 0:
            raise ConfigError(f"batch.num_workers is {self.num_workers}, but must be 0 or more.")
        if not 0 <= self.cache_gib < math.inf:
            raise ConfigError(f"batch.cache_gib is {self.cache_gib}, but must be 0 or more.")


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """AdamW with one learning rate a part, linear warm-up and cosine decay to zero. Parts without a rate are frozen."""

    lr: dict[str, float]
    """Peak learning rate of each trained part: any of vision, projector, llm. Of a part in tuning.adapter.parts, the adapter's."""
    weight_decay: float = 0.01
    """Decoupled decay of matrices; biases and norms have none."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the first and second moment."""
    eps: float = 1e-8
    """Added to the root of the second moment."""
    warmup_ratio: float = 0.03
    """Share of all steps in which the rate rises from 0 to its peak."""
    clip_norm: float | None = 1.0
    """Largest norm of the whole gradient; None does not clip."""
    moments: Literal["float32", "8bit"] = "float32"
    """How AdamW's moments are kept: 8bit (bitsandbytes) takes a quarter of the memory."""

    def __post_init__(self) -> None:
        for part, rate in self.lr.items():
            if part not in PARTS:
                raise ConfigError(f"optimizer.lr.{part}: there is no such part; parts are {', '.join(PARTS)}.")
            if not 0 < rate < math.inf:
                raise ConfigError(
                    f"optimizer.lr.{part} is {rate}, but must be above 0. Leave the part out to freeze it."
                )
        if not self.lr:
            raise ConfigError("optimizer.lr is empty, so nothing would train. Give a rate for at least one part.")
        if not 0 <= self.warmup_ratio < 1:
            raise ConfigError(f"optimizer.warmup_ratio is {self.warmup_ratio}, but must lie in [0, 1).")
        if not 0 <= self.weight_decay < math.inf:
            raise ConfigError(f"optimizer.weight_decay is {self.weight_decay}, but must be 0 or more.")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"optimizer.betas are {list(self.betas)}, but each must lie in [0, 1).")
        if not 0 < self.eps < math.inf:
            raise ConfigError(f"optimizer.eps is {self.eps}, but must be above 0.")
        if self.clip_norm is not None and not 0 < self.clip_norm < math.inf:
            raise ConfigError(
                f"optimizer.clip_norm is {self.clip_norm}, but must be above 0. Set it to null so that nothing is clipped."
            )
        quantised.check_available(self.moments, "optimizer.moments")


@dataclass(frozen=True, kw_only=True)
class HardwareSettings:
    """Where a run computes. Trained weights and optimiser states are float32 in either precision; other ones are refused."""

    accelerator: str = "auto"
    """Lightning's name: auto, cpu, gpu."""
    devices: int = 1
    """Devices of this machine."""
    strategy: str = "auto"
    """Lightning's name: auto, ddp."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the computation. Updates at the paper's rates (2e-7) vanish in bfloat16 weights, so these stay float32."""
    checkpoint_gradients: bool = False
    """Recompute activations in the backward pass: less memory, about a third more compute."""

    def __post_init__(self) -> None:
        if self.devices < 1:
            raise ConfigError(f"hardware.devices is {self.devices}, but must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    """What a run writes to ``folder/<name>/``."""

    folder: str = "checkpoints"
    """Where runs lie."""
    save_every_steps: int = 200
    """Steps between two saves of the training state (last.ckpt); the end is always saved."""
    log_every_steps: int = 1
    """Steps between two lines of the CSV and TensorBoard logs."""
    callbacks: tuple[Component[Callback], ...] = ()
    """Lightning callbacks that watch the run."""

    def __post_init__(self) -> None:
        for name in ("save_every_steps", "log_every_steps"):
            if getattr(self, name) < 1:
                raise ConfigError(f"output.{name} is {getattr(self, name)}, but must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class TrainRun:
    """A complete training run."""

    name: str
    """Name of the run and of its folder."""
    model: Component[Family]
    """Which model is finetuned."""
    data: Component[ClipDataModule]
    """Which clips it is trained on (split "train")."""
    batch: BatchSettings
    optimizer: OptimizerSettings
    frames: Sampling = field(default_factory=Middle)
    """Which frames of a clip the model sees."""
    questions: tuple[Share, ...] = field(default_factory=lambda: (Share(GraphQuestions()),))
    """What is asked, mixed by shares; graph questions alone by default."""
    tuning: TuningSettings = field(default_factory=TuningSettings)
    """Layers or adapters that train instead of whole parts; how frozen weights are kept."""
    hardware: HardwareSettings = field(default_factory=HardwareSettings)
    output: OutputSettings = field(default_factory=OutputSettings)
    seed: int = 0
    """Decides the order of clips, every question, and the first weights of adapters."""

    def __post_init__(self) -> None:
        if not self.name or any(c in self.name for c in "/\\") or self.name.startswith("."):
            raise ConfigError(f"name is {self.name!r}, but must be the plain name of a folder.")
        self.tuning.check(self.optimizer.lr, self.hardware.precision)
