"""Summaries as tables on the terminal (and in Markdown, to be pasted). Readable at 100 columns and in a log file."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from actdeny_train.metrics.bootstrap import LEVEL
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.metrics.intruder import CHANCE, PATTERNS
from actdeny_train.report.cells import (
    MISSING,
    Footnotes,
    estimates_of,
    format_estimate,
    format_interval,
    format_value,
    has_responses,
    is_denial,
    is_intruder,
    select_cell,
)
from actdeny_train.types import ParseStatus

DENIAL_COLUMNS = {"t1": "T1", "t2": "T2", "overall_ad": "Overall-AD", "ap": "AP", "hm": "HM"}
ERROR_COLUMNS = {
    "overall": "Overall",
    "false_denial": "false\ndenials",
    "hallucinated_action": "hallucinated\nactions",
    "primary_distractor": "primary\ndistractor",
}
INTRUDER_COLUMNS = {
    "accuracy": "accuracy",
    "accuracy_exact": "exact\ninterval",
    "score_accuracy": "accuracy\nby score",
    "agreement": "response =\nbest score",
}
STRICT_COLUMNS = {"bare": "bare\nanswers", "overall_ad": "Overall-AD", "ap": "AP", "hm": "HM"}
PLACE_COLUMNS = {f"chosen_{i}": str(i) for i in range(1, 5)}
GRAPH_SETUP = "graph_vqa"
LOG_WIDTH = 100
INTERVAL = f"{100 * LEVEL:.0f} % interval over resampled sources"
ESTIMATE_CAPTION = f"percent (n), {INTERVAL}"
INTRUDER_CAPTION = (
    f"{ESTIMATE_CAPTION}; a source is a tuple; exact: Clopper and Pearson; chance is {100 * CHANCE:.0f} percent"
)
ERROR_CAPTION = f"{ESTIMATE_CAPTION}; primary distractor: its share of the hallucinated actions"

Row = tuple[str, dict[str, Any]]
"""A name and the cell of a summary that stands in its row."""


def open_console(file: TextIO | None = None) -> Console:
    """Return a console on ``file`` (standard output), ``LOG_WIDTH`` columns wide where that is no terminal."""
    file = file or sys.stdout
    return Console(file=file, width=None if file.isatty() else LOG_WIDTH, highlight=False)


def print_summary(summary: dict[str, Any], console: Console) -> None:
    """Print the tables of ``metrics.summary.summarise``: denial setups, their errors, other setups, graph questions.

    One row per setup and prompt. Tables without rows are left out.
    """
    rows = [
        (f"{setup}\n  {prompt}", cell)
        for setup, prompts in summary["setups"].items()
        for prompt, cell in prompts.items()
    ]
    denial = [(name, cell) for name, cell in rows if is_denial(cell)]
    intruder = [(name, _flatten_intruder(cell)) for name, cell in rows if is_intruder(cell)]
    others = [(name, cell) for name, cell in rows if not is_denial(cell) and not is_intruder(cell)]
    if not rows:
        console.print(Text("No predictions, no metrics."))
    if denial:
        console.print(_estimates_table("Denial metrics", denial, DENIAL_COLUMNS, ESTIMATE_CAPTION))
        errors = "Errors and responses without a choice"
        console.print(_estimates_table(errors, denial, ERROR_COLUMNS, ERROR_CAPTION, with_statuses=True))
    if intruder:
        title = "Find the intruder"
        console.print(_estimates_table(title, intruder, INTRUDER_COLUMNS, INTRUDER_CAPTION, with_statuses=True))
        console.print(_estimates_table("Places chosen", intruder, PLACE_COLUMNS, ESTIMATE_CAPTION))
        patterns = [(name, cell) for name, cell in intruder if cell.keys() & set(PATTERNS)]
        if patterns:
            columns = {p: p.replace("_", " + ") for p in PATTERNS if any(p in cell for _, cell in patterns)}
            absent = Estimate(None, None, None, 0, "no such tuple").to_json()
            filled = [(name, {**dict.fromkeys(columns, absent), **cell}) for name, cell in patterns]
            console.print(_estimates_table("By verb pattern", filled, columns, ESTIMATE_CAPTION))
    if strict := [(name, cell["strict"]) for name, cell in denial if has_responses(cell)]:
        console.print(_estimates_table("Bare answers alone (strict parsing)", strict, STRICT_COLUMNS, ESTIMATE_CAPTION))
    if others:
        columns = {"accuracy": "accuracy"}
        console.print(_estimates_table("Other setups", others, columns, ESTIMATE_CAPTION, with_statuses=True))
    if summary["graph_vqa"]:
        console.print(_graph_table(summary["graph_vqa"]))


def _flatten_intruder(cell: dict[str, Any]) -> dict[str, Any]:
    chosen = {f"chosen_{place['position'] + 1}": place["chosen"] for place in cell["positions"]}
    return {**cell, **cell["by_pattern"], **chosen}


def print_comparison(before: dict[str, Any], after: dict[str, Any], console: Console) -> None:
    """Print the accuracy on graph questions per kind in two summaries, and the change in percentage points."""
    notes = Footnotes()
    table = _table("Graph questions before and after", ("kind", "before", "after", "change"))
    absent = Estimate(None, None, None, 0, "not asked").to_json()
    for kind in sorted({*before["graph_vqa"], *after["graph_vqa"]}):
        old, new = (Estimate.from_json(summary["graph_vqa"].get(kind, absent)) for summary in (before, after))
        change = MISSING if old.value is None or new.value is None else f"{100 * (new.value - old.value):+.1f}"
        table.add_row(*map(Text, (kind, format_estimate(old, notes), format_estimate(new, notes), change)))
    console.print(_with_notes(table, notes, f"{ESTIMATE_CAPTION}; change in points"))


def rows_table(
    title: str, rows: Sequence[tuple[str, dict[str, Any]]], *, setup: str = "standard", prompt: str = "plain"
) -> RenderableType:
    """Return a table of T1, T2, Overall-AD, AP and HM with one row per (name, summary).

    Summaries that all have graph questions under the same prompt get a column for their accuracy too. Raises DataError if a summary
    lacks the setup and prompt.
    """
    cells, columns = _cells_of_runs(rows, setup, prompt)
    return _estimates_table(title, cells, columns, ESTIMATE_CAPTION)


def markdown_table(
    rows: Sequence[tuple[str, dict[str, Any]]], *, setup: str = "standard", prompt: str = "plain"
) -> str:
    """Return the rows of ``rows_table`` in Markdown, caption and footnotes below. Raises DataError as it does."""
    notes = Footnotes()
    runs, columns = _cells_of_runs(rows, setup, prompt)
    headers = [header.replace("\n", " ") for header in columns.values()]
    lines = ["| | " + " | ".join(headers) + " |", "| --- |" + " ---: |" * len(columns)]
    for name, cell in runs:
        estimates = estimates_of(cell, columns)
        cells = [name.replace("|", "\\|"), *(format_estimate(e, notes) for e in estimates)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "  \n".join([ESTIMATE_CAPTION, *notes.lines()]), ""])


def _cells_of_runs(
    rows: Sequence[tuple[str, dict[str, Any]]], setup: str, prompt: str
) -> tuple[list[Row], Mapping[str, str]]:
    """Return a cell per run and the columns that all of them have."""
    cells = [(name, select_cell(name, summary, setup, prompt)) for name, summary in rows]
    graph = [summary["setups"].get(GRAPH_SETUP, {}).get(prompt) for _, summary in rows]
    if not all(graph):
        return cells, DENIAL_COLUMNS
    joined = [
        (name, {**cell, GRAPH_SETUP: asked["accuracy"]})
        for (name, cell), asked in zip(cells, graph, strict=True)
        if asked
    ]
    return joined, {**DENIAL_COLUMNS, GRAPH_SETUP: "graph\nquestions"}


def _estimates_table(
    title: str, rows: Sequence[Row], columns: Mapping[str, str], caption: str, *, with_statuses: bool = False
) -> RenderableType:
    notes = Footnotes()
    headers = ("", *columns.values(), *(("no choice",) if with_statuses else ()))
    table = _table(title, headers)
    for name, cell in rows:
        estimates = [format_estimate(e, notes, stacked=True) for e in estimates_of(cell, columns)]
        statuses = [_format_statuses(cell)] if with_statuses else []
        table.add_row(*map(Text, (name, *estimates, *statuses)))
    return _with_notes(table, notes, caption)


def _graph_table(kinds: Mapping[str, Any]) -> RenderableType:
    notes = Footnotes()
    table = _table("Graph questions", ("kind", "accuracy", "interval", "n"))
    for kind, values in kinds.items():
        estimate = Estimate.from_json(values)
        cells = (kind, format_value(estimate, notes), format_interval(estimate), f"{estimate.n:,}")
        table.add_row(*map(Text, cells))
    return _with_notes(table, notes, f"percent, {INTERVAL}")


def _format_statuses(cell: dict[str, Any]) -> str:
    """Return how many responses of a cell gave no choice, a line per status, e.g. "2 unparsed"."""
    counts = [f"{cell[status]:,} {status}" for status in ParseStatus if status is not ParseStatus.OK and cell[status]]
    return "\n".join(counts) or "0"


def _table(title: str, headers: Sequence[str]) -> Table:
    table = Table(title=Text(title, style="bold"), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, header in enumerate(headers):
        if i == 0:
            table.add_column(Text(header), overflow="fold")
        else:
            table.add_column(Text(header), justify="right", no_wrap=True)
    return table


def _with_notes(table: Table, notes: Footnotes, caption: str) -> Group:
    return Group(table, *(Text(line, style="dim") for line in (caption, *notes.lines())), Text())
