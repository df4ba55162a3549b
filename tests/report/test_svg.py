"""Charts: every mark stands where its value says."""

import xml.etree.ElementTree as ET

import pytest

from actdeny_train.report import svg
from actdeny_train.report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Mark, Point

BASE, PLOT_HEIGHT, PLOT_WIDTH = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP, WIDTH - LEFT - RIGHT


def number(element: ET.Element, name: str) -> float:
    return float(element.attrib[name])


def title_of(element: ET.Element) -> str:
    title = element.find("title")
    assert title is not None and title.text
    return title.text


def test_bars_are_as_high_as_their_values() -> None:
    series = [
        [Mark(0.5, 0.25, 0.75, "a1"), Mark(0.0, None, None, "a2")],
        [Mark(1.0, 0.9, 1.0, "b1"), Mark(None, None, None, "b2")],
    ]
    root = ET.fromstring(svg.bars("all bars", ["one", "two"], series, y_title="accuracy"))
    assert root.attrib["aria-label"] == "all bars" and root.attrib["role"] == "img"
    groups = {title_of(g): g for g in root.iter("g")}
    heights = {name: number(rect, "height") for name, g in groups.items() if (rect := g.find("rect")) is not None}
    assert heights == {"a1": pytest.approx(PLOT_HEIGHT / 2), "a2": 1.0, "b1": pytest.approx(PLOT_HEIGHT)}
    whisker = groups["a1"].findall("line")[0]
    assert number(whisker, "y1") == pytest.approx(BASE - PLOT_HEIGHT / 4)
    assert number(whisker, "y2") == pytest.approx(BASE - 3 * PLOT_HEIGHT / 4)
    assert groups["a2"].find("line") is None
    assert [t.text for t in groups["b2"].iter("text")] == ["–"]
    assert groups["a1"].attrib["class"] == "s0" and groups["b1"].attrib["class"] == "s1"
    rects = [rect for name in ("a1", "b1") if (rect := groups[name].find("rect")) is not None]
    assert number(rects[0], "x") + number(rects[0], "width") <= number(rects[1], "x")


def test_axis_of_small_shares_reaches_the_next_tenth() -> None:
    root = ET.fromstring(svg.bars("x", ["1"], [[Mark(0.12, 0.05, 0.21, "m")]], y_title="chosen", line=0.1))
    ticks = [t.text for t in root.iter("text") if t.attrib["class"] == "tick"]
    assert ticks == ["0", "10", "20", "30", "1"]
    reference = next(line for line in root.iter("line") if line.attrib["class"] == "reference")
    assert number(reference, "y1") == number(reference, "y2") == pytest.approx(BASE - PLOT_HEIGHT / 3, abs=0.01)


def test_points_stand_at_their_values_each_series_in_its_shape() -> None:
    series = [[Point(0.25, 0.5, f"p{s}")] for s in range(6)]
    root = ET.fromstring(svg.scatter("x", series, x_title="a", y_title="b", diagonal=True))
    marks = [e for e in root.iter() if e.attrib.get("class", "").startswith("marker")]
    assert [m.attrib["class"] for m in marks] == [f"marker s{s}" for s in range(6)]
    assert number(marks[0], "cx") == pytest.approx(LEFT + PLOT_WIDTH / 4)
    assert number(marks[0], "cy") == pytest.approx(BASE - PLOT_HEIGHT / 2)
    shapes = {ET.tostring(m).split(b"<title>")[0].replace(m.attrib["class"].encode(), b"") for m in marks}
    assert len(shapes) == 6
    assert [title_of(m) for m in marks] == [f"p{s}" for s in range(6)]
    assert sum(line.attrib["class"] == "reference" for line in root.iter("line")) == 1


def test_curves_pass_their_points_and_long_ones_have_no_markers() -> None:
    short = [Point(0.0, 0.0, "a"), Point(1.0, 1.0, "b")]
    long = [Point(i / 30, 0.5, "c") for i in range(31)]
    root = ET.fromstring(svg.scatter("x", [short, long], x_title="a", y_title="b", lines=True))
    paths = [p.attrib["d"] for p in root.iter("path")]
    assert paths[0] == f"M{LEFT} {BASE}L{WIDTH - RIGHT} {TOP}"
    assert paths[1].count("L") == 30
    assert len([e for e in root.iter() if e.attrib.get("class", "").startswith("marker")]) == 2


def test_stacks_are_cut_by_share() -> None:
    rows = [("run", [("answer-none", 0.75, "none"), ("answer-error", 0.05, "error")])]
    root = ET.fromstring(svg.stack("x", rows))
    parts = {title_of(r): r for r in root.iter("rect")}
    assert number(parts["none"], "width") == pytest.approx(0.75 * (WIDTH - 2))
    assert number(parts["error"], "x") == pytest.approx(1 + 0.75 * (WIDTH - 2))
    assert parts["error"].attrib["class"] == "part answer-error"
    # A share that is too narrow for its number has none.
    assert [t.text for t in root.iter("text") if t.attrib["class"].startswith("on ")] == ["75"]


def test_texts_are_escaped() -> None:
    made = svg.bars('<b> & "quotes"', ["<g>"], [[Mark(0.5, None, None, "<script>")]], y_title="&")
    assert "<script>" not in made and "<b>" not in made
    assert ET.fromstring(made).attrib["aria-label"] == '<b> & "quotes"'
