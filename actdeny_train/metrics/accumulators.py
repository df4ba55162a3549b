"""States of the metrics over batches and processes: counts that are summed, or rows of numbers that are gathered and sorted.

Neither the order of batches nor a process without predictions changes a value.
"""

import abc
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torchmetrics
from torchmetrics.utilities.data import dim_zero_cat

from actdeny_train.metrics.counts import Counts, count_by_source
from actdeny_train.types import Prediction

Row = TypeVar("Row", bound=Hashable)


class CountAccumulator(torchmetrics.Metric, abc.ABC, Generic[Row]):
    """Sum hits and trials (R, 2) of ``rows`` over batches and processes."""

    full_state_update = False
    counts: torch.Tensor

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self.rows = tuple(rows)
        self.add_state("counts", torch.zeros(len(self.rows), 2, dtype=torch.int64), dist_reduce_fx="sum")

    @abc.abstractmethod
    def marks(self, prediction: Prediction) -> Iterable[tuple[Row, bool]]:
        """Give (row, hit) for each row in which the prediction is a trial."""

    @abc.abstractmethod
    def compute(self) -> Any:
        """Return the metric of all predictions, as plain JSON values."""

    def update(self, predictions: Sequence[Prediction]) -> None:
        """Add the predictions of a batch. Raises DataError as ``marks`` does."""
        counts = count_by_source(predictions, self.rows, self.marks).sum(axis=0)
        self.counts += torch.from_numpy(counts).to(self.counts.device)

    def summed(self) -> Counts:
        """Return the counts (R, 2) of all predictions."""
        return self.counts.cpu().numpy()


class ItemAccumulator(torchmetrics.Metric, abc.ABC):
    """Gather one row of numbers (width,) of each prediction over batches and processes, for metrics that counts cannot hold."""

    full_state_update = False
    items: list[torch.Tensor] | torch.Tensor

    def __init__(self, width: int, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.width, self.item_dtype = width, dtype
        self.add_state("items", [], dist_reduce_fx="cat")

    @abc.abstractmethod
    def encode(self, predictions: Sequence[Prediction]) -> npt.NDArray[Any]:
        """Return the rows (M, width) of the predictions that count."""

    @abc.abstractmethod
    def compute(self) -> Any:
        """Return the metric of all predictions, as plain JSON values."""

    def update(self, predictions: Sequence[Prediction]) -> None:
        """Add the predictions of a batch. Raises DataError as ``encode`` does."""
        assert isinstance(self.items, list), "the state of a synchronised metric cannot be updated"
        rows = np.asarray(self.encode(predictions)).reshape(-1, self.width)
        self.items.append(torch.from_numpy(rows).to(device=self.device, dtype=self.item_dtype))

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Gather the rows of all processes."""
        # Without rows torchmetrics would gather a float32 vector from this process, which does not fit the others' matrices.
        if not len(self.items):
            self.items = [torch.zeros(0, self.width, dtype=self.item_dtype, device=self.device)]
        super().sync(*args, **kwargs)

    def gathered(self) -> npt.NDArray[Any]:
        """Return the rows (M, width) of all predictions, sorted: whose batch or process they came from leaves no trace."""
        items = self.items if isinstance(self.items, torch.Tensor) or self.items else torch.zeros(0, self.width)
        return sort_rows(dim_zero_cat(items).to(self.item_dtype).cpu().numpy())


def sort_rows(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows (M, W) in lexicographic order."""
    return rows[np.lexsort(rows.T[::-1])]
