"""Accuracy per label and per kind of graph question."""

from collections.abc import Callable

from actdeny_train.metrics.accuracy import accuracy
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.metrics.graph import graph_accuracy
from actdeny_train.types import Prediction


def test_kinds_and_groups(predict: Callable[..., Prediction], twelve: list[Prediction]) -> None:
    # node_count: right, wrong; edge_count: right, unparsed, right; is_path: wrong.
    rows: list[tuple[str, str, int | None, str]] = [
        ("node_count", "structure", 1, "a"),
        ("node_count", "structure", 0, "b"),
        ("edge_count", "structure", 1, "a"),
        ("edge_count", "structure", None, "b"),
        ("edge_count", "structure", 1, "b"),
        ("is_path", "paths", 2, "a"),
    ]
    asked = [
        predict(kind, choice, target=1, group=group, source=source, setup="graph_vqa")
        for kind, group, choice, source in rows
    ]
    found = graph_accuracy([*twelve, *asked])
    assert {kind: (e.value, e.n) for kind, e in found.kinds.items()} == {
        "edge_count": (2 / 3, 3),
        "is_path": (0.0, 1),
        "node_count": (0.5, 2),
    }
    assert {group: (e.value, e.n) for group, e in found.groups.items()} == {"paths": (0.0, 1), "structure": (0.6, 5)}
    assert found.kinds["is_path"].reason == "no interval: it needs clips from at least 2 sources"
    assert (found.kinds["node_count"].low, found.kinds["node_count"].high) == (0.0, 1.0)


def test_no_graph_questions(twelve: list[Prediction]) -> None:
    found = graph_accuracy(twelve)
    assert found.kinds == found.groups == {}
    assert accuracy([]) == Estimate(None, None, None, 0, "no questions")
