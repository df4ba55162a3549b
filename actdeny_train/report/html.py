"""One self-contained HTML page (and Markdown and LaTeX tables) of saved runs: no network, no fonts, no time of making."""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from actdeny_train.errors import ConfigError
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.report import comparisons, intruder, plots, results, svg
from actdeny_train.report.cells import MISSING, Footnotes, format_interval, format_number, percent
from actdeny_train.report.gallery import make_gallery
from actdeny_train.report.runs import SavedRun, cell_names, load_runs
from actdeny_train.report.tables import Column, Content, Table, is_name, to_latex, to_markdown, write_content

SIDES = ("denial", "presence")
PARTS = {
    "pair": "pair accuracy",
    "answers_on_denial": "kinds of answers",
    "by_class": "metrics by class",
    "positions": "choices by place",
    "abstention": "certainty",
    "detection": "detection",
    "sycophancy": "sycophancy",
}
"""What older versions of ``metrics.json`` do not have: in cells, and (the last two) beside them."""


def write_report(runs: Sequence[Path], out: Path, *, markdown: Path | None = None, latex: Path | None = None) -> Path:
    """Write a page about run folders to ``out`` and return that path; also their tables in Markdown and LaTeX, where named.

    Each run is compared with the first one. The same folders give the same bytes. Raises DataError for a folder that is no finished
    evaluation or whose files contradict each other, ConfigError where a file cannot be written.
    """
    if not runs:
        raise ConfigError("No run was named. Name at least one folder that tools/evaluate.py wrote: runs/<name>.")
    loaded = load_runs(runs)
    compared = comparisons.compare_with_first(loaded)
    texts: dict[Path, Callable[[], str]] = {out: lambda: _page(loaded, compared)}
    if markdown is not None:
        texts[markdown] = lambda: to_markdown(_tables(loaded, compared))
    if latex is not None:
        texts[latex] = lambda: to_latex(_tables(loaded, compared))
    for path, text in texts.items():
        _write(path, text())
    return out


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigError(
            f"The report cannot be written to {str(path)!r}: {error.strerror}. Name another file."
        ) from None


def _tables(runs: Sequence[SavedRun], compared: Sequence[comparisons.Compared]) -> list[Table]:
    """Return the tables of Markdown and LaTeX: those of the page but the long ones by class and by place, and the published ones."""
    made = [
        results.results(runs),
        results.errors(runs),
        comparisons.prompts(runs),
        results.strict(runs),
        results.rotations(runs),
        results.pairs(runs),
        *(results.answer_kinds(runs, side) for side in SIDES),
        results.abstention(runs),
        results.detection(runs),
        results.sycophancy(runs),
        results.other_setups(runs),
        results.graph_questions(runs),
        *intruder_tables(runs),
        *(table for pair in _comparisons(compared) for table in pair["tables"]),
        results.cost(runs),
        comparisons.published(),
        comparisons.published_finetuned(),
    ]
    return [table for table in made if table is not None]


def intruder_tables(runs: Sequence[SavedRun]) -> list[Table]:
    """Return the tables of the setup "intruder" and the published one, none where no run has asked it."""
    made = [intruder.accuracies(runs), intruder.by_pattern(runs), intruder.by_place(runs), intruder.compared(runs)]
    found = [table for table in made if table is not None]
    return [*found, intruder.published()] if found else []


def _comparisons(compared: Sequence[comparisons.Compared]) -> list[dict[str, Any]]:
    told = []
    for i, pair in enumerate(compared):
        made: list[Table] = []
        if pair.comparison is not None:
            key = f"comparison{i + 1}"
            made = [make(pair.labels, pair.comparison, key) for make in (comparisons.changes, comparisons.mcnemar)]
        told.append({"labels": pair.labels, "reason": pair.reason, "tables": made})
    return told


def _page(runs: Sequence[SavedRun], compared: Sequence[comparisons.Compared]) -> str:
    names = cell_names(runs, denial=True)
    prompts = list(dict.fromkeys(prompt for _, prompt in names))
    charts = {
        "bars": _drawn(plots.metric_bars(runs, name) for name in names),
        "answers": {side: _drawn(plots.answer_stacks(runs, name, side) for name in names) for side in SIDES},
        "sycophancy": _drawn(plots.sycophancy_points(runs, prompt) for prompt in prompts),
    }
    cells = [
        {
            "name": f"{setup} / {prompt}",
            "charts": _drawn(
                (
                    plots.class_points(runs, (setup, prompt)),
                    plots.chosen_places(runs, (setup, prompt)),
                    plots.none_places(runs, (setup, prompt)),
                    plots.risk_coverage(runs, (setup, prompt)),
                    plots.reliability(runs, (setup, prompt)),
                )
            ),
            "tables": [
                t for t in (results.classes(runs, (setup, prompt)), results.positions(runs, (setup, prompt))) if t
            ],
        }
        for setup, prompt in names
    ]
    galleries = [make_gallery(run) for run in runs]
    fooled = [f for g in galleries for f in g.shown]
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            runs=[_about(run, i) for i, run in enumerate(runs)],
            notes=_notes(runs),
            tables={
                "results": results.results(runs),
                "errors": results.errors(runs),
                "prompts": comparisons.prompts(runs),
                "strict": results.strict(runs),
                "rotations": results.rotations(runs),
                "pairs": results.pairs(runs),
                "answers": [results.answer_kinds(runs, side) for side in SIDES],
                "abstention": results.abstention(runs),
                "detection": results.detection(runs),
                "sycophancy": results.sycophancy(runs),
                "others": results.other_setups(runs),
                "graph": results.graph_questions(runs),
                "intruder": intruder_tables(runs),
                "cost": results.cost(runs),
                "published": [comparisons.published(), comparisons.published_finetuned()],
            },
            charts=charts,
            cells=cells,
            answer_legend=[(key, results.ANSWER_TITLES[key]) for key in plots.has_answers(runs)],
            comparisons=_comparisons(compared),
            galleries=galleries,
            fooled=fooled,
            filters={
                "run": list(dict.fromkeys(f.run for f in fooled)),
                "class": sorted({f.prediction.action for f in fooled}),
                "type": sorted({f.prediction.kind for f in fooled}),
                "setup": list(dict.fromkeys(s for s, _ in names if any(f.prediction.setup == s for f in fooled))),
                "prompt": [p for p in prompts if any(f.prediction.prompt == p for f in fooled)],
                "error": sorted({f.error for f in fooled}),
            },
            style=_asset("report.css"),
            script=_asset("report.js"),
        )
    )


def _drawn(charts: Any) -> list[dict[str, Any]]:
    return [{"title": c.title, "caption": c.caption, "svg": Markup(c.svg)} for c in charts if c is not None]


def _about(run: SavedRun, i: int) -> dict[str, Any]:
    """Return what the head of the page tells of a run; a dash where the folder does not say it."""
    about, clips = run.about, run.metrics.get("clips") or {}
    fingerprints = about.get("fingerprints") or (run.predictions[0].fingerprints if run.predictions else {})
    facts = {
        "model": about.get("model"),
        "checkpoint": run.checkpoint,
        "frames": about.get("frames"),
        "view": about.get("view"),
        "answers": about.get("answers"),
        "precision": about.get("precision"),
        "weights": fingerprints.get("weights"),
        "split": clips.get("split"),
        "clips used": clips.get("used"),
        "quarantined": clips.get("quarantined"),
        "predictions": len(run.predictions),
        "versions": ", ".join(f"{name} {version}" for name, version in (about.get("versions") or {}).items()),
    }
    return {
        "label": run.label,
        "style": i % svg.NUM_STYLES,
        "swatch": Markup(svg.swatch(i)),
        "facts": {name: f"{v:,}" if isinstance(v, int) else str(v or MISSING) for name, v in facts.items()},
        "quarantined": run.quarantined,
    }


def _notes(runs: Sequence[SavedRun]) -> list[str]:
    """Return what the report lacks because a run folder lacks it."""
    notes = []
    for run in runs:
        if run.missing:
            notes.append(f"{run.label}: the folder has no {', no '.join(run.missing)}.")
        cells = [cell for name in cell_names([run], denial=True) if (cell := run.cell(name))]
        lacking = [
            told
            for key, told in PARTS.items()
            if cells and not any(key in cell for cell in cells) and key not in run.metrics
        ]
        if lacking:
            notes.append(
                f"{run.label}: metrics.json was written by an older version and has no {', no '.join(lacking)}. Evaluate again to have it "
                "written anew; answers that are there are kept."
            )
    return notes


@dataclass(frozen=True, slots=True)
class _Shown:
    """A cell of a table as the page shows it. ``number`` is that of its footnote, 0 without one."""

    column: Column
    text: str
    interval: str = ""
    n: str = ""
    number: int = 0
    reason: str = ""
    exact: str = ""


def _show(table: Table) -> dict[str, Any]:
    """Return a table's rows as the page shows them, its footnotes, which columns hold words, and how many of these lead."""
    notes = Footnotes()
    rows = [[_show_content(x, c, notes) for x, c in zip(row, table.columns, strict=True)] for row in table.rows]
    names = [is_name(table, i) for i in range(len(table.columns))]
    leading = names.index(False) if False in names else len(names)
    return {"rows": rows, "notes": notes.texts(), "names": names, "leading": leading}


def _show_content(content: Content, column: Column, notes: Footnotes) -> _Shown:
    if not isinstance(content, Estimate):
        return _Shown(column, write_content(content, column, notes), exact="" if content is None else str(content))
    assert column.unit != "text" and column.unit != "p", column
    e = content
    return _Shown(
        column,
        MISSING if e.value is None else format_number(e.value, column.unit),
        interval=format_interval(e, column.unit) if e.low is not None else "",
        n=f"{e.n:,}",
        number=notes.number(e.reason) if e.reason else 0,
        reason=e.reason,
        exact="" if e.value is None else repr(e.value),
    )


def _break_words(text: str) -> Markup:
    """Return text that may be broken after underscores and slashes."""
    return Markup("<wbr>").join(re.split(r"(?<=[_/])(?=\w)", text))


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("actdeny_train.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["show"] = _show
    environment.filters["percent"] = percent
    environment.filters["breakable"] = _break_words
    return environment


def _asset(name: str) -> Markup:
    return Markup((Path(__file__).with_name("templates") / name).read_text(encoding="utf-8"))
