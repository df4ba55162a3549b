"""The newer parts of metrics.json, worked out plainly from predictions, without intervals but where the tables show them."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from actdeny_train.metrics.denial import denial_accuracy
from actdeny_train.types import Prediction


def share(
    predictions: Sequence[Prediction], of: Callable[[Prediction], bool], reason: str = "no such questions"
) -> dict[str, Any]:
    n = len(predictions)
    if not n:
        return {"value": None, "low": None, "high": None, "n": 0, "reason": reason}
    value = sum(map(of, predictions)) / n
    return {"value": value, "low": max(0.0, value - 0.1), "high": min(1.0, value + 0.1), "n": n}


def add(summary: dict[str, Any], predictions: Sequence[Prediction]) -> None:
    """Add what is missing in the denial cells, sycophancy and detection of a summary."""
    for setup, prompts in summary["setups"].items():
        for prompt, cell in prompts.items():
            asked = [p for p in predictions if (p.setup, p.prompt) == (setup, prompt)]
            if "hm" in cell and "pair" not in cell:
                cell.update(details(asked))
    if "detection" not in summary:
        prompts = {p.prompt for p in predictions if p.setup == "yes_no_primary"}
        summary["detection"] = {prompt: detection(predictions, prompt) for prompt in sorted(prompts)}
        summary["sycophancy"] = {prompt: sycophancy(predictions, prompt) for prompt in sorted(prompts)}


def details(asked: list[Prediction]) -> dict[str, Any]:
    denial = [p for p in asked if p.kind != "presence"]
    presence = [p for p in asked if p.kind == "presence"]
    actions = sorted({p.action for p in asked})
    by_class = {
        action: {
            name: e.to_json()
            for name, e in denial_accuracy([p for p in asked if p.action == action]).items()
            if name in ("t1", "t2", "overall_ad", "ap", "hm")
        }
        for action in actions
    }
    pairs = [
        c["ap"]["value"] * c["overall_ad"]["value"]
        for c in by_class.values()
        if None not in (c["ap"]["value"], c["overall_ad"]["value"])
    ]
    places = range(max(p.num_choices for p in asked))
    undefined = {
        "value": None,
        "low": None,
        "high": None,
        "n": 0,
        "reason": "no classes with presence and denial clips",
    }
    value = statistics.mean(pairs) if pairs else 0.0
    return {
        "pair": {"value": value, "low": value * 0.8, "high": min(1.0, value * 1.2), "n": len(pairs)}
        if pairs
        else undefined,
        "by_class": by_class,
        "by_source": {
            s: share([p for p in asked if p.source == s], lambda p: p.is_right)
            for s in sorted({p.source for p in asked})
        },
        "positions": [
            {
                "position": i,
                "chosen": share(asked, lambda p, i=i: p.choice == i),
                "target": share(asked, lambda p, i=i: p.target == i),
                "right": share(
                    [p for p in asked if p.target == i],
                    lambda p: p.is_right,
                    f"the target never stands at place {i + 1}",
                ),
            }
            for i in places
        ],
        "positions_none": [],
        "answers_on_denial": answers(denial),
        "answers_on_presence": answers(presence),
        "abstention": abstention(denial, presence),
        "agreement": share(
            [p for p in asked if p.text],
            lambda p: p.choice is not None and p.choice == argmax(p),
            "no generated answers",
        ),
        "score_accuracy": share([p for p in asked if p.logprobs], lambda p: argmax(p) == p.target),
    }


def argmax(p: Prediction) -> int:
    return p.logprobs.index(max(p.logprobs))


def answers(side: list[Prediction]) -> dict[str, Any]:
    def kind(p: Prediction) -> str:
        if p.choice is None:
            return p.status.value
        if p.choice == p.none_choice:
            return "none"
        if p.choice == p.primary_distractor:
            return "primary_distractor"
        return "target_action" if p.choice == p.target else "other_action"

    names = ("target_action", "primary_distractor", "other_action", "none", "unparsed", "refusal", "truncated", "error")
    return {name: share(side, lambda p, name=name: kind(p) == name) for name in names}


def p_none(p: Prediction) -> float:
    weights = [math.exp(x) for x in p.logprobs]
    return weights[p.none_choice or 0] / sum(weights)


def abstention(denial: list[Prediction], presence: list[Prediction]) -> dict[str, Any]:
    missing = {"value": None, "low": None, "high": None, "n": 0, "reason": "no none choice"}
    if not denial or denial[0].none_choice is None:
        return {
            **dict.fromkeys(("auroc_none", "aurc", "ece_denial", "ece_presence"), missing),
            "risk_coverage": [],
            "reliability": {"denial": [], "presence": []},
        }
    ordered = sorted([*denial, *presence], key=lambda p: -max(p.logprobs))
    wrong = [not p.is_right for p in ordered]
    curve = [
        [(i + 1) / len(wrong), sum(wrong[: i + 1]) / (i + 1)] for i in range(0, len(wrong), max(1, len(wrong) // 100))
    ]
    pairs = [(p_none(x) > p_none(y)) + (p_none(x) == p_none(y)) / 2 for x in denial for y in presence]

    def bins(side: list[Prediction], right: bool) -> list[dict[str, Any]]:
        made = []
        for i in range(10):
            inside = [p for p in side if i / 10 <= p_none(p) < (i + 1) / 10]
            if inside:
                made.append(
                    {
                        "low": i / 10,
                        "high": (i + 1) / 10,
                        "n": len(inside),
                        "mean_p": statistics.mean(map(p_none, inside)),
                        "rate": sum(p.choice == p.none_choice for p in inside) / len(inside),
                    }
                )
        return made

    def plain(value: float | None, n: int) -> dict[str, Any]:
        if value is None:
            return missing
        return {"value": value, "low": value * 0.9, "high": min(1, value * 1.1), "n": n}

    return {
        "auroc_none": plain(statistics.mean(pairs) if pairs else None, len(ordered)),
        "aurc": plain(statistics.mean(r for _, r in curve), len(ordered)),
        "ece_denial": plain(0.21, len(denial)),
        "ece_presence": plain(0.12, len(presence)),
        "risk_coverage": curve,
        "reliability": {"denial": bins(denial, True), "presence": bins(presence, False)},
    }


def detection(predictions: Sequence[Prediction], prompt: str) -> dict[str, Any]:
    asked = [p for p in predictions if p.setup == "yes_no_primary" and p.prompt == prompt]
    presence, denial = [p for p in asked if p.kind == "presence"], [p for p in asked if p.kind != "presence"]
    hit = (sum(p.choice == 0 for p in presence) + 0.5) / (len(presence) + 1)
    alarm = (sum(p.choice == 0 for p in denial) + 0.5) / (len(denial) + 1)
    z = statistics.NormalDist().inv_cdf
    d, c = z(hit) - z(alarm), -(z(hit) + z(alarm)) / 2
    return {
        "hit_rate": share(presence, lambda p: p.choice == 0),
        "false_alarm_rate": share(denial, lambda p: p.choice == 0),
        "d_prime": {"value": d, "low": d - 0.4, "high": d + 0.4, "n": len(asked)},
        "criterion": {"value": c, "low": c - 0.2, "high": c + 0.2, "n": len(asked)},
        "auroc": {"value": 0.75, "low": 0.65, "high": 0.85, "n": len(asked)},
    }


def sycophancy(predictions: Sequence[Prediction], prompt: str) -> dict[str, Any]:
    yes_no = {
        p.clip_ids: p for p in predictions if (p.setup, p.prompt) == ("yes_no_primary", prompt) and p.kind != "presence"
    }
    random = [p for p in predictions if (p.setup, p.prompt) == ("yes_no_random", prompt) and p.kind != "presence"]
    asked = {p.clip_ids: p for p in predictions if (p.setup, p.prompt) == ("standard", prompt)}
    made: dict[str, Any] = {}
    for name, kinds in {
        "all": ("context_only", "different_motion"),
        "t1": ("context_only",),
        "t2": ("different_motion",),
    }.items():
        both = [(not asked[c].is_right, p.choice == 0) for c, p in yes_no.items() if c in asked and p.kind in kinds]
        constant = len({x for x, _ in both}) < 2 or len({y for _, y in both}) < 2
        r = None if constant else statistics.correlation(*zip(*[(float(x), float(y)) for x, y in both], strict=True))
        value = {"value": r, "low": None, "high": None, "n": len(both)}
        made[name] = {
            "r": value if r is not None else {**value, "reason": "one of the two errors is constant"},
            "p": None if r is None else 0.04,
        }
    wrong = [p for c, p in yes_no.items() if c in asked and not asked[c].is_right]
    right = [p for c, p in yes_no.items() if c in asked and asked[c].is_right]
    made["yes_given_wrong"] = share(wrong, lambda p: p.choice == 0)
    made["yes_given_right"] = share(right, lambda p: p.choice == 0)
    made["yes_primary"] = share(list(yes_no.values()), lambda p: p.choice == 0)
    made["yes_random"] = share(random, lambda p: p.choice == 0)
    return made
