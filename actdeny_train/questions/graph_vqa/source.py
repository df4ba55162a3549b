"""The source of graph questions: 14 kinds, asked in turn about every clip (paper 1, sections 4.1 and 9.3)."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from actdeny_train.actions.labels import LabelSet
from actdeny_train.actions.leak import leaks
from actdeny_train.causal.graph import CausalGraph
from actdeny_train.causal.variants import full
from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError, DataError, near_misses
from actdeny_train.questions.graph_vqa import paths, properties, relations, structure
from actdeny_train.questions.graph_vqa.asked import Asked
from actdeny_train.types import Clip, ClipKind, Question

ABOUT_GRAPH: Mapping[str, Callable[[CausalGraph, Draw], Asked]] = {
    "node_count": structure.node_count,
    "node_membership": structure.node_membership,
    "node_selection": structure.node_selection,
    "edge_count": structure.edge_count,
    "edge_validity": structure.edge_validity,
    "edge_selection": structure.edge_selection,
    "list_relatives": relations.list_relatives,
    "count_relatives": relations.count_relatives,
    "relation_validity": relations.relation_validity,
    "list_paths": paths.list_paths,
    "path_validity": paths.path_validity,
}
"""Kinds that ask about the graph alone."""

GROUPS = {
    "structure": ("node_count", "node_membership", "node_selection", "edge_count", "edge_validity", "edge_selection"),
    "relations": ("list_relatives", "count_relatives", "relation_validity"),
    "paths": ("list_paths", "path_validity"),
    "properties": ("inconsistent_component", "antecedent", "reverse_causality"),
}
"""All 14 kinds by group, in the order of the paper."""

KINDS = {kind: group for group, kinds in GROUPS.items() for kind in kinds}
"""Group of each kind."""

CONTEXT = ("P", "O", "L")
"""Nodes that both types of denial clip share with each other."""


@dataclass(frozen=True)
class GraphQuestions:
    """Asks about the causal graph of actions, and about what a clip shows of its nodes. The action is never named.

    Question ``index`` of a clip is of kind ``kinds[(offset + index) % len(kinds)]`` with an offset drawn for the clip, so
    any ``len(kinds)`` indices in a row cover every kind once, and index 0 is evenly spread over clips.
    """

    graph: CausalGraph = field(default_factory=full)
    kinds: tuple[str, ...] | None = None
    """Kinds to ask; None for all that the graph allows (see ``allowed_kinds``)."""

    def __post_init__(self) -> None:
        if self.kinds is None:
            return
        allowed = allowed_kinds(self.graph)
        wrong = [kind for kind in self.kinds if kind not in allowed]
        if wrong or not self.kinds or len(set(self.kinds)) < len(self.kinds):
            problem = (
                f"kind {wrong[0]!r} cannot be asked.{near_misses(wrong[0], allowed)}"
                if wrong
                else "it is empty or repeats one."
            )
            raise ConfigError(
                f"kinds of GraphQuestions is {list(self.kinds)}: {problem} Graph {self.graph.name!r} allows "
                f"{', '.join(allowed)}. Name some of these, each once, or null for all."
            )

    @property
    def setup(self) -> str:
        return "graph_vqa"

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return question ``index``.

        Kinds of the group "properties" quote the clip's own components, else those of its action and kind. About a denial clip of
        unknown type only persons, objects and location are known; the other nodes are then named without a phrase. Raises
        DataError for an unknown action or missing components.
        """
        labels.check(clip.action, f"clip {clip.id!r}")
        kinds = self._kinds
        offset = Draw(seed, clip.id, self.setup, "kinds").integer(len(kinds))
        kind = kinds[(offset + index) % len(kinds)]
        draw = Draw(seed, clip.id, self.setup, self.graph.name, index)
        asked = (
            ABOUT_GRAPH[kind](self.graph, draw) if kind in ABOUT_GRAPH else self._ask_property(kind, clip, labels, draw)
        )
        return Question(
            id=f"{clip.id}|{self.setup}:{self.graph.name}|{index}",
            clip_ids=(clip.id,),
            setup=self.setup,
            prompt="plain",
            text=asked.text,
            choices=asked.answers,
            answers=asked.answers,
            target=asked.target,
            kind=kind,
            group=KINDS[kind],
        )

    @functools.cached_property
    def _kinds(self) -> tuple[str, ...]:
        return allowed_kinds(self.graph) if self.kinds is None else self.kinds

    def _ask_property(self, kind: str, clip: Clip, labels: LabelSet, draw: Draw) -> Asked:
        phrases = known_phrases(self.graph, clip, labels)
        if kind == "antecedent":
            return properties.antecedent(self.graph, phrases, draw)
        if kind == "reverse_causality":
            return properties.reverse_causality(self.graph, phrases, draw)
        swapped, foreign = _draw_swap(phrases, clip, labels, draw)
        return properties.inconsistent_component(phrases, swapped, foreign, draw)


def allowed_kinds(graph: CausalGraph) -> tuple[str, ...]:
    """Return the kinds that can be asked about ``graph``, in the order of the paper.

    Left out are "path_validity" where no path has two edges, the kinds of "properties" where the graph has none of P, O and L (the
    only nodes known about every clip), and "inconsistent_component" where it has only one of them.
    """
    impossible = set()
    if not paths.chains(graph):
        impossible.add("path_validity")
    known = [node for node in graph.nodes if node in CONTEXT]
    if not known:
        impossible.update(GROUPS["properties"])
    if len(known) < 2:
        impossible.add("inconsistent_component")
    return tuple(kind for kind in KINDS if kind not in impossible)


def known_phrases(graph: CausalGraph, clip: Clip, labels: LabelSet) -> dict[str, str]:
    """Return what is known about the clip: a phrase for nodes of ``graph``, in node order."""
    nodes = [node for node in graph.nodes if node != "A"]
    components = clip.components
    if components is None and clip.kind is ClipKind.DENIAL:
        nodes = [node for node in nodes if node in CONTEXT]
        components = labels.components_of(clip.action, ClipKind.CONTEXT_ONLY)
    elif components is None:
        components = labels.components_of(clip.action, clip.kind)
    return {node: components.of(node) for node in nodes}


def _draw_swap(phrases: Mapping[str, str], clip: Clip, labels: LabelSet, draw: Draw) -> tuple[str, str]:
    """Return a node and another action's phrase for it. Persons are never swapped: they look alike in most videos."""
    node = draw.choice([node for node in phrases if node != "P"])
    for action in draw.shuffle(labels.unrelated(clip.action)):
        foreign = labels.components_of(action, ClipKind.PRESENCE).of(node)
        if foreign != phrases[node] and not leaks(foreign, clip.action, labels):
            return node, foreign
    raise DataError(
        f"Clip {clip.id!r}: no action unrelated to {clip.action!r} in label set {labels.name!r} has another phrase "
        f"for node {node} that does not tell the action. "
        "Use a label set with more actions, or leave the kind 'inconsistent_component' out of kinds."
    )
