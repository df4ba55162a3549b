"""Proves at the end of a training that its frozen weights are the same, byte for byte, as at its start."""

import hashlib
from collections.abc import Iterator

import lightning
import torch
from lightning import Callback
from torch import Tensor, nn

from actdeny_train.errors import ConfigError
from actdeny_train.training.module import TrainingError


class FrozenWeights(Callback):
    """Hashes every frozen tensor when training starts and compares when it ends.

    Frozen are the parameters without gradients, and the buffers of modules none of whose own parameters trains. Reads all of
    them twice, which takes seconds for billions of weights. Raises ConfigError at the start if nothing is frozen, and TrainingError at the
    end, before the finished model is saved, if a tensor changed.
    """

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._digests = {name: _digest(tensor) for name, tensor in frozen_tensors(pl_module)}
        if not self._digests:
            raise ConfigError(
                "FrozenWeights has nothing to watch: every part trains. Remove it from output.callbacks, or freeze a part by leaving it "
                "out of optimizer.lr."
            )

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        now = {name: _digest(tensor) for name, tensor in frozen_tensors(pl_module)}
        changed = sorted(name for name, digest in self._digests.items() if now.get(name) != digest)
        if changed:
            more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise TrainingError(
                f"{len(changed)} of {len(self._digests)} frozen tensors changed during training or are no longer frozen: "
                f"{', '.join(changed[:5])}{more}. The finished model is not saved. Find what writes to them (a callback, or a layer that "
                "updates its buffers in train mode)."
            )


def frozen_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and value of each tensor that training must leave as it is."""
    for prefix, part in module.named_modules():
        own = dict(part.named_parameters(recurse=False))
        tensors: dict[str, Tensor] = {name: p for name, p in own.items() if not p.requires_grad}
        if len(tensors) == len(own):
            tensors |= dict(part.named_buffers(recurse=False))
        for name, tensor in tensors.items():
            yield f"{prefix}.{name}" if prefix else name, tensor


def _digest(tensor: Tensor) -> str:
    """Return the SHA-256 of type, shape and bytes."""
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
