"""The causal graph behind an action: which components of a scene bring about which others (paper 1, section 4.1)."""

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx

from actdeny_train.errors import ConfigError
from actdeny_train.types import NODES

NODE_NAMES = dict(
    zip(NODES, ("Persons", "Objects", "Location", "Spatial Relation", "Interaction", "Motion", "Action"), strict=True)
)
"""What each node letter stands for."""

ACTION = "A"
"""The node that every graph ends at."""

Edge = tuple[str, str]


@dataclass(frozen=True)
class CausalGraph:
    """A directed acyclic graph over component letters, ending at the action.

    ``nodes`` are letters of ``NODES`` in that order. ``edges`` are (cause, effect) pairs; their order is the order in which
    the prompt lists them. Every node has an edge; the action has causes and no effects. Raises ConfigError otherwise.
    """

    name: str
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        if self.nodes != tuple(node for node in NODES if node in self.nodes):
            raise self._error(
                f"got nodes {', '.join(self.nodes)}; allowed are {', '.join(NODES)}, each at most once, in this order"
            )
        unknown = [edge for edge in self.edges if not set(edge) <= set(self.nodes)]
        if unknown:
            raise self._error(f"edge {arrow(*unknown[0])} leaves the nodes {', '.join(self.nodes)}")
        if len(set(self.edges)) < len(self.edges):
            raise self._error("an edge is listed twice")
        if not nx.is_directed_acyclic_graph(self.digraph):
            cycle = [cause for cause, _ in nx.find_cycle(self.digraph)]
            raise self._error(f"{arrow(*cycle, cycle[0])} is a cycle, but causes must come before effects")
        isolated = [node for node in self.nodes if not self.digraph.degree(node)]
        if isolated:
            raise self._error(f"node {isolated[0]} has no edge; give it one or leave it out")
        if ACTION not in self.nodes or self.children(ACTION):
            raise self._error("it must end at the action A, which may not be the cause of another node")

    def _error(self, problem: str) -> ConfigError:
        return ConfigError(f"Causal graph {self.name!r}: {problem}. Correct its nodes and edges.")

    @functools.cached_property
    def digraph(self) -> nx.DiGraph:
        """The same graph for networkx's algorithms; frozen."""
        digraph = nx.DiGraph()
        digraph.add_nodes_from(self.nodes)
        digraph.add_edges_from(self.edges)
        return nx.freeze(digraph)

    def parents(self, node: str) -> tuple[str, ...]:
        """Return the direct causes of ``node``, in node order."""
        return self._ordered(self.digraph.predecessors(node))

    def children(self, node: str) -> tuple[str, ...]:
        """Return the direct effects of ``node``, in node order."""
        return self._ordered(self.digraph.successors(node))

    def ancestors(self, node: str) -> tuple[str, ...]:
        """Return all direct and indirect causes of ``node``, in node order."""
        return self._ordered(nx.ancestors(self.digraph, node))

    def paths(self, start: str, end: str) -> tuple[tuple[str, ...], ...]:
        """Return every directed path of at least one edge, as node letters; shorter first, then by letters."""
        return self._all_paths[start, end] if start != end else ()

    @functools.cached_property
    def _all_paths(self) -> dict[Edge, tuple[tuple[str, ...], ...]]:
        paths = {}
        for start, end in itertools.permutations(self.nodes, 2):
            found = map(tuple, nx.all_simple_paths(self.digraph, start, end))
            paths[start, end] = tuple(sorted(found, key=lambda path: (len(path), path)))
        return paths

    def is_path(self, sequence: tuple[str, ...]) -> bool:
        """Return whether every step of ``sequence`` (at least one) is an edge."""
        return len(sequence) > 1 and all(self.digraph.has_edge(*step) for step in itertools.pairwise(sequence))

    def _ordered(self, nodes: Iterable[str]) -> tuple[str, ...]:
        kept = set(nodes)
        return tuple(node for node in self.nodes if node in kept)


def arrow(*nodes: str) -> str:
    """Return letters joined as an edge or a path, e.g. "P→I→A"."""
    return "→".join(nodes)
