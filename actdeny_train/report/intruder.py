"""Tables of the setup "intruder": accuracy beside the published figures, by verb pattern and by place."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actdeny_train.metrics.intruder import CHANCE, PATTERNS, PUBLISHED, SETUP, compare_intruder
from actdeny_train.report.cells import is_intruder
from actdeny_train.report.results import INTERVAL, PERCENT, PROMPT, RUN, STATUSES, make_table, read_content
from actdeny_train.report.runs import CellName, SavedRun, cells_of
from actdeny_train.report.tables import Column, Content, Table

UNKNOWN = "unknown"
"""Verb pattern of tuples whose verbs are not known."""


def accuracies(runs: Sequence[SavedRun]) -> Table | None:
    """Return the accuracy of each prompt and run with both intervals, and by the score where responses were generated too."""
    columns = (
        Column("accuracy", "accuracy"),
        Column("accuracy_exact", "exact interval"),
        Column("score_accuracy", "accuracy by score"),
        Column("agreement", "response = best score"),
        *(Column(status, status, "text") for status in STATUSES),
    )
    caption = (
        f"{PERCENT} A source is a tuple of four captions. Exact: Clopper and Pearson's interval. Chance is {100 * CHANCE:.0f} percent; "
        "an answer without a choice counts as wrong."
    )
    rows = [(prompt, run.label, *(read_content(cell, c) for c in columns)) for (_, prompt), run, cell in _cells(runs)]
    return make_table(runs, "intruder", "Find the intruder", caption, (PROMPT, RUN, *columns), rows)


def by_pattern(runs: Sequence[SavedRun]) -> Table | None:
    """Return the accuracy by how the verbs of the four captions coincide; None where no verbs are known."""
    known = {name for _, _, cell in _cells(runs) for name in cell["by_pattern"]}
    if not known - {UNKNOWN}:
        return None
    columns = [
        Column(name, name.replace("_", " + ") if name != "4" else "one verb")
        for name in (*PATTERNS, UNKNOWN)
        if name in known
    ]
    caption = (
        f"{PERCENT} 3 + 1: three captions share a verb, and so on. Where verbs mislead, patterns score differently: in 2 + 2 no verb "
        "stands alone."
    )
    rows = [
        (prompt, run.label, *(read_content(cell["by_pattern"], c, "no such tuple") for c in columns))
        for (_, prompt), run, cell in _cells(runs)
    ]
    return make_table(runs, "intruder-patterns", "By verb pattern", caption, (PROMPT, RUN, *columns), rows)


def by_place(runs: Sequence[SavedRun]) -> Table | None:
    """Return how often each place was chosen, and the accuracy where the intruder stands there."""
    columns = (Column("chosen", "chosen"), Column("target", "intruder stands there"), Column("right", "accuracy there"))
    rows = [
        (prompt, run.label, str(place["position"] + 1), *(read_content(place, c) for c in columns))
        for (_, prompt), run, cell in _cells(runs)
        for place in cell["positions"]
    ]
    head = (PROMPT, RUN, Column("place", "place", "text"))
    return make_table(runs, "intruder-places", "By place of the intruder", PERCENT, (*head, *columns), rows)


def compared(runs: Sequence[SavedRun]) -> Table | None:
    """Return the difference of each run to the first one, on the questions that both were asked in the same words."""
    columns = (
        PROMPT,
        Column("run", "run", "text"),
        Column("a", runs[0].label),
        Column("b", "run's"),
        Column("difference", "difference", "points"),
        Column("only_a", "right in the first alone", "text"),
        Column("only_b", "right in this alone", "text"),
        Column("p", "McNemar's p", "p"),
    )
    rows: list[tuple[Content, ...]] = []
    for prompt in dict.fromkeys(prompt for (_, prompt), _, _ in _cells(runs)):
        first, *others = ([p for p in run.predictions if (p.setup, p.prompt) == (SETUP, prompt)] for run in runs)
        for run, predictions in zip(runs[1:], others, strict=True):
            found = compare_intruder(first, predictions)
            if found is not None:
                values = (found.a, found.b, found.difference, found.only_a, found.only_b, found.p)
                rows.append((prompt, run.label, *values))
    caption = (
        f"Percent and n; the difference to {runs[0].label} in percentage points with its {INTERVAL}, tuples resampled with both runs' "
        "answers. McNemar's exact test takes questions as independent; p is not corrected for the number of rows."
    )
    return Table("intruder-compared", "Find the intruder, compared", caption, columns, tuple(rows)) if rows else None


def published() -> Table:
    """Return the accuracies of CALAMITA's harness."""
    columns = (Column("model", "model", "text"), Column("accuracy", "accuracy"))
    caption = (
        "Percent. Captions alone, the answer with the highest log-likelihood behind the harness's own Italian prompt, no template: compare "
        "with layout continuation and that prompt. The harness takes a number in the column intruder as counted from 0; whether the "
        "file's numbers are meant so is not known here."
    )
    return Table("published-intruder", "Published: MACID", caption, columns, tuple(PUBLISHED.items()))


def _cells(runs: Sequence[SavedRun]) -> Iterator[tuple[CellName, SavedRun, Mapping[str, Any]]]:
    for name, run, cell in cells_of(runs, denial=False):
        if name[0] == SETUP and is_intruder(cell):
            yield name, run, cell
