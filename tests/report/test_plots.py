"""What stands in the charts is what stands in metrics.json."""

import math
import re
import statistics
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from actdeny_train.report import plots
from actdeny_train.report.plots import Chart
from actdeny_train.report.runs import SavedRun, load_runs

CELL = ("standard", "plain")


@pytest.fixture(scope="module")
def runs(two_runs: tuple[Path, Path]) -> tuple[SavedRun, ...]:
    return load_runs(two_runs)


def titles(chart: Chart | None) -> list[str]:
    assert chart is not None
    return [title.text or "" for title in ET.fromstring(chart.svg).iter("title")]


def test_bars_tell_the_metrics_with_their_intervals(runs: tuple[SavedRun, ...]) -> None:
    told = titles(plots.metric_bars(runs, CELL))
    names = {"t1": "T1", "t2": "T2", "overall_ad": "AD", "ap": "AP", "hm": "HM"}
    expected = []
    for key, name in names.items():
        for run in runs:
            e = run.metrics["setups"]["standard"]["plain"][key]
            interval = f"[{100 * e['low']:.1f}, {100 * e['high']:.1f}]"
            expected.append(f"{run.label}: {name} {100 * e['value']:.1f} % {interval}, n {e['n']}")
    assert told == expected


def test_undefined_bars_tell_why(runs: tuple[SavedRun, ...]) -> None:
    told = titles(plots.metric_bars(runs, ("primary_distractor_removed", "plain")))
    assert "before: AP undefined: no presence clips" in told
    assert "after: HM undefined: no presence clips" in told


def test_a_point_a_class(runs: tuple[SavedRun, ...]) -> None:
    told = titles(plots.class_points(runs, CELL))
    expected = [
        f"{run.label}: {action}, AP {100 * values['ap']['value']:.1f}, Overall-AD {100 * values['overall_ad']['value']:.1f}"
        for run in runs
        for action, values in run.metrics["setups"]["standard"]["plain"]["by_class"].items()
    ]
    assert told == expected and len(told) == 4


def test_a_bar_a_place(runs: tuple[SavedRun, ...]) -> None:
    chart = plots.chosen_places(runs, CELL)
    told = titles(chart)
    assert len(told) == 2 * 11
    assert chart is not None and chart.caption == "Dashed: 9.1 %, all places alike."
    rows = runs[0].metrics["setups"]["standard"]["plain"]["positions"]
    assert told[0].startswith(f"before: place 1 {100 * rows[0]['chosen']['value']:.1f} % [")


def test_reliability_pools_denial_and_presence_clips(runs: tuple[SavedRun, ...]) -> None:
    told = [t for t in titles(plots.reliability(runs, CELL)) if t.startswith("after")]
    asked = [p for p in runs[1].predictions if (p.setup, p.prompt) == CELL]
    bins: dict[int, list[tuple[float, bool]]] = {}
    for p in asked:
        weights = [math.exp(x) for x in p.logprobs]
        p_none = weights[p.none_choice or 0] / sum(weights)
        bins.setdefault(min(int(p_none * 15), 14), []).append((p_none, p.target == p.none_choice))
    assert told == [
        f"after: p {100 * statistics.mean(p for p, _ in b):.1f} %, right {100 * statistics.mean(r for _, r in b):.1f} %, n {len(b)}"
        for _, b in sorted(bins.items())
    ]


@pytest.mark.parametrize("side", ["denial", "presence"])
def test_answers(runs: tuple[SavedRun, ...], side: str) -> None:
    shares = {
        k: v for k, v in runs[1].metrics["setups"]["standard"]["plain"][f"answers_on_{side}"].items() if v["value"]
    }
    parts = titles(plots.answer_stacks(runs, CELL, side))[-len(shares) :]
    assert [float(re.findall(r": ([\d.]+) %", part)[0]) for part in parts] == pytest.approx(
        [100 * v["value"] for v in shares.values()], abs=0.051
    )
    assert plots.answer_stacks(runs, ("yes_no_primary", "plain"), side) is None


def test_denied_by_place_of_the_none_choice(runs: tuple[SavedRun, ...]) -> None:
    told = [t for t in titles(plots.none_places(runs, CELL)) if t.startswith("before")]
    denial = [p for p in runs[0].predictions if (p.setup, p.prompt) == CELL and p.kind != "presence"]
    for place in range(11):
        there = [p.is_right for p in denial if p.none_choice == place]
        start = f"before: place {place + 1} "
        assert told[place].startswith(
            f"{start}{100 * statistics.mean(there):.1f} % " if there else f"{start}undefined: "
        )
    assert plots.none_places(runs, ("yes_no_primary", "plain")) is None


def test_risk_over_coverage_passes_every_point(runs: tuple[SavedRun, ...]) -> None:
    chart = plots.risk_coverage(runs, CELL)
    assert chart is not None
    paths = [p.attrib["d"] for p in ET.fromstring(chart.svg).iter("path")]
    for run, path in zip(runs, paths, strict=True):
        curve = run.metrics["setups"]["standard"]["plain"]["abstention"]["risk_coverage"]
        assert path.count("L") == len(curve) - 1


def test_sycophancy_over_shortcut_per_class(runs: tuple[SavedRun, ...]) -> None:
    told = titles(plots.sycophancy_points(runs, "plain"))
    setups = runs[0].metrics["setups"]
    wrong, yes = (
        {a: 1 - v["overall_ad"]["value"] for a, v in setups[setup]["plain"]["by_class"].items()}
        for setup in ("standard", "yes_no_primary")
    )
    assert told[: len(wrong)] == [
        f"before: {action}, wrong {100 * wrong[action]:.1f} %, did not say no {100 * yes[action]:.1f} %"
        for action in wrong
    ]


def test_charts_without_their_numbers_are_left_out(runs: tuple[SavedRun, ...]) -> None:
    nowhere = ("standard", "other")
    assert plots.metric_bars(runs, nowhere) is None
    assert plots.class_points(runs, nowhere) is None
    assert plots.chosen_places(runs, nowhere) is None
    assert plots.risk_coverage(runs, nowhere) is None
    assert plots.reliability(runs, nowhere) is None
    assert plots.answer_stacks(runs, nowhere, "denial") is None
    assert plots.sycophancy_points(runs, "other") is None


def test_answers_for_the_legend(runs: tuple[SavedRun, ...]) -> None:
    found = plots.has_answers(runs)
    assert {"primary_distractor", "none", "refusal", "unparsed"} <= set(found) and "truncated" not in found
