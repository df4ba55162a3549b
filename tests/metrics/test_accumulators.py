"""States of accumulators in one process."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.metrics.abstention import AbstentionMetrics
from actdeny_train.metrics.accumulators import sort_rows
from actdeny_train.metrics.sycophancy import SycophancyMetrics
from actdeny_train.types import Prediction


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)), max_size=12))
@settings(deadline=None)
def test_rows_are_sorted_as_tuples_are(rows: list[tuple[int, int, int]]) -> None:
    found = sort_rows(np.array(rows, dtype=np.int64).reshape(-1, 3))
    assert [tuple(row) for row in found.tolist()] == sorted(rows)


@pytest.mark.filterwarnings("ignore:.*was called before the ``update`` method.*")
def test_nothing_and_reset(twelve_scored: list[Prediction], twelve_yes_no: list[Prediction]) -> None:
    for metric, predictions in ((AbstentionMetrics(), twelve_scored), (SycophancyMetrics(), twelve_yes_no)):
        nothing = metric.compute()
        metric.update(predictions)
        told = metric.compute()
        metric.reset()
        metric.update([])
        assert metric.compute() == nothing != told
    assert nothing["yes_primary"]["reason"] == "no yes_no_primary questions about denial clips"


def test_batches_in_another_order_give_the_same_to_the_last_bit(twelve_scored: list[Prediction]) -> None:
    one, other = AbstentionMetrics(), AbstentionMetrics()
    one.update(twelve_scored)
    for prediction in reversed(twelve_scored):
        other.update([prediction])
    assert one.compute() == other.compute()
