"""The tables of a report that stand in ``metrics.json``: results, errors, answers, certainty, sycophancy, classes, places, cost."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from actdeny_train.metrics.bootstrap import LEVEL
from actdeny_train.metrics.estimates import Estimate
from actdeny_train.report.cells import has_responses, is_intruder
from actdeny_train.report.runs import CellName, SavedRun, cell_names, cells_of
from actdeny_train.report.tables import Column, Content, Table
from actdeny_train.types import ParseStatus

INTERVAL = f"{100 * LEVEL:.0f} % interval over resampled sources"
PERCENT = f"Percent, {INTERVAL}, n."
OLD = "not in this run's metrics.json, which an older version wrote: evaluate again to have it"
STATUSES = tuple(status.value for status in ParseStatus if status is not ParseStatus.OK)
METRIC_TITLES = {"t1": "T1", "t2": "T2", "overall_ad": "Overall-AD", "ap": "AP", "overall": "Overall", "hm": "HM"}
STRICT_METRICS = ("t1", "t2", "overall_ad", "ap", "hm")
ANSWER_TITLES = {
    "target_action": "the clip's action",
    "primary_distractor": "primary distractor",
    "other_action": "another action",
    "none": "none choice",
    **{status: status for status in STATUSES},
}
"""What an answer is, by its key in ``answers_on_denial`` and ``answers_on_presence``."""

SETUP, PROMPT, RUN = Column("setup", "setup", "text"), Column("prompt", "prompt", "text"), Column("run", "run", "text")
CELL = (SETUP, PROMPT, RUN)


def results(runs: Sequence[SavedRun]) -> Table | None:
    """Return the table of the paper: T1, T2, Overall-AD, AP, Overall and HM of each denial setup, prompt and run."""
    columns = [Column(key, title) for key, title in METRIC_TITLES.items()]
    return _cells_table("results", "Denial metrics", PERCENT, runs, columns)


def errors(runs: Sequence[SavedRun]) -> Table | None:
    """Return what went wrong, and how many responses gave no choice."""
    columns = [
        Column("false_denial", "false denials"),
        Column("hallucinated_action", "hallucinated actions"),
        Column("primary_distractor", "primary distractor"),
        *(Column(status, status, "text") for status in STATUSES),
    ]
    caption = (
        f"{PERCENT} False denials: none choices on presence clips. Hallucinated actions: action choices on denial clips; primary "
        "distractor: its share among them. The last columns count responses without a choice: not right, and in n."
    )
    return _cells_table("errors", "Errors and responses without a choice", caption, runs, columns)


def pairs(runs: Sequence[SavedRun]) -> Table | None:
    """Return pair accuracy, and how parsed responses agree with the scores."""
    columns = [
        Column("pair", "pair accuracy"),
        Column("agreement", "response = best score"),
        Column("score_accuracy", "accuracy by score"),
    ]
    caption = (
        f"Percent, {INTERVAL}, n. Pair accuracy: the chance that a random presence clip and a random denial clip of a class are both "
        "right, mean over n classes; always denying gives 0. The others hold where responses were generated and choices scored too."
    )
    return _cells_table("pairs", "Pairs and agreement", caption, runs, columns)


def strict(runs: Sequence[SavedRun]) -> Table | None:
    """Return the results if only bare answers count, or None where nothing was generated."""
    if not any(has_responses(cell) for _, _, cell in cells_of(runs, denial=True)):
        return None
    columns = [Column("bare", "bare answers"), *(Column(k, METRIC_TITLES[k]) for k in STRICT_METRICS)]
    caption = (
        f"{PERCENT} Bare answers: responses that are an answer and nothing else. Any other response counts as none here, while the "
        "results above take every answer that a response states."
    )
    return _cells_table("strict", "Under strict parsing", caption, runs, columns, lambda cell: cell.get("strict"))


def rotations(runs: Sequence[SavedRun]) -> Table | None:
    """Return the results of answers averaged over rotations, or None where no question was asked in rotation."""
    if not any((cell.get("rotations") or {}).get("same", {}).get("n") for _, _, cell in cells_of(runs, denial=True)):
        return None
    columns = [Column("same", "same answer throughout"), *(Column(k, METRIC_TITLES[k]) for k in STRICT_METRICS)]
    caption = (
        f"{PERCENT} Each question was asked several times, its choices one place further each time; the answer is the choice with the "
        "highest mean log-probability. Same answer throughout: the questions whose answer does not depend on the places."
    )
    return _cells_table(
        "rotations", "Averaged over rotations", caption, runs, columns, lambda cell: cell.get("rotations")
    )


def answer_kinds(runs: Sequence[SavedRun], side: str) -> Table | None:
    """Return what was answered on the clips of a side, "denial" or "presence"."""
    key = f"answers_on_{side}"
    columns = [Column(name, title) for name, title in ANSWER_TITLES.items()]
    title = f"What was answered on {side} clips"
    return _cells_table(f"answers-{side}", title, PERCENT, runs, columns, lambda cell: cell.get(key))


def abstention(runs: Sequence[SavedRun]) -> Table | None:
    """Return how well the probability of the none choice tells denial from presence, and how well confidence tells right from wrong."""
    columns = [
        Column("auroc_none", "AUROC of p(none)", "number"),
        Column("aurc", "AURC", "number"),
        Column("ece_denial", "ECE, denial", "number"),
        Column("ece_presence", "ECE, presence", "number"),
    ]
    caption = (
        f"{INTERVAL}, n. AUROC of p(none): denial against presence clips, 0.5 is chance. AURC: area under risk over coverage, lower is "
        "better. ECE: calibration error of p(none), 0 is best; where the none choice is always right, or never, the mean distance to that."
    )
    title = "Certainty"
    return _cells_table("abstention", title, caption, runs, columns, lambda cell: cell.get("abstention"))


def other_setups(runs: Sequence[SavedRun]) -> Table | None:
    """Return the accuracy of setups in which nothing is denied."""
    columns = [Column("accuracy", "accuracy"), *(Column(status, status, "text") for status in STATUSES)]
    return _cells_table("others", "Other setups", PERCENT, runs, columns, denial=False)


def detection(runs: Sequence[SavedRun]) -> Table | None:
    """Return d' and criterion of yes/no questions about the clip's action."""
    columns = [
        Column("hit_rate", "hits"),
        Column("false_alarm_rate", "false alarms"),
        Column("d_prime", "d′", "number"),
        Column("criterion", "criterion c", "number"),
        Column("auroc", "AUROC", "number"),
    ]
    caption = (
        f"Percent where of yes, {INTERVAL}, n. Hits: yes on presence clips; false alarms: yes on denial clips. d′ tells how well the two "
        "are told apart, c the readiness to say yes: below 0 is a bias to yes. Neither says much without the other."
    )
    return _prompts_table("detection", "Detection: is the clip's action happening?", caption, runs, columns)


def sycophancy(runs: Sequence[SavedRun]) -> Table | None:
    """Return how errors of the standard question and agreeing with yes/no questions go together on denial clips."""
    sides = {"all": "all", "t1": "T1", "t2": "T2"}
    columns: list[Column] = []
    for key, title in sides.items():
        columns += [Column(f"r_{key}", f"r, {title}", "number"), Column(f"p_{key}", "p", "p")]
    columns += [
        Column("yes_given_wrong", "yes if wrong"),
        Column("yes_given_right", "yes if right"),
        Column("yes_primary", "yes, own action"),
        Column("yes_random", "yes, other action"),
    ]

    def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
        correlations = {f"{x}_{key}": values[key][x] for key in sides if key in values for x in ("r", "p")}
        return {**values, **correlations}

    caption = (
        f"Denial clips. r: correlation over clips between a wrong answer to the standard question (shortcut) and a yes about the clip's "
        f"action (sycophancy), with its p. The others: share of yes in percent, {INTERVAL}, n: where the standard question was answered "
        "wrong or right, and about the clip's own or another action."
    )
    return _prompts_table("sycophancy", "Sycophancy and shortcut", caption, runs, columns, flatten)


def graph_questions(runs: Sequence[SavedRun]) -> Table | None:
    """Return the accuracy on graph questions per kind and per group of kinds."""
    rows: list[tuple[Content, ...]] = []
    for level, key in (("group", "graph_vqa_groups"), ("kind", "graph_vqa")):
        for name in dict.fromkeys(n for run in runs for n in run.metrics.get(key, {})):
            rows.append((f"{level}: {name}", *(_estimate(run.metrics.get(key, {}), name, "not asked") for run in runs)))
    columns = (Column("question", "questions", "text"), *(Column(f"run{i}", run.label) for i, run in enumerate(runs)))
    return Table("graph", "Graph questions", PERCENT, columns, tuple(rows)) if rows else None


def classes(runs: Sequence[SavedRun], name: CellName) -> Table | None:
    """Return the metrics of each class in one setup and prompt."""
    found = [(run, cell["by_class"]) for run in runs if (cell := run.cell(name)) and "by_class" in cell]
    columns = (
        Column("class", "class", "text"),
        RUN,
        *(Column(k, t) for k, t in METRIC_TITLES.items() if k != "overall"),
    )
    rows: list[tuple[Content, ...]] = [
        (action, run.label, *(_estimate(by_class.get(action, {}), c.key, "not asked") for c in columns[2:]))
        for action in sorted({action for _, by_class in found for action in by_class})
        for run, by_class in found
    ]
    return make_table(runs, f"classes-{'-'.join(name)}", "By class", "Percent, n.", columns, rows)


def positions(runs: Sequence[SavedRun], name: CellName) -> Table | None:
    """Return how often each place was chosen and was right, in one setup and prompt."""
    columns = (
        Column("place", "place", "text"),
        RUN,
        Column("chosen", "chosen"),
        Column("target", "right answer stands there"),
        Column("right", "accuracy there"),
    )
    found = [(run, cell["positions"]) for run in runs if (cell := run.cell(name)) and "positions" in cell]
    rows: list[tuple[Content, ...]] = [
        (str(row["position"] + 1), run.label, *(_estimate(row, c.key) for c in columns[2:]))
        for i in range(max((len(rows) for _, rows in found), default=0))
        for run, rows in found
        for row in rows[i : i + 1]
    ]
    return make_table(runs, f"positions-{'-'.join(name)}", "By place", "Percent, n.", columns, rows)


def cost(runs: Sequence[SavedRun]) -> Table | None:
    """Return what the answers took, as ``evaluation.cost`` sums it up."""
    titles = {
        "num_processes": "processes",
        "num_clips": "clips",
        "num_questions": "questions",
        "num_tokens": "tokens",
        "num_tokens_alone": "one by one",
        "saved": "times fewer",
        "decode_s": "decode s",
        "prepare_s": "prepare s",
        "encode_s": "encode s",
        "llm_s": "LLM s",
        "wall_s": "wall min",
        "process_s": "process min",
        "peak_gib": "peak GiB",
        "devices": "devices",
    }
    columns = (RUN, *(Column(key, title, "text") for key, title in titles.items()))
    rows = [(run.label, *_cost(run.metrics["cost"], titles)) for run in runs if run.metrics.get("cost")]
    caption = (
        "Over all sessions of a run. Tokens: in forests, and one by one, had each question been asked alone. Wall: the longest process; "
        "process: the sum over processes. Seconds of the stages are summed over processes too."
    )
    return Table("cost", "Cost", caption, columns, tuple(rows)) if rows else None


def _cost(values: Mapping[str, Any], keys: Iterable[str]) -> list[Content]:
    def written(key: str) -> Content:
        if key == "saved":
            return values["num_tokens_alone"] / values["num_tokens"] if values.get("num_tokens") else None
        value = values.get(key)
        if value is None or key.startswith("num_"):
            return value
        if key == "devices":
            return ", ".join(value)
        return float(value) / (60 if key in ("wall_s", "process_s") else 1)

    return [written(key) for key in keys]


def _cells_table(
    key: str,
    title: str,
    caption: str,
    runs: Sequence[SavedRun],
    columns: Iterable[Column],
    part: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = lambda cell: cell,
    *,
    denial: bool = True,
) -> Table | None:
    """Return a row for each setup, prompt and run, or None if no run has any of the columns. ``part`` finds them in a cell."""
    columns = tuple(columns)
    rows: list[tuple[Content, ...]] = []
    known = False
    for (setup, prompt), run, cell in cells_of(runs, denial=denial):
        if is_intruder(cell):  # has tables of its own
            continue
        values = part(cell) or {}
        known = known or any(column.key in values for column in columns)
        rows.append((setup, prompt, run.label, *(read_content(values, column) for column in columns)))
    return make_table(runs, key, title, caption, (*CELL, *columns), rows) if known else None


def _prompts_table(
    key: str,
    title: str,
    caption: str,
    runs: Sequence[SavedRun],
    columns: Iterable[Column],
    read: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda values: values,
) -> Table | None:
    """Return a row for each prompt and run of a part of ``metrics.json`` that joins setups, or None if no run has it."""
    columns = tuple(columns)
    found = [(run, run.metrics.get(key) or {}) for run in runs]
    prompts = [prompt for prompt in _prompts(runs) if any(prompt in values for _, values in found)]
    rows: list[tuple[Content, ...]] = [
        (prompt, run.label, *(read_content(read(values[prompt]), column) for column in columns))
        for prompt in prompts
        for run, values in found
        if prompt in values
    ]
    return make_table(runs, key, title, caption, (PROMPT, RUN, *columns), rows)


def make_table(
    runs: Sequence[SavedRun],
    key: str,
    title: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[tuple[Content, ...]],
) -> Table | None:
    """Return a table, without the column of runs if there is one run alone, or None if it has no rows."""
    kept = [i for i, column in enumerate(columns) if column is not RUN or len(runs) > 1]
    cut = tuple(tuple(row[i] for i in kept) for row in rows)
    return Table(key, title, caption, tuple(columns[i] for i in kept), cut) if rows else None


def _prompts(runs: Sequence[SavedRun]) -> list[str]:
    return list(dict.fromkeys(prompt for _, prompt in cell_names(runs, denial=True)))


def read_content(values: Mapping[str, Any], column: Column, absent: str = OLD) -> Content:
    """Return what stands under a column's key in a part of ``metrics.json``; ``absent`` says why an estimate is not there."""
    if column.unit in ("text", "p"):
        return values.get(column.key)
    return _estimate(values, column.key, absent)


def _estimate(values: Mapping[str, Any], key: str, absent: str = OLD) -> Estimate:
    return Estimate.from_json(values[key]) if key in values else Estimate(None, None, None, 0, absent)
