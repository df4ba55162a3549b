"""Tables that set runs beside each other, and beside the published figures."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from actdeny_train.errors import DataError
from actdeny_train.metrics.comparison import METRICS, SIDES, Comparison, compare
from actdeny_train.metrics.prompts import compare_prompts
from actdeny_train.metrics.published import overall_note, published_rows, read_published
from actdeny_train.report.results import INTERVAL, METRIC_TITLES, PROMPT, RUN, SETUP
from actdeny_train.report.runs import SavedRun, order_cells
from actdeny_train.report.tables import Column, Content, Table


@dataclass(frozen=True)
class Compared:
    """A run beside the first one: the comparison, or the reason why there is none."""

    labels: tuple[str, str]
    comparison: Comparison | None
    reason: str = ""


def compare_with_first(runs: Sequence[SavedRun]) -> list[Compared]:
    """Compare each run with the first one. Runs on other questions are told, not compared."""
    compared = []
    for run in runs[1:]:
        labels = (runs[0].label, run.label)
        try:
            found = compare(runs[0].predictions, run.predictions, names=labels)
            cells = tuple(sorted(found.cells, key=lambda cell: order_cells((cell.setup, cell.prompt))))
            compared.append(Compared(labels, dataclasses.replace(found, cells=cells)))
        except DataError as error:
            compared.append(Compared(labels, None, str(error)))
    return compared


def changes(labels: tuple[str, str], comparison: Comparison, key: str) -> Table:
    """Return the differences of two runs: the second minus the first."""
    columns = (
        SETUP,
        PROMPT,
        Column("metric", "metric", "text"),
        Column("a", labels[0]),
        Column("b", labels[1]),
        Column("difference", "difference", "points"),
        Column("p", "p", "p"),
        Column("p_holm", "p, Holm", "p"),
    )
    rows = []
    for cell in comparison.cells:
        for metric in METRICS:
            change = cell.changes[metric]
            values = (change.a, change.b, change.difference, change.p, change.p_holm)
            rows.append((cell.setup, cell.prompt, METRIC_TITLES[metric], *values))
    caption = (
        f"Difference in percentage points with its {INTERVAL}: sources are resampled with both runs' answers, about denial and presence "
        f"clips. p: two-sided bootstrap, at least 2^(1 - m) where the runs differ in m sources; "
        f"Holm: corrected over the {len(comparison.cells)} setups and prompts of a metric."
    )
    title = f"{labels[1]} minus {labels[0]}"
    return Table(f"{key}-changes", title, caption, columns, tuple(rows), _left_out(labels, comparison))


def mcnemar(labels: tuple[str, str], comparison: Comparison, key: str) -> Table:
    """Return the exact McNemar tests of two runs."""
    columns = (
        SETUP,
        PROMPT,
        Column("side", "clips", "text"),
        Column("n", "n", "text"),
        Column("only_a", f"right only in {labels[0]}", "text"),
        Column("only_b", f"right only in {labels[1]}", "text"),
        Column("p", "p", "p"),
        Column("p_holm", "p, Holm", "p"),
    )
    rows = []
    for cell in comparison.cells:
        for side in SIDES:
            test = cell.mcnemar[side]
            rows.append((cell.setup, cell.prompt, side, test.n, test.only_a, test.only_b, test.p, test.p_holm))
    caption = "Exact test of the questions that one run alone has right. It takes clips of one source as independent: secondary."
    return Table(f"{key}-mcnemar", "McNemar's test", caption, columns, tuple(rows))


def prompts(runs: Sequence[SavedRun]) -> Table | None:
    """Return the differences of prompts within each run: another prompt minus the plain one. None where no run has both."""
    columns = (
        SETUP,
        PROMPT,
        RUN,
        Column("metric", "metric", "text"),
        Column("a", "plain"),
        Column("b", "this prompt"),
        Column("difference", "difference", "points"),
        Column("p", "p", "p"),
        Column("p_holm", "p, Holm", "p"),
    )
    rows: list[tuple[Content, ...]] = []
    for run in runs:
        for prompt, comparison in compare_prompts(run.predictions).items():
            for cell in comparison.cells:
                for metric, change in cell.changes.items():
                    if change.difference.value is None:
                        continue  # the table of results tells why
                    values = (change.a, change.b, change.difference, change.p, change.p_holm)
                    rows.append((cell.setup, prompt, run.label, METRIC_TITLES[metric], *values))
    rows.sort(key=lambda row: order_cells((str(row[0]), str(row[1]))))
    caption = (
        f"Difference in percentage points with its {INTERVAL}: the same questions about the same clips, sources resampled with the answers "
        "under both prompts. p: two-sided bootstrap; Holm: corrected over the setups of a metric."
    )
    kept = [i for i, column in enumerate(columns) if column is not RUN or len(runs) > 1]
    cut = tuple(tuple(row[i] for i in kept) for row in rows)
    title = "Prompts: the others minus plain"
    return Table("prompts", title, caption, tuple(columns[i] for i in kept), cut) if rows else None


def published() -> Table:
    """Return the zero-shot rows of paper 1."""
    columns = (Column("model", "model", "text"), *(Column(key, title) for key, title in METRIC_TITLES.items()))
    rows: list[tuple[Content, ...]] = [
        (r.model, *(float(getattr(r, key)) for key in METRIC_TITLES)) for r in published_rows()
    ]
    human = read_published()["human_overall_ad"] / 100
    rows.append(("36 people", None, None, human, None, None, None))
    caption = "Percent, as printed: UCF101-AD, standard setup, plain prompt, no finetuning."
    return Table("published", "Published with paper 1", caption, columns, tuple(rows), (overall_note(),))


def published_finetuned() -> Table:
    """Return Overall-AD before and after finetuning on graph questions, as paper 1 prints it."""
    columns = (Column("model", "model", "text"), Column("before", "before"), Column("after", "after"))
    rows = tuple((model, a / 100, b / 100) for model, (a, b) in read_published()["finetuned"].items())
    caption = "Overall-AD in percent, as printed: before and after full finetuning on graph questions."
    return Table("published-finetuned", "Published: CausalAct", caption, columns, rows)


def _left_out(labels: tuple[str, str], comparison: Comparison) -> tuple[str, ...]:
    told = []
    for label, names in zip(labels, (comparison.only_a, comparison.only_b), strict=True):
        if names:
            told.append(f"Only in {label}, not compared: {', '.join(f'{s} / {p}' for s, p in names)}.")
    return tuple(told)
