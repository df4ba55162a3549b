import hashlib
import re
from pathlib import Path

import pytest

from actdeny_train.causal.graph import NODE_NAMES, CausalGraph
from actdeny_train.causal.prompt import STYLES, render
from actdeny_train.causal.variants import full, person_only, pruned, random
from actdeny_train.errors import ConfigError

PAPER = (Path(__file__).parents[1] / "fixtures" / "causalact_prompt.txt").read_text(encoding="utf-8")
GRAPHS = [full(), pruned(), person_only(), *(random(seed) for seed in range(20))]
SINGULAR = {"P": "person", "O": "object", "L": "location", "S": "spatial", "I": "interact", "M": "motion"}


def edges_in(text: str) -> set[tuple[str, str]]:
    return {(cause, effect) for cause, effect in re.findall(r"([A-Z]) → ([A-Z])", text)}


def section(text: str, start: str, end: str) -> str:
    return text.split(start)[1].split(end)[0]


def test_full_graph_gives_the_paper_to_the_letter() -> None:
    assert render(full()) == PAPER


def test_released_style_has_the_same_words() -> None:
    released = render(full(), "released")
    bare = released.replace(" or \\u2192 character", "").replace("'", "’")
    words = re.sub(r"[`*#]|^ *---$", "", bare, flags=re.MULTILINE).split()
    assert words == PAPER.replace("‘", "’").replace("- ", "").split()


def test_released_style_has_the_dress_of_the_script() -> None:
    released = render(full(), "released")
    lines = released.split("\n")
    assert lines[0] == "" and lines[1].startswith("        Your primary task") and lines[-1] == "        "
    assert all(line.startswith("        ") for line in lines if line)
    assert [line.strip() for line in lines if line.strip().startswith("#")] == [
        "### Component Definitions",
        "### The Causal Graph: How Components are Related",
        "### Illustrative Examples",
        "#### Example 1: Interaction is PRESENT",
        "#### Example 2: Interaction is ABSENT",
        "### Your Task",
    ]
    assert lines.count("        ---") == 3
    assert "        The directed edges of the graph are:\n        P → I\n        O → I\n" in released
    assert "        * `P → I` and `O → I` (How Interaction is formed): For an" in released
    assert (
        "        * Causal Analysis:\n            1.  The 'person' (P) and 'guitar' (O) exist in the 'room' (L).\n"
        in released
    )
    assert "‘" not in released and "’" not in released
    # Pins the whole text, once compared line by line with the template in ovis2_5_causalact_zero.py of raiyaan-abdullah/Learn-to-Deny.
    assert (
        hashlib.sha256(released.encode()).hexdigest()
        == "5e4a778545fde9d9487e823d53292dd82b3266ec9905a1c4b44f54749b18bcdb"
    )


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_prompt_speaks_of_its_own_graph_alone(graph: CausalGraph, style: str) -> None:
    text = render(graph, style)
    assert edges_in(text) == set(graph.edges)
    listed = section(text, "The directed edges of the graph are:", "Here are the causal")
    assert re.findall(r"([A-Z]) → ([A-Z])", listed) == list(graph.edges)
    explained = section(text, "explained in detail:", "Illustrative Examples")
    assert sorted(re.findall(r"([A-Z]) → ([A-Z])", explained)) == sorted(graph.edges)
    assert set(re.findall(r"\(([A-Z])\)", text)) == set(graph.nodes)
    for node, name in NODE_NAMES.items():
        bullets = text.count(f"{node} ({name}): ")
        examples = 2 if node in "POL" else 0
        assert bullets == (2 + examples if node in graph.nodes else 0), node
        if node not in graph.nodes:
            assert SINGULAR[node] not in text.lower(), node
    assert "{" not in text and "\n\n\n" not in text


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_worked_examples_follow_the_edges(graph: CausalGraph) -> None:
    text = render(graph)
    for example in (section(text, "Example 1:", "Example 2:"), section(text, "Example 2:", "Your Task")):
        steps = re.findall(r"^  \d+\. (.*)$", example, flags=re.MULTILINE)
        effects = [node for node in graph.nodes if graph.parents(node)]
        assert len(steps) == 1 + len(effects)
        assert set(re.findall(r"\(([A-Z])\)", steps[0])) == set(graph.nodes) - set(effects)
        seen = set(graph.nodes) - set(effects)
        for step in steps[1:]:
            letters = set(re.findall(r"\(([A-Z])\)", step))
            (effect,) = letters - seen
            assert letters - {effect} <= set(graph.parents(effect)) <= seen
            seen.add(effect)
        assert effect == "A"


def test_random_explanations_name_exactly_the_parents() -> None:
    graph = random(3)
    assert (
        "- L → M and S → M (How Motion is formed): For a Motion (M) to happen, there must be a Location (L) and a Spatial Relation (S)."
        in render(graph)
    )
    assert "- S → P (Spatial Relation causes Person): " in render(graph)


def test_unknown_style() -> None:
    with pytest.raises(
        ConfigError, match="Unknown style 'latex' of the CausalAct prompt: choose one of paper, released"
    ):
        render(full(), "latex")


def test_graph_without_a_worked_example() -> None:
    graph = CausalGraph("mine", ("P", "I", "A"), (("P", "I"), ("I", "A")))
    with pytest.raises(ConfigError, match=r"'mine' with nodes P, I, A has no worked example .* Add or remove nodes"):
        render(graph)
