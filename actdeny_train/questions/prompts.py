"""The text before the choices of a multiple-choice question, and the block of numbered choices itself."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import yaml

from actdeny_train.causal import prompt as causal_prompt
from actdeny_train.causal.graph import CausalGraph
from actdeny_train.causal.variants import full

WORDING: dict[str, str] = yaml.safe_load(Path(__file__).with_name("wording.yaml").read_text(encoding="utf-8"))
"""Sentences that the benchmark fixes, by the names in ``wording.yaml``."""


class Prompt(Protocol):
    """Says how a multiple-choice question is put, not what its choices are."""

    @property
    def name(self) -> str:
        """Name under which results are reported."""
        ...

    def render(self) -> str:
        """Return everything that stands before the first choice, the line break included."""
        ...


@dataclass(frozen=True)
class Plain:
    """The question alone (paper 1, section 8)."""

    @property
    def name(self) -> str:
        return "plain"

    def render(self) -> str:
        """Return the plain question."""
        return WORDING["plain_prompt"] + "\n"


@dataclass(frozen=True)
class CausalAct:
    """The CausalAct prompt, which explains the graph and asks to reason along it (paper 1, section 4.1).

    ``style`` is ``"paper"`` for the words as printed, ``"released"`` for the Markdown dress of the released script.
    """

    graph: CausalGraph = field(default_factory=full)
    style: Literal["paper", "released"] = "paper"

    @property
    def name(self) -> str:
        variant = "causalact" if self.graph == full() else f"causalact_{self.graph.name}"
        return variant if self.style == "paper" else f"{variant}+{self.style}"

    def render(self) -> str:
        """Return the prompt; in the released style the first choice stands behind eight spaces, as in the authors' script."""
        return _render_causalact(self.graph, self.style)


@functools.cache
def _render_causalact(graph: CausalGraph, style: str) -> str:
    return causal_prompt.render(graph, style)


def option_block(choices: Sequence[str]) -> str:
    """Return the choices, one a line, numbered from 1."""
    lines = (WORDING["option_line"].format(number=i, caption=choice) for i, choice in enumerate(choices, start=1))
    return "\n".join(lines)
