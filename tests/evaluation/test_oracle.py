"""An oracle that answers in free text scores 100 % in every setup; one for wrong answers scores 0."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from actdeny_train.draw import Draw
from actdeny_train.evaluation.controls import Control
from actdeny_train.evaluation.evaluate import evaluate
from actdeny_train.types import Clip, Question

PLAIN = "{_target_: actdeny_train.questions.prompts.Plain}"
CAUSAL = "{_target_: actdeny_train.questions.prompts.CausalAct}"
MCQ = (
    "mcq.Standard",
    "explicit_denial.ExplicitDenial",
    "primary_distractor_removed.PrimaryDistractorRemoved",
    "mcq.FourChoices",
)
YES_NO = ("yes_no.YesNoPrimary", "yes_no.YesNoRandom")
NUM_CELLS = 2 * 6


def setups(labelled: str) -> str:
    chosen = [f"{{_target_: actdeny_train.questions.{name}, labelled: {labelled}}}" for name in MCQ]
    chosen += [f"{{_target_: actdeny_train.questions.{name}}}" for name in YES_NO]
    return f"ask={{_target_: actdeny_train.evaluation.run.grid, setups: [{', '.join(chosen)}], prompts: [{PLAIN}, {CAUSAL}]}}"


STYLES: dict[str, Callable[[str, str], str]] = {
    "label": lambda label, caption: label,
    "caption": lambda label, caption: caption,
    "answer": lambda label, caption: f"Answer: {label}",
    "caption and label": lambda label, caption: f"{caption} {label}",
    "beginning and label": lambda label, caption: f"{' '.join(caption.split()[:4])} ... {label}",
    "reasoning": lambda label, caption: f"<think>It might be 1, or 2. Perhaps yes?</think>\n\n**{label}**",
    "bold sentence": lambda label, caption: f"The correct answer is **{label}. {caption}**",
}


@dataclass(frozen=True)
class Oracle(Control):
    """Replies in one of ``STYLES``, with the right choice or a wrong one."""

    style: str
    right: bool

    def choose(self, question: Question, clip: Clip) -> int:
        if self.right:
            return question.target
        others = [i for i in range(len(question.choices)) if i != question.target]
        return Draw(question.id, "wrong").choice(others)

    def reply(self, question: Question, clip: Clip) -> str:
        choice = self.choose(question, clip)
        if question.answers == ("yes", "no"):
            return {"answer": "Answer: {}", "reasoning": "<think>No? Yes?</think>{}."}.get(self.style, "{}").format(
                question.answers[choice].capitalize()
            )
        return STYLES[self.style](question.answers[choice], question.choices[choice])


@pytest.mark.parametrize("labelled", ["numbers", "letters"])
@pytest.mark.parametrize("style", STYLES)
def test_right_and_wrong_answers_in_free_text(make_run: Callable[..., Any], style: str, labelled: str) -> None:
    for right in (True, False):
        run = make_run(setups(labelled), f"name={'right' if right else 'wrong'}")
        summary = evaluate(run, Oracle(style, right))
        cells = [cell for prompts in summary["setups"].values() for cell in prompts.values()]
        assert len(cells) == NUM_CELLS
        for cell in cells:
            assert cell["overall"]["value"] == cell["overall_ad"]["value"] == float(right), style
            assert cell["overall"]["n"] == 6 or cell["ap"]["n"] == 0
            assert cell["ap"]["value"] in (float(right), None)
            assert (cell["unparsed"], cell["refusal"], cell["truncated"], cell["error"]) == (0, 0, 0, 0)
