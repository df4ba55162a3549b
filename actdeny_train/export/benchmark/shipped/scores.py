"""Denial metrics in plain Python: the values of ``metrics.denial``, without intervals, for harnesses that bring their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Items = Sequence[Mapping[str, Any]]

STATUSES = ("unparsed", "refusal", "truncated", "error")
"""Ways in which a response has no choice. It is wrong, and stays in the number of questions."""


def marks(record: Mapping[str, Any], choice: int | None, status: str) -> dict[str, dict[str, Any]]:
    """Return what one response counts for in each metric.

    Every metric has an item for every response, so that processes gather the same metrics in the same order. An item of a rate has
    ``score`` (0 or 1) only where the question is a trial of it; ``source`` is the long video that the clip was cut from.
    """
    kind, none_choice, distractor = record["kind"], record["none_choice"], record["primary_distractor"]
    denial, right = kind != "presence", status == "ok" and choice == record["target"]
    hallucinated = denial and status == "ok" and not right
    trials: dict[str, bool | None] = {
        "t1": right if kind == "context_only" else None,
        "t2": right if kind == "different_motion" else None,
        "overall_ad": right if denial else None,
        "ap": None if denial else right,
        "overall": right,
        "false_denial": None if denial or none_choice is None else choice == none_choice,
        "hallucinated_action": hallucinated if denial else None,
        "primary_distractor": choice == distractor if hallucinated and distractor is not None else None,
    }
    source = {"source": record["source"]}
    items = {name: source | ({} if hit is None else {"score": int(hit)}) for name, hit in trials.items()}
    items["hm"] = source | {"denial": denial, "right": right}
    return items | {name: source | {"count": int(status == name)} for name in STATUSES}


def mean(items: Items) -> float | None:
    """Return the share of trials that score; None without a trial."""
    scores = [item["score"] for item in items if "score" in item]
    return sum(scores) / len(scores) if scores else None


def harmonic_mean(items: Items) -> float | None:
    """Return the harmonic mean of the accuracies on denial and on presence clips: 0 if either is 0, None if either has no clip."""
    sides = [[item["right"] for item in items if item["denial"] is denial] for denial in (True, False)]
    if not all(sides):
        return None
    overall_ad, ap = (sum(side) / len(side) for side in sides)
    return 2 * overall_ad * ap / (overall_ad + ap) if overall_ad + ap else 0.0


def count(items: Items) -> int:
    """Return how many responses have the status."""
    return sum(item["count"] for item in items)


AGGREGATIONS: dict[str, Callable[[Items], float | None]] = {
    **dict.fromkeys(("t1", "t2", "overall_ad", "ap", "overall"), mean),
    "hm": harmonic_mean,
    **dict.fromkeys(("false_denial", "hallucinated_action", "primary_distractor"), mean),
    **dict.fromkeys(STATUSES, count),
}
"""All metrics, and how the items of each become its value."""


def summarise(marked: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, float | None]:
    """Return all metrics of the responses of one setup and prompt: rates in [0, 1], numbers of each status, None where undefined."""
    return {name: aggregate([items[name] for items in marked]) for name, aggregate in AGGREGATIONS.items()}
