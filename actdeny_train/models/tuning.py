"""Which parameters train, and how: whole parts, some of their layers, or adapters. Frozen parts have no gradients and stay in eval
mode, whatever ``train()`` is called on; their linear layers may be kept coarser to save memory.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from actdeny_train.errors import ConfigError, near_misses
from actdeny_train.models import quantised
from actdeny_train.models.family import PARTS, Family
from actdeny_train.models.patterns import select
from actdeny_train.models.quantised import Storage


@dataclass(frozen=True, kw_only=True)
class AdapterSettings:
    """LoRA or DoRA (through peft) on linear layers: W x becomes W x + alpha / rank * B A x, where A and B train and W is frozen."""

    parts: tuple[str, ...]
    """Parts that train by adapter alone. Each needs a rate under optimizer.lr, which is then the adapter's; 1e-4 is usual."""
    rank: int = 16
    """Rows of A and columns of B in every layer."""
    alpha: int = 32
    """The update is scaled by alpha / rank."""
    dora: bool = False
    """Also train the length of each row of the updated weights (DoRA): slower, often better at low ranks."""
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Per part: patterns of the linear layers that get an adapter. Default: all but the vocabulary projection."""
    dropout: float = 0.0
    """Must be 0: the questions of a clip share one pass, so they would all miss the same values."""

    def __post_init__(self) -> None:
        _check_parts("tuning.adapter.parts", self.parts)
        if not self.parts:
            raise ConfigError(
                f"tuning.adapter.parts is empty. Name at least one of {', '.join(PARTS)}, or remove tuning.adapter."
            )
        for name in ("rank", "alpha"):
            if getattr(self, name) < 1:
                raise ConfigError(f"tuning.adapter.{name} is {getattr(self, name)}, but must be at least 1.")
        if self.dropout != 0:
            raise ConfigError(
                f"tuning.adapter.dropout is {self.dropout}, but must be 0. All questions about a clip share one pass, so they would miss "
                "the same values, and a forest would no longer compute what its sequences compute alone. Use a smaller "
                "tuning.adapter.rank or a larger optimizer.weight_decay against overfitting."
            )
        for part in self.targets:
            if part not in self.parts:
                raise ConfigError(
                    f"tuning.adapter.targets.{part}: tuning.adapter.parts does not name {part} (it names "
                    f"{', '.join(self.parts)}).{near_misses(part, self.parts)} Add it there, or remove the targets."
                )

    @property
    def kind(self) -> str:
        """Return LoRA or DoRA."""
        return "DoRA" if self.dora else "LoRA"


@dataclass(frozen=True, kw_only=True)
class TuningSettings:
    """How the parts that have a learning rate train: in full, some of their layers, or by adapter; and how frozen weights are kept."""

    only: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Per part: patterns of the parameters that train, such as 'layers.-8:' (the last eight). Default: all of the part."""
    adapter: AdapterSettings | None = None
    """None: no adapters, parts train their own weights."""
    frozen: dict[str, Storage] = field(default_factory=dict)
    """Per part: how the weights of its frozen linear layers are kept: bfloat16, int8 or nf4. Default: as loaded."""

    def check(self, rates: Mapping[str, float], precision: Literal["float32", "bfloat16"]) -> None:
        """Raise ConfigError where this does not go with the learning rates or the precision of a run."""
        for name in ("only", "frozen"):
            _check_parts(f"tuning.{name}", getattr(self, name))
        adapted = self.adapter.parts if self.adapter else ()
        for part in adapted:
            if part not in rates:
                raise ConfigError(
                    f"tuning.adapter.parts names {part}, which has no learning rate. Give the adapter's: optimizer.lr.{part}=1e-4."
                )
        for part, patterns in self.only.items():
            if part in adapted:
                raise ConfigError(
                    f"tuning.only.{part}: {part} trains by adapter, and its own weights are frozen. Choose the layers that are adapted "
                    f"with tuning.adapter.targets.{part}."
                )
            if part not in rates:
                raise ConfigError(
                    f"tuning.only.{part} chooses what trains of {part}, which has no learning rate. Give one (optimizer.lr.{part}), or "
                    f"remove tuning.only.{part}."
                )
            if not patterns:
                raise ConfigError(f"tuning.only.{part} is empty, so nothing of {part} would train. Remove it.")
        for part, storage in self.frozen.items():
            if part in rates and part not in adapted and part not in self.only:
                raise ConfigError(
                    f"tuning.frozen.{part} is {storage}, but {part} trains in full, and updates would vanish in coarse weights. Name it "
                    f"in tuning.adapter.parts, or remove optimizer.lr.{part} or tuning.frozen.{part}."
                )
            if storage == "bfloat16" and precision != "bfloat16":
                raise ConfigError(
                    f"tuning.frozen.{part} is bfloat16, which goes with hardware.precision=bfloat16 alone (now {precision}): there, "
                    "float32 weights would be rounded alike in every step. Set that precision, or choose int8 or nf4."
                )
            quantised.check_available(storage, f"tuning.frozen.{part}")

    @property
    def changes_layers(self) -> bool:
        """Tell whether the model trains with other layers than a plain checkpoint has."""
        return bool(self.adapter or self.frozen)


def prepare(family: Family, rates: Iterable[str], tuning: TuningSettings, seed: int = 0) -> None:
    """Make a loaded family ready to train: gradients on for what trains, frozen layers coarse, adapters attached.

    ``rates`` are the parts with a learning rate; ``seed`` draws the adapters' first weights. Raises ConfigError for a pattern that
    matches nothing, before any layer is changed.
    """
    train_only(family, rates, tuning.only)
    adapter = tuning.adapter
    if adapter is None:
        quantised.store(family, tuning.frozen)
        return
    from actdeny_train.models import adapters  # peft takes seconds to import

    targets = adapters.find_targets(family, adapter.parts, adapter.targets)
    for part in adapter.parts:
        for _, parameter in family.part_parameters()[part]:
            parameter.requires_grad_(False)
    in_bfloat16 = {part: storage for part, storage in tuning.frozen.items() if storage == "bfloat16"}
    quantised.store(family, {part: tuning.frozen[part] for part in tuning.frozen.keys() - in_bfloat16})
    adapters.attach(family, targets, rank=adapter.rank, alpha=adapter.alpha, dora=adapter.dora, seed=seed)
    adapters.full_modules(family.model)  # what cannot be saved is known before training
    quantised.store(family, in_bfloat16)  # now, for peft draws adapters in the type of their base


def make_plain(family: Family) -> None:
    """Merge adapters and turn coarse weights back into those that the checkpoint had, so that ``family.save`` writes plain layers."""
    if "peft" in sys.modules:
        from actdeny_train.models import adapters

        adapters.merge(family)
    quantised.restore(family)


def train_only(family: Family, parts: Iterable[str], only: Mapping[str, Sequence[str]] | None = None) -> None:
    """Switch gradients on for ``parts`` (of those in ``only``, for the parameters that its patterns match) and off for all others.

    Parameters that a family does not use stay off: no gradient reaches them, and several processes would wait for it forever.
    Raises ConfigError for an unknown or empty choice, or a pattern that matches no parameter of its part.
    """
    chosen = tuple(parts)
    for part in chosen:
        if part not in PARTS:
            raise ConfigError(
                f"Unknown part {part!r}: a model's parts are {', '.join(PARTS)}.{near_misses(part, PARTS)}"
            )
    if not chosen:
        raise ConfigError(f"No part is trained. Name at least one of {', '.join(PARTS)}.")
    named = family.part_parameters()
    used = {part: [name for name, _ in named[part] if not family.is_unused(name)] for part in named}
    trained = {part: set(used[part]) for part in chosen}
    for part, patterns in (only or {}).items():
        trained[part] = set(select(patterns, used[part], f"tuning.only.{part}", f"parameter of {part}"))
    for part, parameters in named.items():
        for name, parameter in parameters:
            parameter.requires_grad_(name in trained.get(part, ()))


def set_modes(family: Family) -> None:
    """Put trained parts into train mode and frozen ones into eval mode (their dropout and checkpointing are off)."""
    family.train()
    parameters = family.part_parameters()
    for part in PARTS:  # in this order: the projector may lie inside the vision tower
        trains = any(p.requires_grad for _, p in parameters[part])
        for module in family.part_modules()[part]:
            module.train(trains)


def _check_parts(where: str, parts: Iterable[str]) -> None:
    for part in parts:
        if part not in PARTS:
            raise ConfigError(
                f"{where} names {part!r}, but a model's parts are {', '.join(PARTS)}.{near_misses(part, PARTS)}"
            )
