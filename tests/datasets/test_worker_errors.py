"""A user's error crosses the border of a data worker as it was raised; any other keeps PyTorch's way."""

import pytest
from torch.utils.data import DataLoader, Dataset

from actdeny_train.datasets.worker_errors import ErrorsAsItems, unwrap
from actdeny_train.errors import DataError


class Three(Dataset[int]):
    """0, an error that a user can mend, and an error of ours."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> int:
        if i == 1:
            raise DataError("video 'a.mp4' is empty (0 bytes). Copy or download it again.")
        if i == 2:
            raise ZeroDivisionError("a bug")
        return i


def test_a_users_error_comes_out_of_a_worker_word_for_word() -> None:
    guarded = ErrorsAsItems(Three())
    assert len(guarded) == 3
    loader = DataLoader(guarded, batch_size=None, sampler=[0, 1], num_workers=1, multiprocessing_context="spawn")
    first, second = loader
    assert unwrap(first) == 0
    with pytest.raises(DataError) as caught:
        unwrap(second)
    assert str(caught.value) == "video 'a.mp4' is empty (0 bytes). Copy or download it again."


def test_another_error_is_not_held_back() -> None:
    with pytest.raises(ZeroDivisionError, match="a bug"):
        ErrorsAsItems(Three())[2]
