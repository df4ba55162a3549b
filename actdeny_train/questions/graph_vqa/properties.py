"""Kinds 12 to 14: what a clip shows of the nodes, held against the graph (paper 1, section 9.3).

``phrases`` maps the nodes whose phrase is known about a clip to it; the action never has one.
"""

from collections.abc import Mapping
from itertools import permutations

from actdeny_train.causal.graph import NODE_NAMES, CausalGraph
from actdeny_train.draw import Draw
from actdeny_train.questions.graph_vqa.asked import Asked, absentees, ask_open, ask_yes_no, named

NUM_CANDIDATES = 4
"""Components that an antecedent question offers."""


def inconsistent_component(phrases: Mapping[str, str], swapped: str, foreign: str, draw: Draw) -> Asked:
    """Ask which component does not fit, where ``foreign`` stands instead of the phrase of node ``swapped``."""
    lines = _lines([*phrases], {**phrases, swapped: foreign})
    return ask_open("inconsistent_component", swapped, phrases, draw, lines)


def antecedent(graph: CausalGraph, phrases: Mapping[str, str], draw: Draw) -> Asked:
    """Ask for the one of several components that an observed component requires: a parent of it.

    The wrong ones are no ancestors of it. Links with at least one known phrase are asked about; a component without one is
    named only.
    """
    earlier, later = draw.choice([edge for edge in graph.edges if not phrases.keys().isdisjoint(edge)])
    causes = {*graph.ancestors(later), later}
    others = [node for node in graph.nodes if node not in causes]
    distractors = [node for node in absentees(graph) if node not in NODE_NAMES]
    wrong = (draw.shuffle(others) + draw.shuffle(distractors))[: NUM_CANDIDATES - 1]
    lines = _lines(draw.shuffle([earlier, *wrong]), phrases)
    return ask_open("antecedent", earlier, wrong, draw, lines, later=_mention(later, phrases))


def reverse_causality(graph: CausalGraph, phrases: Mapping[str, str], draw: Draw) -> Asked:
    """Ask whether a component can be influenced by a later one, with at least one known phrase. In an acyclic graph: no."""
    pairs = [(x, y) for x, y in permutations(graph.nodes, 2) if x in graph.ancestors(y)]
    earlier, later = draw.choice([pair for pair in pairs if not phrases.keys().isdisjoint(pair)])
    words = {"earlier": _mention(earlier, phrases), "later": _mention(later, phrases)}
    return ask_yes_no("reverse_causality", False, draw, **words)


def _lines(nodes: list[str], phrases: Mapping[str, str]) -> list[str]:
    return [f"- {named(node)}" + (f": {phrases[node]}" if node in phrases else "") for node in nodes]


def _mention(node: str, phrases: Mapping[str, str]) -> str:
    name = f"the {NODE_NAMES[node].lower()} ({node})"
    return f'{name} "{phrases[node]}"' if node in phrases else name
