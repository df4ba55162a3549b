"""DenialAccuracy over two processes, one of which has no clips."""

from pathlib import Path

import pytest
import torch
import torch.distributed
import torch.multiprocessing

from actdeny_train.metrics.denial import DenialAccuracy, denial_accuracy
from actdeny_train.types import Prediction

NUM_PROCESSES = 2


def compute_on_rank(rank: int, folder: Path, predictions: list[Prediction]) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'rendezvous'}", rank=rank, world_size=NUM_PROCESSES
    )
    metric = DenialAccuracy()
    metric.update(predictions if rank == 0 else [])
    torch.save(metric.compute(), folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_an_empty_process_changes_nothing(tmp_path: Path, twelve: list[Prediction]) -> None:
    torch.multiprocessing.spawn(compute_on_rank, args=(tmp_path, twelve), nprocs=NUM_PROCESSES)
    expected = {name: estimate.to_json() for name, estimate in denial_accuracy(twelve).items()}
    statuses = {"unparsed": 1, "refusal": 0, "truncated": 0, "error": 0}
    for rank in range(NUM_PROCESSES):
        assert torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) == {**expected, **statuses}
