"""Points of two times as a static picture with logarithmic axes, and the line where both agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from septran.format_units import time_text
from septran.views.pictures import colours
from septran.views.pictures.html import Markup, tag
from septran.views.timelines.svg import text_at

SIDE, LEFT, TOP, BOTTOM = 320, 78, 22, 44
"""Pixels: of the square, of the labels to its left, above and below it."""
MARGIN = 1.08
"""The axes go beyond the least and the greatest time by this factor."""
RADIUS = 3.5


@dataclass(frozen=True)
class TimePoint:
    """Two times of one thing, in seconds."""

    across: float
    up: float
    label: str


def front(points: Sequence[TimePoint]) -> list[TimePoint]:
    """Return the points that no other one beats in both times, in order (the Pareto front)."""
    kept: list[TimePoint] = []
    for point in sorted(points, key=lambda p: (p.across, p.up)):
        if not kept or point.up < kept[-1].up:
            kept.append(point)
    return kept


def scatter_svg(points: Sequence[TimePoint], title: str, across: str, up: str) -> str:
    """Return an SVG document; `points` is not empty, and its times are above zero."""
    axis = _Axis.of([value for p in points for value in (p.across, p.up)])
    best = front(points)
    parts: list[Markup] = [tag("title", title), *_frame(axis, across, up)]
    line = " ".join(f"{axis.x(p.across):.1f},{axis.y(p.up):.1f}" for p in best)
    parts.append(tag("polyline", points=line, fill="none", stroke=colours.VERMILION.line))
    for point in points:
        colour = colours.VERMILION if point in best else colours.BLUE
        words = f"{point.label}: {time_text(point.across)} {across}, {time_text(point.up)} {up}"
        parts.append(
            tag(
                "circle", tag("title", words), cx=f"{axis.x(point.across):.1f}",
                cy=f"{axis.y(point.up):.1f}", r=str(RADIUS), fill=colour.line,
            )
        )  # fmt: skip
    width, height = LEFT + SIDE + 12, TOP + SIDE + BOTTOM
    return tag(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", role="img",
        viewBox=f"0 0 {width} {height}", width=width, height=height,
    )  # fmt: skip


@dataclass(frozen=True)
class _Axis:
    """The same axis in both directions, so that the diagonal is where both times are equal."""

    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> _Axis:
        return _Axis(math.log(min(values) / MARGIN), math.log(max(values) * MARGIN))

    def x(self, value: float) -> float:
        return LEFT + (math.log(value) - self.least) / (self.most - self.least) * SIDE

    def y(self, value: float) -> float:
        return TOP + SIDE - (self.x(value) - LEFT)


def _frame(axis: _Axis, across: str, up: str) -> Iterator[Markup]:
    side, low, high = str(SIDE), math.exp(axis.least), math.exp(axis.most)
    yield tag("rect", x=LEFT, y=TOP, width=side, height=side, fill="none", stroke=colours.LINE)
    (x1, y1), (x2, y2) = ((f"{axis.x(t):.1f}", f"{axis.y(t):.1f}") for t in (low, high))
    line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colours.LINE}"'
    yield Markup(f'{line} stroke-dasharray="4 4"/>')
    middle = math.exp((axis.least + axis.most) / 2)
    for value in (low * MARGIN, middle, high / MARGIN):
        yield text_at(axis.x(value), TOP + SIDE + 16, time_text(value), "middle")
        yield text_at(LEFT - 6, axis.y(value) + 4, time_text(value), "end")
    yield text_at(LEFT + SIDE / 2, TOP + SIDE + 34, across, "middle")
    yield text_at(LEFT, TOP - 8, up, "start")
