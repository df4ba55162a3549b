"""Controls: known answers, known scores, through the whole evaluation."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.evaluation.controls import AlwaysNone, AlwaysPrimaryDistractor, AlwaysYes, RandomChoice
from actdeny_train.questions.graph_vqa import GraphQuestions
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.primary_distractor_removed import PrimaryDistractorRemoved
from actdeny_train.questions.yes_no import YesNoPrimary, YesNoRandom
from actdeny_train.types import Clip, ClipKind

LABELS = load_ucf101()
DENIAL, PRESENCE = (
    Clip(id=kind, path="-", action="Archery", kind=kind, split="test", source="g01")
    for kind in (ClipKind.CONTEXT_ONLY, ClipKind.PRESENCE)
)
CONTROLS = "actdeny_train.evaluation.controls"
GRID = (
    "ask={_target_: actdeny_train.evaluation.run.grid, prompts: [{_target_: actdeny_train.questions.prompts.Plain}], setups: ["
    + ", ".join(
        f"{{_target_: actdeny_train.questions.{name}}}"
        for name in (
            "mcq.Standard",
            "explicit_denial.ExplicitDenial",
            "primary_distractor_removed.PrimaryDistractorRemoved",
            "mcq.FourChoices",
            "yes_no.YesNoPrimary",
            "yes_no.YesNoRandom",
        )
    )
    + "]}"
)


def scores(summary: dict[str, Any], setup: str) -> tuple[float | None, float | None, float | None]:
    cell = summary["setups"][setup]["plain"]
    return cell["overall_ad"]["value"], cell["ap"]["value"], cell["hm"]["value"]


NOT_OFFERED = (1, None, None)


@pytest.mark.parametrize(
    ("control", "choices", "yes_no_primary", "yes_no_random"),
    [
        ("AlwaysNone", (1, 0, 0), (1, 0, 0), (1, 1, 1)),
        ("AlwaysPrimaryDistractor", (0, 1, 0), (0, 1, 0), (1, 1, 1)),
        ("AlwaysYes", (0, 1, 0), (0, 1, 0), (0, 0, 0)),
    ],
)
def test_controls_score_what_their_rule_says(
    answer: Callable[..., dict[str, Any]],
    tmp_path: Path,
    control: str,
    choices: Any,
    yes_no_primary: Any,
    yes_no_random: Any,
) -> None:
    summary = answer(GRID, f"model={{_target_: {CONTROLS}.{control}}}")
    expected = dict.fromkeys(("standard", "explicit_denial", "four_choices"), choices)
    expected |= {
        "primary_distractor_removed": NOT_OFFERED,
        "yes_no_primary": yes_no_primary,
        "yes_no_random": yes_no_random,
    }
    assert {setup: scores(summary, setup) for setup in summary["setups"]} == expected
    assert all(cell["plain"]["unparsed"] == 0 for cell in summary["setups"].values())
    lines = [json.loads(x) for x in (tmp_path / "runs" / "run" / "predictions.jsonl").read_text("utf-8").splitlines()]
    assert all(line["text"] and not line["logprobs"] and not line["frame_indices"] for line in lines)
    record = json.loads((tmp_path / "runs" / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["model"] == f"{CONTROLS}.{control}" and record["fingerprints"]["processor"] == "control"


def test_random_choices_are_uniform_and_the_same_at_every_run() -> None:
    questions = [Standard().ask(DENIAL, LABELS, seed=seed) for seed in range(1)]
    made = [Standard().ask(DENIAL, LABELS, seed=0, index=i) for i in range(3300)]
    chosen = [RandomChoice().choose(q, DENIAL) for q in made]
    assert chosen == [RandomChoice().choose(q, DENIAL) for q in made]
    assert chosen != [RandomChoice(seed=1).choose(q, DENIAL) for q in made]
    counts = Counter(chosen)
    assert stats.chisquare([counts[i] for i in range(11)]).pvalue > 1e-3
    assert RandomChoice().reply(questions[0], DENIAL) in questions[0].answers


def test_what_controls_say_in_each_setup() -> None:
    standard, removed = Standard().ask(DENIAL, LABELS, seed=0), PrimaryDistractorRemoved().ask(DENIAL, LABELS, seed=0)
    presence = Standard(labelled="letters").ask(PRESENCE, LABELS, seed=0)
    primary, other = YesNoPrimary().ask(DENIAL, LABELS, seed=0), YesNoRandom().ask(DENIAL, LABELS, seed=0)
    asked = (GraphQuestions().ask(DENIAL, LABELS, seed=0, index=i) for i in range(14))
    graph = next(q for q in asked if len(q.choices) > 2)
    for control in (AlwaysPrimaryDistractor(), AlwaysYes()):
        assert control.choose(standard, DENIAL) == standard.primary_distractor
        assert control.choose(removed, DENIAL) == removed.none_choice
        assert control.reply(presence, PRESENCE) == "ABCDEFGHIJK"[presence.target]
        assert control.reply(primary, DENIAL) == "yes"
        assert control.choose(graph, DENIAL) == 0
    assert AlwaysPrimaryDistractor().reply(other, DENIAL) == "no"
    assert AlwaysYes().reply(other, DENIAL) == "yes"
    assert AlwaysNone().choose(presence, PRESENCE) == presence.none_choice
    assert AlwaysNone().reply(primary, DENIAL) == AlwaysNone().reply(other, DENIAL) == "no"
    assert AlwaysNone().choose(graph, DENIAL) == len(graph.choices) - 1


def test_two_controls_do_not_share_a_folder() -> None:
    prints = {
        c.fingerprint() for c in (AlwaysNone(), AlwaysYes(), AlwaysPrimaryDistractor(), RandomChoice(), RandomChoice(1))
    }
    assert len(prints) == 5
