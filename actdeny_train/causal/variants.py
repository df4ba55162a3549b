"""The full CausalAct graph and the variants of the paper's ablations (paper 1, section 4.3)."""

from actdeny_train.causal.graph import ACTION, CausalGraph, Edge
from actdeny_train.draw import Draw
from actdeny_train.types import NODES

FULL_EDGES: tuple[Edge, ...] = (
    ("P", "I"), ("O", "I"), ("P", "S"), ("O", "S"), ("L", "S"), ("I", "M"), ("M", "A"), ("I", "A"),
)  # fmt: skip
"""Edges in the order of the paper's prompt."""


def full() -> CausalGraph:
    """Return the graph of the paper: 7 nodes, 8 edges."""
    return CausalGraph("full", NODES, FULL_EDGES)


def pruned() -> CausalGraph:
    """Return persons, objects, interaction and action only, with the edges that the full graph has among them."""
    nodes = ("P", "O", "I", "A")
    return CausalGraph("pruned", nodes, tuple(edge for edge in FULL_EDGES if set(edge) <= set(nodes)))


def person_only() -> CausalGraph:
    """Return the graph for actions of body and place alone: no objects, no interaction."""
    # What is left of the full graph's edges is P→S, L→S and M→A ("reasoning may proceed directly from motion to action").
    # Motion needs a cause: the full graph's P→I→M becomes P→M when I is taken out. P→I→A does not become P→A, because the
    # graph is there to forbid concluding the action from context; S→M is not added, because S has no effects in the full graph.
    return CausalGraph("person_only", ("P", "L", "S", "M", "A"), (("P", "S"), ("L", "S"), ("P", "M"), ("M", "A")))


def random(seed: int) -> CausalGraph:
    """Return all nodes under 8 shuffled edges, still acyclic and ending at the action; ``seed`` decides which.

    It never has the full graph's edges. The action keeps a cause among S, I and M, the components that tell a clip with the
    action from one without, so that the prompt's examples can still conclude.
    """
    draw = Draw("random causal graph", seed)
    while True:
        order = [*draw.shuffle([node for node in NODES if node != ACTION]), ACTION]
        forward = [(cause, effect) for i, cause in enumerate(order) for effect in order[i + 1 :]]
        edges = draw.sample(forward, len(FULL_EDGES))
        connected = {node for edge in edges for node in edge}
        concludes = any((cause, ACTION) in edges for cause in ("S", "I", "M"))
        if connected == set(NODES) and concludes and set(edges) != set(FULL_EDGES):
            edges.sort(key=lambda edge: (order.index(edge[1]), NODES.index(edge[0])))
            return CausalGraph(f"random_{seed}", NODES, tuple(edges))
