"""Which parameters train. Frozen parts have no gradients and stay in eval mode, whatever ``train()`` is called on."""

from collections.abc import Iterable

from actdeny_train.errors import ConfigError, near_misses
from actdeny_train.models.family import PARTS, Family


def train_only(family: Family, parts: Iterable[str]) -> None:
    """Switch gradients on for ``parts`` and off for all others. Raises ConfigError for an unknown or empty choice."""
    chosen = tuple(parts)
    for part in chosen:
        if part not in PARTS:
            raise ConfigError(
                f"Unknown part {part!r}: a model's parts are {', '.join(PARTS)}.{near_misses(part, PARTS)}"
            )
    if not chosen:
        raise ConfigError(f"No part is trained. Name at least one of {', '.join(PARTS)}.")
    for part, parameters in family.part_parameters().items():
        for _, parameter in parameters:
            parameter.requires_grad_(part in chosen)


def set_modes(family: Family) -> None:
    """Put trained parts into train mode and frozen ones into eval mode (their dropout and checkpointing are off)."""
    family.train()
    parameters = family.part_parameters()
    for part in PARTS:  # in this order: the projector may lie inside the vision tower
        trains = any(p.requires_grad for _, p in parameters[part])
        for module in family.part_modules()[part]:
            module.train(trains)
