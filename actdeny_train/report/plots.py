"""The charts of a report: which numbers of ``metrics.json`` stand in which drawing. Runs are series, in the same style everywhere."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actdeny_train.metrics.estimates import Estimate
from actdeny_train.report import svg
from actdeny_train.report.cells import format_interval, percent
from actdeny_train.report.results import ANSWER_TITLES, METRIC_TITLES
from actdeny_train.report.runs import CellName, SavedRun, cell_names

BARS = ("t1", "t2", "overall_ad", "ap", "hm")
BAR_NAMES = {**METRIC_TITLES, "overall_ad": "AD"}


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with the words above and below it."""

    title: str
    caption: str
    svg: str


def metric_bars(runs: Sequence[SavedRun], name: CellName) -> Chart | None:
    """Return the metrics of one setup and prompt with their intervals, a bar a run."""
    cells = [run.cell(name) for run in runs]
    if not any(cells):
        return None
    series = [
        [_mark(f"{run.label}: {BAR_NAMES[key]}", _estimate(cell, key, "not evaluated")) for key in BARS]
        for run, cell in zip(runs, cells, strict=True)
    ]
    told = "; ".join(f"{run.label} HM {series[i][-1].told.split(' HM ')[-1]}" for i, run in enumerate(runs))
    drawn = svg.bars(f"Denial metrics: {told}", [BAR_NAMES[key] for key in BARS], series, y_title="accuracy, %")
    return Chart(" / ".join(name), "", drawn)


def class_points(runs: Sequence[SavedRun], name: CellName) -> Chart | None:
    """Return Overall-AD over AP, a point a class."""
    series = [
        [
            svg.Point(ap, ad, f"{run.label}: {action}, AP {percent(ap)}, Overall-AD {percent(ad)}")
            for action, values in (_part(run, name, "by_class") or {}).items()
            if (ap := values["ap"]["value"]) is not None and (ad := values["overall_ad"]["value"]) is not None
        ]
        for run in runs
    ]
    if not any(series):
        return None
    label = f"Overall-AD over AP, {max(map(len, series))} classes"
    drawn = svg.scatter(label, series, x_title="AP, %", y_title="Overall-AD, %", diagonal=True)
    return Chart("By class", "A point a class. Below the line: better at presence than at denial.", drawn)


def chosen_places(runs: Sequence[SavedRun], name: CellName) -> Chart | None:
    """Return how often each place was chosen."""
    found = _places(runs, name, "positions", "chosen")
    if found is None:
        return None
    num_places = len(found[0])
    label = f"Share of choices by place, {num_places} places"
    drawn = svg.bars(label, _numbers(num_places), found, y_title="chosen, %", line=1 / num_places)
    return Chart("Choice by place", f"Dashed: {percent(1 / num_places)} %, all places alike.", drawn)


def none_places(runs: Sequence[SavedRun], name: CellName) -> Chart | None:
    """Return how often a denial clip was denied, by the place of the none choice."""
    found = _places(runs, name, "positions_none", "right")
    if found is None:
        return None
    label = f"Share of denial clips denied by place of the none choice, {len(found[0])} places"
    drawn = svg.bars(label, _numbers(len(found[0])), found, y_title="denied, %")
    return Chart("Denied, by place of the none choice", "Denial clips.", drawn)


def _places(runs: Sequence[SavedRun], name: CellName, part: str, key: str) -> list[list[svg.Mark]] | None:
    """Return a bar for each run and place, or None if no run has places."""
    found = [(run, _part(run, name, part) or []) for run in runs]
    num_places = max(len(rows) for _, rows in found)
    absent = Estimate(None, None, None, 0, "no such place")
    series = [
        [
            _mark(f"{run.label}: place {i + 1}", Estimate.from_json(rows[i][key]) if i < len(rows) else absent)
            for i in range(num_places)
        ]
        for run, rows in found
    ]
    return series if num_places else None


def _numbers(num_places: int) -> list[str]:
    return [str(i + 1) for i in range(num_places)]


def reliability(runs: Sequence[SavedRun], name: CellName) -> Chart | None:
    """Return how often the none choice was right over its probability, denial and presence clips of each bin pooled."""
    series = []
    for run in runs:
        sides = (_part(run, name, "abstention") or {}).get("reliability", {})
        bins: dict[float, list[dict[str, Any]]] = defaultdict(list)
        for b in (b for side in sides.values() for b in side):
            bins[b["low"]].append(b)
        points = []
        for low in sorted(bins):
            n = sum(b["n"] for b in bins[low])
            p, rate = (sum(b["n"] * b[key] for b in bins[low]) / n for key in ("mean_p", "rate"))
            points.append(svg.Point(p, rate, f"{run.label}: p {percent(p)} %, right {percent(rate)} %, n {n:,}"))
        series.append(points)
    if not any(series):
        return None
    label = "Reliability of p(none): how often the none choice is right, over its probability"
    drawn = svg.scatter(label, series, x_title="mean p(none), %", y_title="none is right, %", lines=True, diagonal=True)
    return Chart("Reliability of p(none)", "Denial and presence clips together. On the line: as sure as right.", drawn)


def risk_coverage(runs: Sequence[SavedRun], name: CellName) -> Chart | None:
    """Return the share of wrong answers among the surest ones, over how many of all these are."""
    series = [
        [
            svg.Point(coverage, risk, f"{run.label}: coverage {percent(coverage)} %, risk {percent(risk)} %")
            for coverage, risk in (_part(run, name, "abstention") or {}).get("risk_coverage", [])
        ]
        for run in runs
    ]
    if not any(series):
        return None
    label = "Risk over coverage: share of wrong answers among the surest"
    drawn = svg.scatter(label, series, x_title="answered, surest first, %", y_title="wrong, %", lines=True)
    return Chart("Risk over coverage", "Lower is better.", drawn)


def answer_stacks(runs: Sequence[SavedRun], name: CellName, side: str) -> Chart | None:
    """Return what was answered on the clips of a side, a bar a run."""
    rows = []
    for run in runs:
        shares = _part(run, name, f"answers_on_{side}") or {}
        if shares.get("none", {}).get("value") is None:  # yes/no questions: only responses without a choice are told
            continue
        parts = [
            (f"answer-{key}", estimate.value, f"{ANSWER_TITLES[key]}: {percent(estimate.value)} % of {estimate.n:,}")
            for key in ANSWER_TITLES
            if key in shares and (estimate := Estimate.from_json(shares[key])).value
        ]
        if parts:
            rows.append((run.label, parts))
    if not rows:
        return None
    told = "; ".join(f"{label}: {', '.join(text for *_, text in parts)}" for label, parts in rows)
    drawn = svg.stack(f"Answers on {side} clips. {told}", rows)
    return Chart(f"{name[0]} / {name[1]}, {side} clips", "", drawn)


def sycophancy_points(runs: Sequence[SavedRun], prompt: str) -> Chart | None:
    """Return how often a clip's action was not denied in yes/no questions, over how often the standard answer was wrong; denial clips."""
    series = []
    for run in runs:
        shortcut, agreeing = (_part(run, (setup, prompt), "by_class") or {} for setup in ("standard", "yes_no_primary"))
        points = []
        for action in shortcut:
            right, no = (values.get(action, {}).get("overall_ad", {}).get("value") for values in (shortcut, agreeing))
            if right is not None and no is not None:
                told = f"{run.label}: {action}, wrong {percent(1 - right)} %, did not say no {percent(1 - no)} %"
                points.append(svg.Point(1 - right, 1 - no, told))
        series.append(points)
    if not any(series):
        return None
    label = f"Sycophancy over shortcut, {max(map(len, series))} classes"
    drawn = svg.scatter(label, series, x_title="standard question wrong, %", y_title="did not say no, %", diagonal=True)
    return Chart(f"Prompt {prompt}", "A point a class, denial clips.", drawn)


def has_answers(runs: Sequence[SavedRun]) -> list[str]:
    """Return the kinds of answer that some run gave, for a legend."""
    found = set()
    for name in cell_names(runs, denial=True):
        for run in runs:
            for side in ("denial", "presence"):
                shares: Mapping[str, Any] = _part(run, name, f"answers_on_{side}") or {}
                found |= {key for key, values in shares.items() if values["value"]}
    return [key for key in ANSWER_TITLES if key in found]


def _part(run: SavedRun, name: CellName, key: str) -> Any:
    """Return a part of a cell's metrics, None where the run has not that cell or that part."""
    return (run.cell(name) or {}).get(key)


def _estimate(cell: Mapping[str, Any] | None, key: str, absent: str) -> Estimate:
    return Estimate.from_json(cell[key]) if cell and key in cell else Estimate(None, None, None, 0, absent)


def _mark(name: str, estimate: Estimate) -> svg.Mark:
    if estimate.value is None:
        told = f"{name} undefined: {estimate.reason}"
    else:
        told = f"{name} {percent(estimate.value)} % {format_interval(estimate)}, n {estimate.n:,}"
    return svg.Mark(estimate.value, estimate.low, estimate.high, told)
