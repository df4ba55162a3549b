"""How estimates are written in tables: percent with one decimal, interval, n, and a footnote for whatever is missing."""

from collections.abc import Iterable
from typing import Any, Literal

from actdeny_train.errors import DataError, near_misses
from actdeny_train.metrics.estimates import Estimate

MISSING = "–"
Unit = Literal["percent", "points", "number"]
"""How a value is written: a rate as percent, a difference of rates in percentage points with its sign, or the number itself."""
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Footnotes:
    """Numbered reasons below a table; a reason that comes again keeps its number."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def number(self, text: str) -> int:
        """Return the number of ``text``, from 1, adding it if it is new."""
        if text not in self._texts:
            self._texts.append(text)
        return self._texts.index(text) + 1

    def mark(self, text: str) -> str:
        """Return the superscript number of ``text``, adding it if it is new."""
        return str(self.number(text)).translate(_SUPERSCRIPTS)

    def lines(self) -> list[str]:
        """Return one line per footnote, in the order of their numbers."""
        return [f"{self.mark(text)} {text}" for text in self._texts]

    def texts(self) -> list[str]:
        """Return the footnotes in the order of their numbers."""
        return list(self._texts)


def percent(rate: float) -> str:
    """Return a rate in [0, 1] as percent with one decimal, e.g. "51.5"."""
    return f"{100 * rate:.1f}"


def format_number(value: float, unit: Unit = "percent") -> str:
    """Return a value in its unit: "51.5", "+3.2" or "1.25"."""
    match unit:
        case "percent":
            return percent(value)
        case "points":
            return f"{100 * value:+.1f}"
        case "number":
            return f"{value:.2f}"


def format_p(p: float | None) -> str:
    """Return a p value with three decimals, "< 0.001" below that, or a dash for None."""
    if p is None:
        return MISSING
    return f"{p:.3f}" if p >= 0.0005 else "< 0.001"


def format_interval(estimate: Estimate, unit: Unit = "percent") -> str:
    """Return "[49.8, 53.2]" in percent, or a dash where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return MISSING
    return f"[{format_number(estimate.low, unit)}, {format_number(estimate.high, unit)}]"


def format_value(estimate: Estimate, notes: Footnotes, unit: Unit = "percent") -> str:
    """Return the value in percent, or a dash, with the mark of its reason if it has one."""
    value = MISSING if estimate.value is None else format_number(estimate.value, unit)
    return value + (notes.mark(estimate.reason) if estimate.reason else "")


def format_estimate(estimate: Estimate, notes: Footnotes, *, stacked: bool = False, unit: Unit = "percent") -> str:
    """Return "51.5 [49.8, 53.2] (3,549)": value and interval in percent, and n.

    ``stacked`` puts the interval on a second line, for narrow columns. What is missing is a dash with a footnote.
    """
    value, n = format_value(estimate, notes, unit), f"({estimate.n:,})"
    if estimate.value is None:
        return f"{value} {n}"
    interval = format_interval(estimate, unit)
    return f"{value} {n}\n{interval}" if stacked else f"{value} {interval} {n}"


def select_cell(name: str, summary: dict[str, Any], setup: str, prompt: str) -> dict[str, Any]:
    """Return the denial metrics of one setup and prompt. Raises DataError, naming those there are, if it is not among them."""
    cells = {
        f"{s} / {p}": cell for s, prompts in summary["setups"].items() for p, cell in prompts.items() if is_denial(cell)
    }
    wanted = f"{setup} / {prompt}"
    if wanted not in cells:
        raise DataError(
            f"Summary {name!r} has no denial metrics of setup / prompt {wanted!r}, but of: {', '.join(cells) or 'none'}."
            f"{near_misses(wanted, cells)} Evaluate that setup and prompt first, or ask for another."
        )
    return cells[wanted]


def is_denial(cell: dict[str, Any]) -> bool:
    """Return True for the cell of a denial setup, False for one that has only an accuracy."""
    return "hm" in cell


def is_intruder(cell: dict[str, Any]) -> bool:
    """Return True for the cell of the setup "intruder"."""
    return "by_pattern" in cell


def has_responses(cell: dict[str, Any]) -> bool:
    """Return True for a denial cell with responses that strict parsing can judge."""
    return bool((cell.get("strict") or {}).get("bare", {}).get("n"))


def estimates_of(cell: dict[str, Any], names: Iterable[str]) -> list[Estimate]:
    """Return the named estimates of a cell."""
    return [Estimate.from_json(cell[name]) for name in names]
