"""Errors of data workers that reach the user as they were raised."""

from typing import Any

from torch.utils.data import Dataset

from actdeny_train.errors import ActdenyError


class ErrorsAsItems(Dataset[Any]):
    """Gives the items of ``dataset``, or the ActdenyError that making one raised.

    An error that leaves a worker by itself comes with the worker's traceback as its text, and a user is owed one paragraph.
    """

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, i: int) -> Any:
        try:
            return self.dataset[i]
        except ActdenyError as error:
            return error


def unwrap(item: Any) -> Any:
    """Return the item; raise it if it is an error."""
    if isinstance(item, ActdenyError):
        raise item
    return item
