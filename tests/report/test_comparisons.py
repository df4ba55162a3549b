"""Runs beside the first one, and beside the published figures."""

from collections.abc import Callable
from pathlib import Path

from actdeny_train.metrics.comparison import compare
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.metrics.published import overall_note
from actdeny_train.report.comparisons import (
    changes,
    compare_with_first,
    mcnemar,
    prompts,
    published,
    published_finetuned,
)
from actdeny_train.report.runs import cell_names, load_runs


def test_differences_and_tests_are_those_of_the_comparison(two_runs: tuple[Path, Path]) -> None:
    before, after = load_runs(two_runs)
    (pair,) = compare_with_first([before, after])
    assert pair.labels == ("before", "after") and pair.comparison is not None and pair.reason == ""
    found = compare(before.predictions, after.predictions)
    cells = {(cell.setup, cell.prompt): cell for cell in found.cells}
    table = changes(pair.labels, pair.comparison, "c1")
    assert table.title == "after minus before"
    assert list(dict.fromkeys(row[:2] for row in table.rows)) == cell_names([before], denial=True)
    assert len(table.rows) == 5 * len(cells)
    names = {"T1": "t1", "T2": "t2", "Overall-AD": "overall_ad", "AP": "ap", "HM": "hm"}
    for setup, prompt, metric, a, b, difference, p, p_holm in table.rows:
        change = cells[str(setup), str(prompt)].changes[names[str(metric)]]
        assert (a, b, difference, p, p_holm) == (change.a, change.b, change.difference, change.p, change.p_holm)
        assert isinstance(a, Estimate) and isinstance(b, Estimate) and isinstance(difference, Estimate)
        assert difference.value is None or difference.value == b.value - a.value  # type: ignore[operator]
    tests = mcnemar(pair.labels, pair.comparison, "c1")
    assert len(tests.rows) == 2 * len(cells)
    for setup, prompt, side, *values in tests.rows:
        test = cells[str(setup), str(prompt)].mcnemar[str(side)]
        assert values == [test.n, test.only_a, test.only_b, test.p, test.p_holm]


def test_runs_on_other_questions_are_told(make_run: Callable[..., Path], all_clips: list) -> None:
    runs = load_runs([make_run("one"), make_run("two", clips=all_clips[6:12])])
    (pair,) = compare_with_first(runs)
    assert pair.comparison is None
    assert pair.reason.startswith(
        "Runs 'one' and 'two' were not asked the same questions (explicit_denial / causalact: 0 shared, 6 only"
    )
    assert pair.reason.endswith("There is nothing to compare: evaluate both on the same data, split and seed.")


def test_published_rows() -> None:
    table = published()
    assert len(table.rows) == 22
    assert table.rows[5] == ("VideoLLaMA3-7B", 0.494, 0.534, 0.515, 0.96, 0.583, 0.67)
    assert table.rows[-1] == ("36 people", None, None, 0.866, None, None, None)
    assert table.remarks == (overall_note(),)
    assert published_finetuned().rows[0] == ("Ovis2.5-2B", 0.27, 0.523)


def test_prompts_of_each_run_beside_the_plain_one(two_runs: tuple[Path, Path]) -> None:
    runs = load_runs(two_runs)
    table = prompts(runs)
    assert table is not None and [c.title for c in table.columns[:3]] == ["setup", "prompt", "run"]
    assert {row[1] for row in table.rows} == {"causalact"}
    assert {(row[0], row[2]) for row in table.rows} == {
        (setup, run.label) for setup, prompt in cell_names(runs, denial=True) if prompt == "causalact" for run in runs
    }
    titles = {"T1": "t1", "T2": "t2", "Overall-AD": "overall_ad", "AP": "ap", "HM": "hm"}
    metrics = {run.label: run.metrics["setups"] for run in runs}
    for setup, prompt, run, metric, a, b, difference, *_ in table.rows:
        of_run = metrics[str(run)][setup]
        told = [of_run[name][titles[str(metric)]]["value"] for name in ("plain", prompt)]
        assert isinstance(a, Estimate) and isinstance(b, Estimate) and isinstance(difference, Estimate)
        assert [a.value, b.value] == told and difference.value == told[1] - told[0]
    one = prompts(runs[:1])
    assert one is not None and [c.title for c in one.columns[:3]] == ["setup", "prompt", "metric"]
