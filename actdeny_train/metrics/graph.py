"""Accuracy on questions about the CausalAct graph, per kind and per group of kinds (paper 1, section 4.2)."""

from collections.abc import Iterable
from dataclasses import dataclass

from actdeny_train.metrics.accuracy import accuracy_by
from actdeny_train.metrics.bootstrap import NUM_DRAWS
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.types import Prediction

SETUP = "graph_vqa"
"""Setup of the predictions that count here; all others are passed over."""


@dataclass(frozen=True)
class GraphAccuracy:
    """Estimates by kind of question and by group of kinds. Kinds that were not asked have no entry."""

    kinds: dict[str, Estimate]
    groups: dict[str, Estimate]


def graph_accuracy(predictions: Iterable[Prediction], *, num_draws: int = NUM_DRAWS, seed: int = 0) -> GraphAccuracy:
    """Return the accuracy of each kind and group among the graph questions, over all prompts."""
    asked = [p for p in predictions if p.setup == SETUP]
    return GraphAccuracy(
        kinds=accuracy_by(asked, lambda p: p.kind, num_draws=num_draws, seed=seed),
        groups=accuracy_by(asked, lambda p: p.group, num_draws=num_draws, seed=seed),
    )
