"""Answers of every kind of graph question against an oracle that reads the question's text and tries all sequences of nodes."""

import re
from itertools import pairwise, permutations

import pytest

from actdeny_train.actions.labels import LabelSet
from actdeny_train.causal.graph import CausalGraph
from actdeny_train.causal.variants import full, person_only, pruned, random
from actdeny_train.draw import Draw
from actdeny_train.questions.graph_vqa import GraphQuestions
from actdeny_train.questions.graph_vqa.asked import DISTRACTORS, ask_count, listed, near_sets
from actdeny_train.questions.graph_vqa.source import KINDS
from actdeny_train.types import Clip, ClipKind, Components, Question

GRAPHS = [full(), pruned(), person_only(), random(0), random(3)]
FIELDS = dict(zip("POLSIM", ("persons", "objects", "location", "spatial", "interaction", "motion"), strict=True))
MINE, OTHER = (Components(**{field: f"{field} {name}" for field in FIELDS.values()}) for name in ("here", "elsewhere"))
LABELS = LabelSet(
    name="two",
    descriptions={
        "Yodel": "A person or group of people is yodelling.",
        "Vault": "A person or group of people is vaulting.",
    },
    components={"Vault": {ClipKind.PRESENCE: OTHER}},
    close={"Yodel": (), "Vault": ()},
    without_object=frozenset(),
    verbs={"Yodel": ("yodel",), "Vault": ("vault",)},
)


def ask(graph: CausalGraph, kind: str, num: int) -> list[Question]:
    source = GraphQuestions(graph=graph, kinds=(kind,))
    clip = Clip(
        id="c", path="c.mp4", action="Yodel", kind=ClipKind.PRESENCE, split="train", source="g", components=MINE
    )
    return [source.ask(clip, LABELS, seed=0, index=index) for index in range(num)]


def paths(graph: CausalGraph, start: str, end: str) -> list[str]:
    inner = [node for node in graph.nodes if node not in (start, end)]
    found = [
        "→".join((start, *middle, end))
        for length in range(len(inner) + 1)
        for middle in permutations(inner, length)
        if all(step in graph.edges for step in pairwise((start, *middle, end)))
    ]
    return sorted(found, key=lambda path: (len(path), path))


def relatives(graph: CausalGraph, node: str, text: str) -> list[str]:
    if re.search(r"parent|direct cause", text):
        return sorted(cause for cause, effect in graph.edges if effect == node)
    assert re.search(r"child|direct effect", text)
    return sorted(effect for cause, effect in graph.edges if cause == node)


def expected(graph: CausalGraph, kind: str, text: str) -> str:
    """Answer a question by reading its text, knowing only the lists of nodes and edges."""
    letters = re.findall(r"\b([A-Z]) \(", text)
    arrows = [tuple(sequence.split("→")) for sequence in re.findall(r"[A-Z](?:→[A-Z])+", text)]
    answer: bool | int | list[str]
    match kind:
        case "node_count":
            answer = len(graph.nodes)
        case "edge_count":
            answer = len(graph.edges)
        case "node_membership":
            answer = letters[0] in graph.nodes
        case "node_selection":
            answer = sorted(letter for letter in letters if letter in graph.nodes)
        case "edge_validity":
            answer = (arrows[0] if arrows else tuple(letters)) in graph.edges
        case "edge_selection":
            lines = re.findall(r"^(\d)\. ([A-Z])→([A-Z])$", text, flags=re.MULTILINE)
            assert len(lines) == len(arrows)
            answer = [number for number, cause, effect in lines if (cause, effect) in graph.edges]
        case "list_relatives":
            answer = relatives(graph, letters[0], text)
        case "count_relatives":
            answer = len(relatives(graph, letters[0], text))
        case "relation_validity":
            node, other = reversed(letters) if text.startswith("Does") else letters
            answer = node in relatives(graph, other, text)
        case "list_paths":
            return "; ".join(paths(graph, *letters)) or "none"
        case "path_validity":
            answer = all(step in graph.edges for step in pairwise(arrows[0]))
        case "reverse_causality":
            one, other = re.findall(r"\(([A-Z])\)", text)
            earlier, later = (one, other) if "influenced by" in text else (other, one)
            assert paths(graph, earlier, later)
            answer = bool(paths(graph, later, earlier))
        case "antecedent":
            later = re.findall(r"\(([A-Z])\)", text.split("\n")[0])[0]
            causes = [
                letter for letter in re.findall(r"^- ([A-Z]) ", text, flags=re.MULTILINE) if paths(graph, letter, later)
            ]
            assert len(causes) == 1 and (causes[0], later) in graph.edges
            return causes[0]
        case "inconsistent_component":
            shown = re.findall(r"^- ([A-Z]) \([A-Za-z ]+\): (.*)$", text, flags=re.MULTILINE)
            assert tuple(node for node, _ in shown) == graph.nodes[:-1]
            (swapped,) = [node for node, phrase in shown if phrase == f"{FIELDS[node]} elsewhere"]
            assert all(phrase == f"{FIELDS[node]} here" for node, phrase in shown if node != swapped)
            return swapped
        case _:
            raise AssertionError(kind)
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return str(answer) if isinstance(answer, int) else ", ".join(answer) or "none"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_answers_are_right(graph: CausalGraph, kind: str) -> None:
    for question in ask(graph, kind, 80):
        assert question.answers[question.target] == expected(graph, kind, question.text), question.text
        assert len(set(question.answers)) == len(question.answers)


@pytest.mark.parametrize("kind", ["node_selection", "list_relatives", "edge_selection", "list_paths"])
def test_open_answers_are_in_the_asked_form(kind: str) -> None:
    forms = {
        "node_selection": r"none|[A-Z](, [A-Z])*",
        "list_relatives": r"none|[A-Z](, [A-Z])*",
        "edge_selection": r"none|\d(, \d)*",
        "list_paths": r"none|[A-Z](→[A-Z])+(; [A-Z](→[A-Z])+)*",
    }
    for question in ask(full(), kind, 60):
        assert len(question.answers) == 5
        for answer in question.answers:
            assert re.fullmatch(forms[kind], answer), answer
            items = answer.split("; " if kind == "list_paths" else ", ")
            assert items == sorted(items, key=lambda item: (len(item), item))


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_selections_mix_right_and_wrong_items(graph: CausalGraph) -> None:
    for kind in ("node_selection", "edge_selection"):
        for question in ask(graph, kind, 60):
            items = question.text.split("\n")[1:-1]
            chosen = question.answers[question.target].split(", ")
            assert len(items) == len(set(items)) == 7 and 1 <= len(chosen) <= 4


def test_membership_denies_attributes_and_the_nodes_that_a_variant_leaves_out() -> None:
    denied = {q.text.split(" (")[0][-1] for q in ask(pruned(), "node_membership", 300) if q.target == 1}
    assert denied == {"L", "S", "M", *DISTRACTORS}


def test_false_edges_are_reversed_and_absent_ones() -> None:
    texts = [question.text for question in ask(full(), "edge_validity", 400) if question.target == 1]
    pairs = {
        tuple((re.findall(r"\b([A-Z]) \(", text) or re.findall(r"[A-Z](?=→|\b)", text.split("edge ")[-1]))[:2])
        for text in texts
    }
    turned = {(effect, cause) for cause, effect in full().edges}
    assert turned <= pairs and len(pairs - turned) > 10


def test_false_paths_are_stitched_and_cyclic() -> None:
    for graph in GRAPHS:
        sequences = [
            re.findall(r"[A-Z](?:→[A-Z])+", q.text)[0].split("→")
            for q in ask(graph, "path_validity", 300)
            if q.target == 1
        ]
        cyclic = [sequence for sequence in sequences if sequence[0] == sequence[-1]]
        assert 0.3 < len(cyclic) / len(sequences) < 0.7
        assert all(len(set(sequence)) == len(sequence) for sequence in sequences if sequence not in cyclic)


def test_listing_asks_for_none_in_a_quarter() -> None:
    for kind in ("list_relatives", "list_paths"):
        none = sum(question.answers[question.target] == "none" for question in ask(full(), kind, 400))
        assert 65 <= none <= 135  # 100 +- 4 standard deviations


def test_persons_are_never_swapped_and_every_other_component_is() -> None:
    swapped = {question.answers[question.target] for question in ask(full(), "inconsistent_component", 100)}
    assert swapped == {"O", "L", "S", "I", "M"}


def test_reverse_causality_is_always_no() -> None:
    for graph in GRAPHS:
        assert all(question.answers[question.target] == "no" for question in ask(graph, "reverse_causality", 50))


def test_near_sets_miss_by_one_item() -> None:
    near = near_sets(["I", "S"], ["I", "M", "P", "S"])
    assert len(near) == len(set(near)) == 8 and "I, S" not in near
    for answer in near:
        items = answer.split(", ")
        assert items == sorted(items) and len({"I", "S"} - set(items)) <= 1 and len(set(items) - {"I", "S"}) <= 1
    assert near_sets(["I"], ["I", "M"]) == ["I, M", "none", "M"]
    assert listed([]) == "none"


def test_counts_beyond_ten_can_be_answered() -> None:
    asked = ask_count("edge_count", 12, Draw("any"))
    assert asked.answers[asked.target] == "12" and len(asked.answers) == 13
