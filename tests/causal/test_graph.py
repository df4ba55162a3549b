from itertools import pairwise, permutations, product

import pytest

from actdeny_train.causal.graph import NODE_NAMES, CausalGraph, arrow
from actdeny_train.causal.variants import full, person_only, pruned, random
from actdeny_train.errors import ConfigError
from actdeny_train.types import NODES

GRAPHS = [full(), pruned(), person_only(), *(random(seed) for seed in range(5))]


def paths_by_force(graph: CausalGraph, start: str, end: str) -> set[tuple[str, ...]]:
    """Every sequence of distinct nodes whose steps are edges, found by trying all sequences."""
    inner = [node for node in graph.nodes if node not in (start, end)]
    sequences = ((start, *middle, end) for length in range(len(inner) + 1) for middle in permutations(inner, length))
    return {path for path in sequences if all(step in graph.edges for step in pairwise(path))}


def test_every_node_has_a_name() -> None:
    assert tuple(NODE_NAMES) == NODES


def test_full_graph_as_in_the_paper() -> None:
    graph = full()
    assert (
        graph.parents("I") == ("P", "O") and graph.parents("S") == ("P", "O", "L") and graph.parents("A") == ("I", "M")
    )
    assert graph.children("P") == ("S", "I") and graph.children("S") == () and graph.parents("L") == ()
    assert graph.ancestors("M") == ("P", "O", "I")
    assert graph.paths("P", "A") == (("P", "I", "A"), ("P", "I", "M", "A"))
    assert graph.paths("A", "P") == () and graph.paths("P", "P") == ()


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_paths_are_all_paths(graph: CausalGraph) -> None:
    for start, end in permutations(graph.nodes, 2):
        paths = graph.paths(start, end)
        assert len(paths) == len(set(paths)) and set(paths) == paths_by_force(graph, start, end)
        assert list(paths) == sorted(paths, key=lambda path: (len(path), path))
        assert (start in graph.ancestors(end)) == bool(paths)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_is_path_of_every_short_sequence(graph: CausalGraph) -> None:
    for length in (1, 2, 3):
        for sequence in product(graph.nodes, repeat=length):
            right = length > 1 and all(step in graph.edges for step in pairwise(sequence))
            assert graph.is_path(sequence) == right


def test_equal_graphs_are_equal_and_the_networkx_graph_cannot_be_changed() -> None:
    assert full() == full() and hash(full()) == hash(full()) and full() != pruned()
    with pytest.raises(Exception, match="Frozen graph"):
        full().digraph.add_edge("A", "P")


def test_arrow() -> None:
    assert arrow("P", "I", "A") == "P→I→A"


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("PXA", ["PA"], "got nodes P, X, A; allowed are P, O, L, S, I, M, A, each at most once, in this order"),
        ("APO", ["PA"], "got nodes A, P, O; allowed are"),
        ("PA", ["PA", "OA"], "edge O→A leaves the nodes P, A"),
        ("PA", ["PA", "PA"], "an edge is listed twice"),
        ("PIMA", ["PI", "IM", "MI", "IA"], "is a cycle, but causes must come before effects"),
        ("PIA", ["PA"], "node I has no edge; give it one or leave it out"),
        ("PIA", ["PI", "AI"], "it must end at the action A"),
        ("PI", ["PI"], "it must end at the action A"),
    ],
)
def test_wrong_graphs(nodes: str, edges: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        CausalGraph("mine", tuple(nodes), tuple((edge[0], edge[1]) for edge in edges))
    assert str(error.value).startswith("Causal graph 'mine': ") and message in str(error.value)
    assert str(error.value).endswith("Correct its nodes and edges.")
