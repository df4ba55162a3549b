"""Charts as inline SVG, drawn without a plotting library: colours are classes that the page's style fills for light and dark.

Bytes depend on the arguments alone. Every mark tells its values in a ``<title>``.
"""

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 380, 240
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 10, 40
NUM_STYLES = 6
"""Colours and marker shapes; further series begin anew."""


@dataclass(frozen=True)
class Scale:
    """A straight map from [low, high] to the pixels [start, stop]."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


@dataclass(frozen=True)
class Mark:
    """A value with its interval in a bar chart. ``value`` is None where undefined; ``told`` is the text of its title."""

    value: float | None
    low: float | None
    high: float | None
    told: str


@dataclass(frozen=True)
class Point:
    """A point of a chart and the text of its title."""

    x: float
    y: float
    told: str


def bars(
    label: str, groups: Sequence[str], series: Sequence[Sequence[Mark]], *, y_title: str, line: float | None = None
) -> str:
    """Return grouped bars of shares with whiskers: ``series[s][g]`` is the bar of series s in group g.

    The axis reaches from 0 to 1, or to the next tenth above all bars where ``line``, a dashed reference, is given.
    """
    tops = [x for marks in series for m in marks for x in (m.value, m.high) if x is not None]
    top = 1.0 if line is None else min(1.0, math.ceil(10 * max([*tops, line, 0.1]) - 1e-9) / 10)
    svg, y = _open(label), Scale(0.0, top, HEIGHT - BOTTOM, TOP)
    x = Scale(0.0, len(groups), LEFT, WIDTH - RIGHT)
    _y_axis(svg, y, y_title)
    width = (x(1) - x(0)) * 0.8 / max(1, len(series))
    for g, group in enumerate(groups):
        _text(svg, x(g + 0.5), HEIGHT - BOTTOM + 15, group, "middle")
        for s, marks in enumerate(series):
            left = x(g + 0.5) + (s - len(series) / 2) * width
            _bar(svg, marks[g], left, width, y, s)
    if line is not None:
        _element(svg, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(line), y2=y(line), class_="reference")
    _element(svg, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(0), y2=y(0), class_="axis")
    return _close(svg)


def scatter(
    label: str,
    series: Sequence[Sequence[Point]],
    *,
    x_title: str,
    y_title: str,
    lines: bool = False,
    diagonal: bool = False,
) -> str:
    """Return points of shares in [0, 1] on both axes, a marker shape per series, joined in their order with ``lines``.

    A curve of more than 25 points has no markers. ``diagonal`` draws the line of equal values.
    """
    svg = _open(label)
    x, y = Scale(0.0, 1.0, LEFT, WIDTH - RIGHT), Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    _y_axis(svg, y, y_title)
    _x_axis(svg, x, x_title)
    if diagonal:
        _element(svg, "line", x1=x(0), y1=y(0), x2=x(1), y2=y(1), class_="reference")
    for s, points in enumerate(series):
        if lines and points:
            path = "M" + "L".join(f"{_number(x(p.x))} {_number(y(p.y))}" for p in points)
            _element(svg, "path", d=path, class_=f"curve s{s % NUM_STYLES}")
        for p in points if not lines or len(points) <= 25 else ():
            _marker(svg, x(p.x), y(p.y), s, p.told)
    return _close(svg)


def stack(label: str, rows: Sequence[tuple[str, Sequence[tuple[str, float, str]]]]) -> str:
    """Return one horizontal bar a row, cut into (style, share, title); what is missing to 1 stays empty."""
    height = 34 * len(rows) + 22
    svg, x = _open(label, height), Scale(0.0, 1.0, 1, WIDTH - 1)
    for r, (name, parts) in enumerate(rows):
        at = 34 * r
        _text(svg, 1, at + 11, name, "start", "row")
        start = 0.0
        for style, share, told in parts:
            width = x(start + share) - x(start)
            rect = _element(svg, "rect", x=x(start), y=at + 16, width=width, height=14, class_=f"part {style}")
            _title(rect, told)
            if width > 26:
                _text(svg, x(start) + width / 2, at + 27, f"{100 * share:.0f}", "middle", f"on {style}")
            start += share
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        anchor = {0.0: "start", 1.0: "end"}.get(tick, "middle")
        _text(svg, x(tick), height - 4, f"{100 * tick:.0f}", anchor)
    return _close(svg)


def swatch(style: int) -> str:
    """Return the marker of a series for a legend."""
    svg = ET.Element("svg", {"viewBox": "0 0 14 14", "class": "swatch", "aria-hidden": "true"})
    _marker(svg, 7, 7, style, "")
    return _close(svg)


def _open(label: str, height: int = HEIGHT) -> ET.Element:
    return ET.Element("svg", {"viewBox": f"0 0 {WIDTH} {height}", "role": "img", "aria-label": label, "class": "chart"})


def _close(svg: ET.Element) -> str:
    return ET.tostring(svg, encoding="unicode", short_empty_elements=False)


def _y_axis(svg: ET.Element, y: Scale, title: str) -> None:
    for tick in _ticks(y.high):
        _element(svg, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(tick), y2=y(tick), class_="grid")
        _text(svg, LEFT - 6, y(tick) + 4, f"{100 * tick:.0f}", "end")
    middle = (y(0) + y(y.high)) / 2
    turned = _text(svg, 11, middle, title, "middle", "title")
    turned.set("transform", f"rotate(-90 11 {_number(middle)})")


def _x_axis(svg: ET.Element, x: Scale, title: str) -> None:
    bottom = HEIGHT - BOTTOM
    for tick in _ticks(x.high):
        _element(svg, "line", x1=x(tick), x2=x(tick), y1=TOP, y2=bottom, class_="grid")
        _text(svg, x(tick), bottom + 15, f"{100 * tick:.0f}", "middle")
    _element(svg, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom, class_="axis")
    _text(svg, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, title, "middle", "title")


def _ticks(high: float) -> Iterable[float]:
    step = 0.25 if high > 0.6 else 0.1 if high > 0.2 else 0.05
    return [i * step for i in range(math.floor(high / step + 1e-9) + 1)]


def _bar(svg: ET.Element, mark: Mark, left: float, width: float, y: Scale, s: int) -> None:
    group = _element(svg, "g", class_=f"s{s % NUM_STYLES}")
    _title(group, mark.told)
    centre = left + width / 2
    if mark.value is None:
        _text(group, centre, y(0) - 4, "–", "middle", "missing")
        return
    inner = max(1.0, width - 2)
    # At least a line, so that a bar of 0 is seen and can be pointed at.
    height = max(1.0, y(0) - y(mark.value))
    _element(group, "rect", x=centre - inner / 2, y=y(0) - height, width=inner, height=height, class_="bar")
    if mark.low is not None and mark.high is not None:
        _element(group, "line", x1=centre, x2=centre, y1=y(mark.low), y2=y(min(mark.high, y.high)), class_="whisker")
        for bound in (mark.low, min(mark.high, y.high)):
            half = min(4.0, inner / 3)
            _element(group, "line", x1=centre - half, x2=centre + half, y1=y(bound), y2=y(bound), class_="whisker")


def _marker(svg: ET.Element, x: float, y: float, s: int, told: str) -> None:
    style, r = s % NUM_STYLES, 4.5
    corners = {
        2: [(0, -r - 1), (r + 0.5, r - 1), (-r - 0.5, r - 1)],
        3: [(0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0)],
        5: [(0, r + 1), (r + 0.5, 1 - r), (-r - 0.5, 1 - r)],
    }
    cross = [(-1.5, -r), (1.5, -r), (1.5, -1.5), (r, -1.5), (r, 1.5), (1.5, 1.5)]
    corners[4] = [*cross, *((-a, -b) for a, b in cross)]
    class_ = f"marker s{style}"
    if style == 0:
        mark = _element(svg, "circle", cx=x, cy=y, r=r, class_=class_)
    elif style == 1:
        mark = _element(svg, "rect", x=x - 4, y=y - 4, width=8, height=8, class_=class_)
    else:
        points = " ".join(f"{_number(x + a)},{_number(y + b)}" for a, b in corners[style])
        mark = _element(svg, "polygon", points=points, class_=class_)
    if told:
        _title(mark, told)


def _element(parent: ET.Element, tag: str, **attributes: float | str) -> ET.Element:
    values = {k.rstrip("_").replace("_", "-"): v if isinstance(v, str) else _number(v) for k, v in attributes.items()}
    return ET.SubElement(parent, tag, values)


def _text(parent: ET.Element, x: float, y: float, text: str, anchor: str, class_: str = "tick") -> ET.Element:
    element = _element(parent, "text", x=x, y=y, text_anchor=anchor, class_=class_)
    element.text = text
    return element


def _title(element: ET.Element, text: str) -> None:
    ET.SubElement(element, "title").text = text


def _number(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
