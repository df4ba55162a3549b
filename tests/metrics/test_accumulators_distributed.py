"""All accumulators over two processes: one without predictions, one that was never told of any, and both with a part."""

import dataclasses
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
import torch.multiprocessing
import torchmetrics

from actdeny_train.metrics.abstention import AbstentionMetrics
from actdeny_train.metrics.agreement import Agreement
from actdeny_train.metrics.answers import AnswersBySide
from actdeny_train.metrics.classes import ClassAccuracy
from actdeny_train.metrics.detection import Detection
from actdeny_train.metrics.pairs import PairAccuracy
from actdeny_train.metrics.positions import Positions
from actdeny_train.metrics.strict import StrictDenial
from actdeny_train.metrics.summary import summarise
from actdeny_train.metrics.sycophancy import SycophancyMetrics
from actdeny_train.types import Prediction

NUM_PROCESSES = 2
ACTIONS = ("Archery", "Fencing")
CELL = ("abstention", "agreement", "answers", "by_class", "pair", "positions", "positions_none", "strict")
"""Metrics of the standard setup; the others take all setups."""


def accumulators() -> dict[str, torchmetrics.Metric]:
    return {
        "abstention": AbstentionMetrics(),
        "agreement": Agreement(),
        "answers": AnswersBySide(),
        "by_class": ClassAccuracy(ACTIONS),
        "pair": PairAccuracy(ACTIONS),
        "positions": Positions(4),
        "positions_none": Positions(4, only_none=True),
        "strict": StrictDenial(),
        "detection": Detection(),
        "sycophancy": SycophancyMetrics(),
    }


def share(how: str, rank: int, predictions: list[Prediction]) -> list[Prediction] | None:
    """Return what a process is told: None means that it is never told anything."""
    if how == "parts":
        return predictions[1 - rank :: NUM_PROCESSES]
    return predictions if rank == 0 else [] if how == "empty" else None


def compute_on_rank(rank: int, folder: Path, predictions: list[Prediction]) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'rendezvous'}", rank=rank, world_size=NUM_PROCESSES
    )
    found: dict[str, Any] = {}
    for how in ("empty", "never", "parts"):
        for name, metric in accumulators().items():
            told = share(how, rank, predictions)
            if told is not None:
                metric.update([p for p in told if name not in CELL or p.setup == "standard"])
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*was called before the ``update`` method.*")
                found[f"{how} {name}"] = metric.compute()
            if told is not None:
                # Synchronising leaves the state of this process as it was: another round gives the same.
                metric.update([])
                assert metric.compute() == found[f"{how} {name}"]
            else:
                metric._computed = None
                assert metric.compute() == found[f"{how} {name}"]
    (folder / f"rank{rank}.json").write_text(json.dumps(found, allow_nan=False))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_processes_change_nothing(
    tmp_path: Path,
    twelve_scored: list[Prediction],
    twelve_yes_no: list[Prediction],
    without_intervals: Callable[[Any], Any],
) -> None:
    judged = [dataclasses.replace(p, text="...", bare=i % 3 > 0) for i, p in enumerate(twelve_scored)]
    predictions = [*judged, *twelve_yes_no]
    torch.multiprocessing.spawn(compute_on_rank, args=(tmp_path, predictions), nprocs=NUM_PROCESSES)
    summary = summarise(predictions, num_draws=5)
    cell = summary["setups"]["standard"]["plain"]
    expected = without_intervals(
        {
            **{
                name: cell[name] for name in ("abstention", "by_class", "pair", "positions", "positions_none", "strict")
            },
            "agreement": {name: cell[name] for name in ("agreement", "score_accuracy")},
            "answers": {side: cell[f"answers_on_{side}"] for side in ("denial", "presence")},
            "detection": summary["detection"]["plain"],
            "sycophancy": summary["sycophancy"]["plain"],
        }
    )
    for rank in range(NUM_PROCESSES):
        found = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert found == {f"{how} {name}": expected[name] for how in ("empty", "never", "parts") for name in expected}
