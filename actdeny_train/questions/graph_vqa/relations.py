"""Kinds 7 to 9: direct causes and effects, called parents and children (paper 1, section 9.3)."""

from actdeny_train.causal.graph import CausalGraph
from actdeny_train.draw import Draw
from actdeny_train.questions.graph_vqa.asked import Asked, ask_count, ask_open, ask_yes_no, listed, named, near_sets
from actdeny_train.questions.graph_vqa.structure import draw_false_edges

PARENT, CHILD = (
    {"relative": "parent", "relatives": "parents", "effect": "direct cause", "effects": "direct causes"},
    {"relative": "child", "relatives": "children", "effect": "direct effect", "effects": "direct effects"},
)


def list_relatives(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask for all parents or children of a node; a quarter of the questions have "none" as answer."""
    asks_none = draw.integer(4) == 0
    relation, node, relatives = draw.choice([case for case in _cases(graph) if bool(case[2]) != asks_none])
    others = sorted(other for other in graph.nodes if other != node)
    words = {**relation, "node": named(node)}
    return ask_open("list_relatives", listed(sorted(relatives)), near_sets(relatives, others), draw, **words)


def count_relatives(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask for the number of parents or children of a node."""
    relation, node, relatives = draw.choice(_cases(graph))
    return ask_count("count_relatives", len(relatives), draw, node=named(node), **relation)


def relation_validity(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask whether one node is a parent or child of another; half are, a quarter are it the other way round, a quarter neither."""
    truth = draw.integer(2) == 0
    cause, effect = draw.choice(graph.edges if truth else draw_false_edges(graph, draw))
    relation, node, other = draw.choice([(PARENT, cause, effect), (CHILD, effect, cause)])
    return ask_yes_no("relation_validity", truth, draw, node=named(node), other=named(other), **relation)


def _cases(graph: CausalGraph) -> list[tuple[dict[str, str], str, tuple[str, ...]]]:
    cases = [(PARENT, node, graph.parents(node)) for node in graph.nodes]
    return cases + [(CHILD, node, graph.children(node)) for node in graph.nodes]
