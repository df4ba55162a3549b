"""Kinds 1 to 6: which nodes and edges does the graph have? (paper 1, section 9.3)"""

from itertools import permutations
from typing import TypeVar

from actdeny_train.causal.graph import CausalGraph, Edge, arrow
from actdeny_train.draw import Draw
from actdeny_train.questions.graph_vqa.asked import Asked, absentees, ask_count, ask_open, ask_yes_no, named, near_sets
from actdeny_train.questions.graph_vqa.asked import listed as as_answer

T = TypeVar("T")

MAX_RIGHT = 4
"""Most right items in a list to select from."""
NUM_ITEMS = 7
"""Items in a list to select from; fewer where a small graph has not as many."""


def node_count(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask for the number of nodes."""
    return ask_count("node_count", len(graph.nodes), draw)


def node_membership(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask whether a letter is a node; half are, half are attributes such as the viewpoint."""
    truth = draw.integer(2) == 0
    node = draw.choice(graph.nodes if truth else absentees(graph))
    return ask_yes_no("node_membership", truth, draw, node=named(node))


def node_selection(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask which of a mixed list are nodes."""
    right, wrong = _mix(graph.nodes, absentees(graph), draw)
    items = draw.shuffle(right + wrong)
    lines = [f"- {named(node)}" for node in items]
    return ask_open("node_selection", as_answer(sorted(right)), near_sets(right, sorted(items)), draw, lines)


def edge_count(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask for the number of directed edges."""
    return ask_count("edge_count", len(graph.edges), draw)


def edge_validity(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask whether a pair is an edge; half are, a quarter are reversed, a quarter join nodes without an edge."""
    truth = draw.integer(2) == 0
    cause, effect = draw.choice(graph.edges if truth else draw_false_edges(graph, draw))
    words = {"edge": arrow(cause, effect), "cause": named(cause), "effect": named(effect)}
    return ask_yes_no("edge_validity", truth, draw, **words)


def edge_selection(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask which of a numbered list are edges."""
    right, wrong = _mix(graph.edges, reversed_edges(graph) + absent_edges(graph), draw)
    items = draw.shuffle(right + wrong)
    numbers = [str(i) for i in range(1, len(items) + 1)]
    lines = [f"{number}. {arrow(*edge)}" for number, edge in zip(numbers, items, strict=True)]
    chosen = [number for number, edge in zip(numbers, items, strict=True) if edge in right]
    return ask_open("edge_selection", as_answer(chosen), near_sets(chosen, numbers), draw, lines)


def reversed_edges(graph: CausalGraph) -> tuple[Edge, ...]:
    """Return every edge turned round. In an acyclic graph none of them is an edge."""
    return tuple((effect, cause) for cause, effect in graph.edges)


def absent_edges(graph: CausalGraph) -> tuple[Edge, ...]:
    """Return every pair of nodes without an edge in either direction."""
    joined = {*graph.edges, *reversed_edges(graph)}
    return tuple(pair for pair in permutations(graph.nodes, 2) if pair not in joined)


def draw_false_edges(graph: CausalGraph, draw: Draw) -> tuple[Edge, ...]:
    """Return either the reversed or the absent edges, each equally likely where the graph has both."""
    families = [family for family in (reversed_edges(graph), absent_edges(graph)) if family]
    return draw.choice(families)


def _mix(real: tuple[T, ...], false: tuple[T, ...], draw: Draw) -> tuple[list[T], list[T]]:
    num_right = 1 + draw.integer(min(MAX_RIGHT, len(real)))
    return draw.sample(real, num_right), draw.sample(false, min(NUM_ITEMS - num_right, len(false)))
