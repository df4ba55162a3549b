from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.causal.variants import FULL_EDGES, full, person_only, pruned, random
from actdeny_train.types import NODES


def test_full() -> None:
    assert full().nodes == NODES and full().edges == FULL_EDGES and len(set(FULL_EDGES)) == 8


def test_pruned_keeps_the_edges_among_its_nodes() -> None:
    assert pruned().nodes == ("P", "O", "I", "A")
    assert pruned().edges == (("P", "I"), ("O", "I"), ("I", "A"))


def test_person_only_has_no_objects_and_concludes_from_motion() -> None:
    graph = person_only()
    assert graph.nodes == ("P", "L", "S", "M", "A")
    assert graph.parents("A") == ("M",) and graph.parents("M") == ("P",) and graph.parents("S") == ("P", "L")


@settings(max_examples=200)
@given(seed=st.integers(0, 2**31))
def test_random_shuffles_the_edges_of_all_nodes(seed: int) -> None:
    graph = random(seed)
    assert graph.nodes == NODES and len(set(graph.edges)) == 8 and set(graph.edges) != set(FULL_EDGES)
    remaining = set(graph.edges)
    while roots := {cause for cause, _ in remaining} - {effect for _, effect in remaining}:
        remaining = {edge for edge in remaining if edge[0] not in roots}
    assert not remaining, f"cycle among {remaining}"
    assert graph.children("A") == () and set(graph.parents("A")) & {"S", "I", "M"}
    assert random(seed) == graph and graph.name == f"random_{seed}"


def test_random_seeds_differ_and_never_drift() -> None:
    assert len({random(seed).edges for seed in range(50)}) == 50
    assert ["".join(edge) for edge in random(3).edges] == ["SP", "SL", "LM", "SM", "MI", "PA", "OA", "IA"]
