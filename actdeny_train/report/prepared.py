"""What ``datasets.prepare`` found, as text for the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLUMNS = ("published", "listed", "usable", "missing", "broken")


def print_prepared(summary: Mapping[str, Any], console: Console) -> None:
    """Print clips per split beside the published counts, and what two splits have in common."""
    title = Text(f"{summary['dataset']} in {summary['root']}", style="bold")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, header in enumerate(("split", *COLUMNS)):
        table.add_column(header, justify="right" if i else "left")
    notes = []
    for split, found in summary["splits"].items():
        published = found["published"]
        told = " or ".join(f"{count:,}" for count in published) or "–"
        table.add_row(split, told, *(f"{found[name]:,}" for name in COLUMNS[1:]))
        if published and found["listed"] not in published:
            why = f" ({found['note']})" if found["note"] else ""
            notes.append(f"{split}: the lists have {found['listed']:,} clips, published are {told}{why}")
        elif published and found["usable"] < found["listed"]:
            why = f" ({found['note']})" if found["note"] else ""
            notes.append(
                f"{split}: {found['listed'] - found['usable']:,} of {found['listed']:,} listed clips cannot be used{why}"
            )
    console.print(table)
    for note in notes:
        console.print(Text(note))
    console.print(Text(_tell_duplicates(summary["duplicates"])))


def _tell_duplicates(found: Mapping[str, Any]) -> str:
    text = (
        f"across splits: {found['same_file']:,} pairs of equal files, {found['looks_alike']:,} pairs that look alike (up to "
        f"{found['max_bits']:g} of 64 bits a frame)"
    )
    if found["too_plain"]:
        text += f"; {found['too_plain']:,} videos are too plain to be compared"
    if found["groups_left_out"]:
        text += f"; {found['groups_left_out']:,} groups of frames that thousands of clips share were left out"
    return text
