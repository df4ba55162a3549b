"""The text before the choices of a multiple-choice question, and the block of labelled choices itself."""

import functools
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import yaml

from actdeny_train.causal import prompt as causal_prompt
from actdeny_train.causal.graph import CausalGraph
from actdeny_train.causal.variants import full
from actdeny_train.errors import ConfigError

WORDING: dict[str, str] = yaml.safe_load(Path(__file__).with_name("wording.yaml").read_text(encoding="utf-8"))
"""Sentences that the benchmark fixes, by the names in ``wording.yaml``."""

Labelled = Literal["numbers", "letters"]
"""What choices have in front, and what a model replies: 1, 2, ... or A, B, ..."""

LABEL_WORDS: dict[Labelled, str] = {"numbers": "number", "letters": "letter"}
"""What an instruction calls one label."""

MAX_CHOICES = 20
"""Most choices of a question: A to T."""


class Prompt(Protocol):
    """Says how a question is put, not what its choices are."""

    @property
    def name(self) -> str:
        """Name under which results are reported."""
        ...

    def render(self, labelled: Labelled = "numbers") -> str:
        """Return everything that stands before the first choice, the line break included."""
        ...

    def render_yes_no(self, question: str) -> str:
        """Return the whole text of a yes/no question, e.g. about "Is a person or group of people playing a cello?"."""
        ...


@dataclass(frozen=True)
class Plain:
    """The question alone (paper 1, section 8)."""

    @property
    def name(self) -> str:
        return "plain"

    def render(self, labelled: Labelled = "numbers") -> str:
        """Return the plain question."""
        return WORDING["plain_prompt"].format(label=LABEL_WORDS[labelled]) + "\n"

    def render_yes_no(self, question: str) -> str:
        """Return the question and how to answer it."""
        return f"{question} {WORDING['yes_no_instruction']}"


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

    def render(self, labelled: Labelled = "numbers") -> str:
        """Return the prompt; in the released style the first choice stands behind eight spaces, as in the authors' script."""
        return _render_causalact(self.graph, self.style, LABEL_WORDS[labelled], None)

    def render_yes_no(self, question: str) -> str:
        """Return the prompt with the question where it else asks to select a caption; its last words are ours."""
        return _render_causalact(self.graph, self.style, LABEL_WORDS["numbers"], question).rstrip()


@functools.lru_cache(maxsize=1024)
def _render_causalact(graph: CausalGraph, style: str, label: str, question: str | None) -> str:
    return causal_prompt.render(graph, style, label=label, question=question)


@dataclass(frozen=True)
class PromptFile:
    """A prompt of your own: the text of ``file`` stands before the choices, to the letter, on lines of its own.

    ``yes_no_file`` is the text before a yes/no question, which ends the prompt; it is needed only where such questions are asked.
    Results are reported under the file's name without its ending. Raises ConfigError if a file cannot be read, or is empty.
    """

    file: str
    yes_no_file: str | None = None

    def __post_init__(self) -> None:
        self.render()
        if self.yes_no_file is not None:
            _read_prompt(self.yes_no_file, "yes_no_file")

    @property
    def name(self) -> str:
        return Path(self.file).stem

    def render(self, labelled: Labelled = "numbers") -> str:
        """Return the file's text and a line break. How to reply is the file's own matter, with numbers and letters alike."""
        return _read_prompt(self.file, "file") + "\n"

    def render_yes_no(self, question: str) -> str:
        """Return the text of ``yes_no_file`` and, on the next line, the question. Raises ConfigError if there is no such file."""
        if self.yes_no_file is None:
            raise ConfigError(
                f"PromptFile {self.file!r} stands before choices, and a yes/no question has none. Set its yes_no_file to a text that says "
                "how to answer with yes or no, or ask yes/no questions under another prompt."
            )
        return f"{_read_prompt(self.yes_no_file, 'yes_no_file')}\n{question}"


@functools.cache
def _read_prompt(file: str, key: str) -> str:
    try:
        text = Path(file).read_text(encoding="utf-8").rstrip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The {key} {file!r} of a PromptFile cannot be read ({error}). Give the path of a text file in UTF-8, relative to the working "
            "directory."
        ) from None
    if not text:
        raise ConfigError(
            f"The {key} {file!r} of a PromptFile is empty. Write the text that stands before the question."
        )
    return text


def option_block(choices: Sequence[str], labelled: Labelled = "numbers") -> str:
    """Return the choices, one a line, labelled from 1 or from A."""
    labels = answer_labels(len(choices), labelled)
    return "\n".join(
        WORDING["option_line"].format(number=label, caption=choice)
        for label, choice in zip(labels, choices, strict=True)
    )


def answer_labels(n: int, labelled: Labelled = "numbers") -> tuple[str, ...]:
    """Return the answers to n labelled choices: "1" to "n", or "A" on (n <= 26)."""
    return tuple(string.ascii_uppercase[:n]) if labelled == "letters" else tuple(str(i) for i in range(1, n + 1))
