"""Kinds 10 and 11: chains of causes and effects (paper 1, section 9.3)."""

from itertools import permutations

from actdeny_train.causal.graph import CausalGraph, arrow
from actdeny_train.draw import Draw
from actdeny_train.questions.graph_vqa.asked import NONE, Asked, ask_open, ask_yes_no, named

Chain = tuple[str, ...]


def list_paths(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask for every path from one node to another; a quarter of the questions are about a pair without any."""
    pairs = list(permutations(graph.nodes, 2))
    asks_none = draw.integer(4) == 0
    start, end = draw.choice([pair for pair in pairs if bool(graph.paths(*pair)) != asks_none])
    paths = list(graph.paths(start, end))
    middles = [node for node in graph.nodes if node not in (start, end)]
    false = [path for path in [(start, end), *((start, node, end) for node in middles)] if not graph.is_path(path)]
    wrong = [[other for other in paths if other != path] for path in paths]
    wrong += [[path] for path in false] + [sorted([*paths, path], key=_order) for path in false]
    answers = [_answer(each) for each in wrong] + [NONE]
    return ask_open("list_paths", _answer(paths), answers, draw, start=named(start), end=named(end))


def path_validity(graph: CausalGraph, draw: Draw) -> Asked:
    """Ask whether a sequence of at least three nodes is a path; half are.

    The others are stitched (a node of a path exchanged for one that does not connect) or cyclic (a path that goes back to its
    start), each equally likely.
    """
    truth = draw.integer(2) == 0
    paths = chains(graph)
    families = [family for family in (_stitched(graph, paths), _cyclic(paths)) if family]
    path = draw.choice(paths if truth else draw.choice(families))
    return ask_yes_no("path_validity", truth, draw, path=arrow(*path))


def chains(graph: CausalGraph) -> list[Chain]:
    """Return all paths of at least two edges."""
    return [path for pair in permutations(graph.nodes, 2) for path in graph.paths(*pair) if len(path) > 2]


def _stitched(graph: CausalGraph, paths: list[Chain]) -> list[Chain]:
    stitched = {
        (*path[:i], node, *path[i + 1 :])
        for path in paths
        for i in range(len(path))
        for node in graph.nodes
        if node not in path
    }
    return sorted(path for path in stitched if not graph.is_path(path))


def _cyclic(paths: list[Chain]) -> list[Chain]:
    return [(*path, path[0]) for path in paths]


def _answer(paths: list[Chain]) -> str:
    return "; ".join(arrow(*path) for path in paths) or NONE


def _order(path: Chain) -> tuple[int, Chain]:
    return len(path), path
