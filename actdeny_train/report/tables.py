"""Tables as data, and how they are written in Markdown and LaTeX."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from actdeny_train.metrics.estimates import Estimate
from actdeny_train.report.cells import MISSING, Footnotes, Unit, format_estimate, format_number, format_p

Content = Estimate | str | int | float | None
"""What stands in a cell. None is a dash."""


@dataclass(frozen=True, slots=True)
class Column:
    """``key`` names the column in the page's attributes; ``unit`` says how what stands below the title is written."""

    key: str
    title: str
    unit: Unit | Literal["text", "p"] = "percent"


@dataclass(frozen=True, slots=True)
class Table:
    """``key`` is unique within a report. ``remarks`` stand below the caption."""

    key: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Content, ...], ...]
    remarks: tuple[str, ...] = ()


def write_content(content: Content, column: Column, notes: Footnotes, *, stacked: bool = False) -> str:
    """Return what stands in a cell as plain text, e.g. "51.5 [49.8, 53.2] (3,549)"; ``stacked`` as in ``format_estimate``."""
    if content is None:
        return MISSING
    if isinstance(content, str):
        return content
    if isinstance(content, Estimate):
        assert column.unit != "text" and column.unit != "p", f"an estimate in column {column.key} of unit {column.unit}"
        return format_estimate(content, notes, unit=column.unit, stacked=stacked)
    if column.unit == "text":
        return f"{content:,}" if isinstance(content, int) else f"{content:,.1f}"
    return format_p(content) if column.unit == "p" else format_number(content, column.unit)


def to_markdown(tables: Sequence[Table]) -> str:
    """Return tables in Markdown, each with its caption and footnotes."""
    return "\n".join(_markdown(table) for table in tables)


def _markdown(table: Table) -> str:
    notes = Footnotes()
    rows = [[write_content(x, c, notes) for x, c in zip(row, table.columns, strict=True)] for row in table.rows]
    lines = [
        "| " + " | ".join(_escape_markdown(column.title) for column in table.columns) + " |",
        "| " + " | ".join("---" if is_name(table, i) else "---:" for i in range(len(table.columns))) + " |",
        *("| " + " | ".join(map(_escape_markdown, row)) + " |" for row in rows),
    ]
    below = "  \n".join(map(_escape_markdown, (table.caption, *table.remarks, *notes.lines())))
    return "\n".join([f"## {_escape_markdown(table.title)}", "", *lines, "", below, ""])


def _escape_markdown(text: str) -> str:
    # Brackets matter only where a link could begin; intervals stay readable.
    return re.sub(r"([\\|*_`<>]|\](?=\())", r"\\\1", " ".join(text.split()))


def to_latex(tables: Sequence[Table]) -> str:
    r"""Return tables as LaTeX floats in the style of booktabs: ``\usepackage{booktabs}`` is all that they need."""
    opening = "% Needs \\usepackage{booktabs}.\n"
    return opening + "\n".join(_latex(table) for table in tables)


def _latex(table: Table) -> str:
    notes = Footnotes()
    rows = [[_latex_cell(x, c, notes) for x, c in zip(row, table.columns, strict=True)] for row in table.rows]
    align = "".join("l" if is_name(table, i) else "r" for i in range(len(table.columns)))
    below = " ".join(map(_escape_latex, (table.caption, *table.remarks, *notes.lines())))
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{_escape_latex(table.title)}. {below}}}",
            rf"\label{{tab:{re.sub('[^a-z0-9-]', '-', table.key.lower())}}}",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            " & ".join(_escape_latex(column.title) for column in table.columns) + r" \\",
            r"\midrule",
            *(" & ".join(row) + r" \\[2pt]" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def _latex_cell(content: Content, column: Column, notes: Footnotes) -> str:
    lines = write_content(content, column, notes, stacked=True).split("\n")
    if len(lines) == 1:
        return _escape_latex(lines[0])
    value, interval = map(_escape_latex, lines)
    return rf"\begin{{tabular}}[t]{{@{{}}r@{{}}}}{value}\\[-2pt]{{\scriptsize {interval}}}\end{{tabular}}"


_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "[": "{[}",  # else an optional argument, where it opens a row
    "–": "--",
    "′": "$'$",
    **{mark: rf"\textsuperscript{{{i}}}" for i, mark in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}


def _escape_latex(text: str) -> str:
    text = "".join(_LATEX.get(c, c) for c in " ".join(text.split()))
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", text)


def is_name(table: Table, i: int) -> bool:
    """Return True for a column of words, which are set to the left; numbers are set to the right."""
    return table.columns[i].unit == "text" and all(isinstance(row[i], str | None) for row in table.rows)
