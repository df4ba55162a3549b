"""Tables of summaries, on a terminal of 100 columns and in a pipe."""

import io
from typing import Any

import pytest
from rich.console import Console

from actdeny_train.errors import DataError
from actdeny_train.report.terminal import markdown_table, open_console, print_comparison, print_summary, rows_table

STATUSES = {"unparsed": 0, "refusal": 0, "truncated": 0, "error": 0}


def estimate(value: float | None, half: float | None, n: int, reason: str = "") -> dict[str, Any]:
    low, high = (None, None) if value is None or half is None else (value - half, value + half)
    return {"value": value, "low": low, "high": high, "n": n, **({"reason": reason} if reason else {})}


def released_cell() -> dict[str, Any]:
    """Return the cell of a run over the released files, which do not tell the types of denial clips."""
    unknown = "types not known for 3,549 denial clips"
    return {
        "t1": estimate(None, None, 0, unknown),
        "t2": estimate(None, None, 0, unknown),
        "overall_ad": estimate(0.515, 0.017, 3549),
        "ap": estimate(0.96, 0.015, 675),
        "overall": estimate(0.583, 0.015, 4224),
        "hm": estimate(0.67, 0.0125, 4224),
        "false_denial": estimate(0.02, 0.01, 675),
        "hallucinated_action": estimate(0.48, 0.017, 3549),
        "primary_distractor": estimate(0.9, 0.02, 1703),
        **STATUSES,
        "unparsed": 12,
        "error": 1,
        "types_unknown": 3549,
    }


def summary_of(**setups: dict[str, Any]) -> dict[str, Any]:
    return {"setups": setups, "graph_vqa": {}, "graph_vqa_groups": {}}


def printed(renderable: Any) -> str:
    stream = io.StringIO()
    open_console(stream).print(renderable)
    return stream.getvalue()


def words(text: str) -> list[str]:
    """Return the lines with runs of blanks made one, so that tests do not depend on column widths."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_summary_in_a_pipe() -> None:
    summary = summary_of(
        standard={"plain": released_cell(), "causalact": released_cell()},
        primary_distractor_removed={"causalact_zero": released_cell()},
        caption={"open": {"accuracy": estimate(0.25, 0.125, 40), "by_kind": {}, **STATUSES}},
    )
    summary["graph_vqa"] = {
        "node_count": estimate(1.0, 0.0, 20),
        "edge_count": estimate(0.5, None, 4, "no interval: why"),
    }
    stream = io.StringIO()
    print_summary(summary, open_console(stream))
    text, lines = stream.getvalue(), words(stream.getvalue())

    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    at = lines.index("standard –¹ (0) –¹ (0) 51.5 (3,549) 96.0 (675) 67.0 (4,224)")
    assert lines[at + 1] == "plain [49.8, 53.2] [94.5, 97.5] [65.8, 68.2]"
    assert lines.count("¹ types not known for 3,549 denial clips") == 1
    at = lines.index("standard 58.3 (4,224) 2.0 (675) 48.0 (3,549) 90.0 (1,703) 12 unparsed")
    assert lines[at + 1] == "plain [56.8, 59.8] [1.0, 3.0] [46.3, 49.7] [88.0, 92.0] 1 error"
    assert "caption 25.0 (40) 0" in lines
    assert "open [12.5, 37.5]" in lines
    assert "node_count 100.0 [100.0, 100.0] 20" in lines
    assert "edge_count 50.0¹ – 4" in lines
    assert "¹ no interval: why" in lines
    assert "primary_distractor_removed" in text


def test_summary_on_a_terminal_of_100_columns() -> None:
    summary = summary_of(standard={"plain": released_cell()})
    console = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    print_summary(summary, console)
    text = console.export_text()
    assert "51.5 (3,549)" in text and "[49.8, 53.2]" in text and "…" not in text


def test_empty_summary() -> None:
    stream = io.StringIO()
    print_summary(summary_of(), open_console(stream))
    assert stream.getvalue() == "No predictions, no metrics.\n"


def test_comparison_shows_the_change_in_points() -> None:
    before, after = summary_of(), summary_of()
    before["graph_vqa"] = {"node_count": estimate(0.25, 0.125, 40), "is_edge": estimate(0.5, 0.125, 40)}
    after["graph_vqa"] = {"node_count": estimate(0.875, 0.0625, 40), "is_path": estimate(0.5, 0.25, 8)}
    stream = io.StringIO()
    print_comparison(before, after, open_console(stream))
    lines = words(stream.getvalue())
    assert "node_count 25.0 [12.5, 37.5] (40) 87.5 [81.2, 93.8] (40) +62.5" in lines
    assert "is_edge 50.0 [37.5, 62.5] (40) –¹ (0) –" in lines
    assert "is_path –¹ (0) 50.0 [25.0, 75.0] (8) –" in lines
    assert "¹ not asked" in lines


def test_rows_of_a_study() -> None:
    rows = [("start [presence]", summary_of(standard={"plain": released_cell()}))] * 2
    lines = words(printed(rows_table("Study", rows)))
    assert lines[0] == "Study"
    assert "T1 T2 Overall-AD AP HM" in lines
    assert lines.count("start [presence] –¹ (0) –¹ (0) 51.5 (3,549) 96.0 (675) 67.0 (4,224)") == 2


def test_rows_in_markdown() -> None:
    rows = [("full | all parts", summary_of(standard={"plain": released_cell()}))]
    assert markdown_table(rows) == (
        "| | T1 | T2 | Overall-AD | AP | HM |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| full \\| all parts | –¹ (0) | –¹ (0) | 51.5 [49.8, 53.2] (3,549) | 96.0 [94.5, 97.5] (675) | "
        "67.0 [65.8, 68.2] (4,224) |\n"
        "\n"
        "percent (n), 95 % interval over resampled sources  \n"
        "¹ types not known for 3,549 denial clips\n"
    )


def test_rows_tell_graph_accuracy_where_every_run_has_it() -> None:
    asked = {"accuracy": estimate(0.75, 0.125, 40), "by_kind": {}, **STATUSES}
    with_graph = summary_of(standard={"plain": released_cell()}, graph_vqa={"plain": asked})
    without = summary_of(standard={"plain": released_cell()})
    both = markdown_table([("start", with_graph), ("end", with_graph)]).splitlines()
    assert both[0] == "| | T1 | T2 | Overall-AD | AP | HM | graph questions |"
    assert both[1].count("---:") == 6
    assert both[2].endswith("| 75.0 [62.5, 87.5] (40) |")
    assert "graph questions" not in markdown_table([("start", with_graph), ("end", without)])


def test_rows_of_a_setup_that_was_not_evaluated() -> None:
    caption = {"open": {"accuracy": estimate(0.25, 0.125, 40), "by_kind": {}, **STATUSES}}
    summary = summary_of(standard={"plain": released_cell()}, caption=caption)
    with pytest.raises(DataError) as error:
        rows_table("Study", [("start", summary)], prompt="plane")
    assert str(error.value) == (
        "Summary 'start' has no denial metrics of setup / prompt 'standard / plane', but of: standard / plain. "
        "Did you mean 'standard / plain'? Evaluate that setup and prompt first, or ask for another."
    )
    with pytest.raises(DataError, match="but of: none\\."):
        markdown_table([("start", summary_of(caption=caption))])
