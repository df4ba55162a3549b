"""The CausalAct prompt: a causal graph told in words (paper 1, section 9.2). Its wording stands in ``prompt.yaml``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import yaml

from actdeny_train.causal.graph import ACTION, NODE_NAMES, CausalGraph, arrow
from actdeny_train.errors import ConfigError
from actdeny_train.types import NODES

STYLES = ("paper", "released")
OBSERVED = ("P", "O", "L")
"""Nodes that the worked examples list before their analysis."""

_WORDING: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("prompt.yaml").read_text(encoding="utf-8"))
_INDENT = " " * 8


@dataclass(frozen=True)
class _Block:
    form: str  # text, heading, subheading, bullets, edges or steps
    lines: Sequence[str]
    tight: bool  # no empty line before it in the released style


def render(graph: CausalGraph, style: str = "paper", *, label: str = "number", question: str | None = None) -> str:
    """Return the prompt about ``graph``: everything that stands before the first option.

    ``"paper"`` is the text as printed, ending with a line break. ``"released"`` is the Markdown dress of the authors' script,
    where every line, the empty one after the last included, begins with eight spaces. Every edge, definition, explanation and
    example is about nodes and edges of ``graph`` alone. ``label`` is what choices have in front: "number" or "letter". With a yes/no
    ``question``, the text asks that one instead of options. Raises ConfigError for an unknown style, or if no worked example fits.
    """
    if style not in STYLES:
        raise ConfigError(f"Unknown style {style!r} of the CausalAct prompt: choose one of {', '.join(STYLES)}.")
    blocks = _blocks(graph, "→" if style == "paper" else "→ or \\u2192 character", label, question)
    return _paper(blocks) if style == "paper" else _released(blocks)


def _paper(blocks: Sequence[_Block]) -> str:
    text = ""
    for block in blocks:
        match block.form:
            case "bullets" | "edges":
                body = "\n".join(f"- {line}" for line in block.lines)
            case "steps":
                body = "\n".join(f"  {i}. {line}" for i, line in enumerate(block.lines, start=1))
            case _:
                body = " ".join(block.lines)
        text += ("\n" if block.form == "steps" else "\n\n") + body
    return text.strip().replace("`", "").replace("*", "") + "\n"


def _released(blocks: Sequence[_Block]) -> str:
    text = ""
    for i, block in enumerate(blocks):
        match block.form:
            case "heading":
                rule = "---\n\n" if i > 1 else ""  # none before the first heading, which follows the opening
                body = f"{rule}### {block.lines[0]}"
            case "subheading":
                body = f"#### {block.lines[0]}"
            case "bullets":
                body = "\n".join(f"* {line}" for line in block.lines)
            case "steps":
                body = "\n".join(f"    {i}.  {line}" for i, line in enumerate(block.lines, start=1))
            case _:
                body = "\n".join(block.lines)
        text += ("\n" if block.tight else "\n\n") + body
    lines = text.strip().replace("‘", "'").replace("’", "'").split("\n")
    # The script indents the empty line after its first heading, but no other one.
    blank = lines.index("### Component Definitions") + 1
    indented = [_INDENT + line if line or i == blank else line for i, line in enumerate(lines)]
    return "\n" + "\n".join(indented) + "\n" + _INDENT


def _blocks(graph: CausalGraph, arrows: str, label: str, question: str | None) -> list[_Block]:
    example = _example(graph)
    cause, effect = graph.edges[0]
    words = {
        "arrows": arrows,
        "label": label,
        "question": question or "",
        "first_edge": f"`{_edge(cause, effect)}`",
        "first_cause": _one(cause),
        "first_effect": _one(effect),
        "crux": example["crux"],
        "present_setting": example["present"]["setting"],
        "absent_setting": example["absent"]["setting"],
    }
    lists = {
        "definitions": _node_lines(graph, "definition"),
        "edges": [_edge(*edge) for edge in graph.edges],
        "explanations": _explanations(graph),
        "tasks": _node_lines(graph, "task"),
    }
    for side in ("present", "absent"):
        values = example[side]["values"]
        observed = [f"{_named(node)}: ‘{values[node]}’" for node in OBSERVED if node in graph.nodes]
        lists[f"{side}_observed"] = [*observed, "Causal Analysis:"]
        lists[f"{side}_steps"] = _steps(graph, example[side], side)
    blocks = []
    for entry in _WORDING["layout"]:
        form, content = next(iter(entry.items()))
        content = content if question is None else entry.get("yes_no", content)
        lines = lists[content] if form in ("bullets", "edges", "steps") else content.format(**words).split("\n")
        blocks.append(_Block(form, lines, entry.get("tight", False)))
    return blocks


def _node_lines(graph: CausalGraph, key: str) -> list[str]:
    lines = []
    for node in graph.nodes:
        entry = _WORDING["nodes"][node]
        if "O" not in graph.nodes:
            entry = {**entry, **entry.get("without_objects", {})}
        lines.append(f"{_named(node)}: {entry[key]}")
    return lines


def _explanations(graph: CausalGraph) -> list[str]:
    lines = []
    for effect in dict.fromkeys(effect for _, effect in graph.edges):
        causes = graph.parents(effect)
        if effect == ACTION:
            title = "How the final Action is determined"
        elif len(causes) == 1:
            title = f"{_noun(causes[0])} causes {_noun(effect)}"
        else:
            title = f"How {_noun(effect)} is formed"
        text = _WORDING["explanations"].get(_key(graph, effect)) or _WORDING["explanations"]["pattern"].format(
            an_effect=_one(effect), a_cause=_series([_one(cause) for cause in causes]), effect=_noun(effect)
        )
        edges = _series([f"`{_edge(cause, effect)}`" for cause in causes])
        lines.append(f"{edges} ({title}): {text}")
    return lines


def _example(graph: CausalGraph) -> dict[str, Any]:
    for example in _WORDING["examples"]:
        if set(example["needs"]) <= set(graph.nodes) <= set(example["present"]["values"]):
            return example
    raise ConfigError(
        f"Causal graph {graph.name!r} with nodes {', '.join(graph.nodes)} has no worked example for its prompt: "
        "examples exist for graphs with O and I, and for graphs with M but neither O nor I. "
        "Add or remove nodes, or use one of actdeny_train.causal.variants."
    )


def _steps(graph: CausalGraph, side: dict[str, Any], name: str) -> list[str]:
    values, patterns = side["values"], _WORDING["step_patterns"]
    roots = [node for node in graph.nodes if not graph.parents(node)]
    seen = ", ".join(f"{_noun(node)} ({node}) ‘{values[node]}’" for node in roots)
    lines = [side["steps"].get(f"roots {''.join(roots)}") or patterns["roots"].format(values=seen)]
    for effect in nx.lexicographical_topological_sort(graph.digraph, key=NODES.index):
        if effect in roots:
            continue
        pattern = patterns[name] if effect == ACTION else patterns["effect"]
        known = {
            "causes": _series([f"{_noun(cause)} ({cause})" for cause in graph.parents(effect)]),
            "effect": f"{_noun(effect)} ({effect})",
            "value": values[effect],
        }
        lines.append(side["steps"].get(_key(graph, effect), pattern).format(**values, **known))
    return lines


def _key(graph: CausalGraph, effect: str) -> str:
    return f"{effect}<-{''.join(graph.parents(effect))}"


def _edge(cause: str, effect: str) -> str:
    return arrow(cause, effect).replace("→", " → ")


def _named(node: str) -> str:
    return f"{node} ({NODE_NAMES[node]})"


def _noun(node: str) -> str:
    return str(_WORDING["nodes"][node]["one"])


def _one(node: str) -> str:
    return f"{_WORDING['nodes'][node]['article']} {_noun(node)} ({node})"


def _series(items: Sequence[str]) -> str:
    if len(items) < 3:
        return " and ".join(items)
    return f"{', '.join(items[:-1])}, and {items[-1]}"
