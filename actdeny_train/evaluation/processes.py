"""Several processes that share one evaluation (``torchrun``): who this one is, and waiting for the others."""

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from actdeny_train.errors import DataError

PATIENCE = datetime.timedelta(days=7)
"""How long the first process to finish waits for the last one: their shares of clips take differently long."""


@dataclass(frozen=True)
class Processes:
    """``rank`` in [0, ``world_size``); ``local_rank`` counts within the machine and names the CUDA device."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0

    def wait(self) -> None:
        """Return when all processes are here. Raises DataError if one of them has ended."""
        if self.world_size == 1:
            return
        try:
            # A reduction on the CPU: gloo's, so that no collective of nccl has to wait for days.
            dist.all_reduce(torch.zeros(1))
        except RuntimeError:
            raise DataError(
                f"Process {self.rank} of {self.world_size} stops because another one has ended; its own error says why. What is "
                "answered is kept: start the evaluation again to go on."
            ) from None


@contextmanager
def join_processes() -> Iterator[Processes]:
    """Join the processes that ``torchrun`` started (its variables RANK, WORLD_SIZE, LOCAL_RANK), or be the only one."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        yield Processes()
        return
    ours = not dist.is_initialized()
    if ours:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
    try:
        yield Processes(dist.get_rank(), world_size, int(os.environ.get("LOCAL_RANK", "0")))
    finally:
        if ours:
            dist.destroy_process_group()
