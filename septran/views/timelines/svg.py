"""A timeline as a static picture, for readers without a kernel or a script."""

from __future__ import annotations

from collections.abc import Iterator

from septran.views.pictures import colours
from septran.views.pictures.html import Markup, h, panel, picture, strong, tag
from septran.views.timelines.timeline import KINDS, BarKind, Timeline, TimelineRecord, joined

WIDTH, LANE, LEFT, TOP = 860, 22, 130, 8
"""Pixels: of the lanes, of each lane's height, of the names, above the first lane."""
BARS = 1500
"""Bars of the picture at most; neighbours are joined before."""


def timeline_panel(timeline: Timeline) -> Markup:
    """The picture under its title."""
    notes = " · ".join((f"{timeline.end:,.6g} {timeline.unit}", *timeline.notes))
    alt = f"Timeline of {timeline.title}: {notes}"
    return panel(strong(timeline.title), h(notes), picture(timeline_svg(timeline), alt))


def timeline_svg(timeline: Timeline) -> str:
    """An SVG document: a lane for each of the timeline's, a bar for each record."""
    end = timeline.end or 1
    records = joined(timeline.records, end, BARS)
    lanes = list(dict.fromkeys((r.group, r.lane) for r in records))
    tops = {lane: TOP + n * LANE for n, lane in enumerate(lanes)}
    many = len({group for group, _ in lanes}) > 1
    parts: list[Markup] = [tag("title", timeline.title)]
    for (group, title), top in tops.items():
        name = f"{group} {title}".strip() if many else title
        parts.append(text_at(LEFT - 8, top + LANE / 2 + 4, name, "end"))
    parts += [_bar(r, tops[r.group, r.lane], end) for r in records]
    bottom = TOP + LANE * len(lanes)
    parts += [*_axis(timeline, bottom), *_legend(records, bottom + 34)]
    text = tag(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", role="img", font_family="sans-serif",
        viewBox=f"0 0 {LEFT + WIDTH + 20} {bottom + 44}", width=LEFT + WIDTH + 20,
        height=bottom + 44,
    )  # fmt: skip
    return text.replace("font_family", "font-family")


def _kind(name: str) -> tuple[BarKind, colours.Colour]:
    kind = KINDS.get(name, KINDS["compute"])
    colour: colours.Colour = getattr(colours, kind.hue.upper())
    return kind, colour


def _bar(record: TimelineRecord, top: int, end: float) -> Markup:
    kind, colour = _kind(record.kind)
    thin = kind.pattern == "thin"
    x = LEFT + record.start / end * WIDTH
    width = max(0.4, (record.end - record.start) / end * WIDTH)
    return tag(
        "rect", x=f"{x:.2f}", y=top + (LANE // 2 - 2 if thin else 3), width=f"{width:.2f}",
        height=4 if thin else LANE - 6, fill=colour.line,
    )  # fmt: skip


def _axis(timeline: Timeline, top: int) -> Iterator[Markup]:
    yield tag("line", x1=LEFT, y1=top, x2=LEFT + WIDTH, y2=top, stroke=colours.LINE)
    for part in range(5):
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        words = f"{timeline.end * part / 4:,.6g}" + (f" {timeline.unit}" if part == 4 else "")
        yield text_at(LEFT + WIDTH * part / 4, top + 14, words, anchor)


def _legend(records: tuple[TimelineRecord, ...], bottom: int) -> Iterator[Markup]:
    x, used = LEFT, {r.kind for r in records}
    for name, kind in KINDS.items():
        if name not in used:
            continue
        yield tag("rect", x=x, y=bottom - 9, width=10, height=10, fill=_kind(name)[1].line)
        yield text_at(x + 14, bottom, kind.title, "start")
        x += 30 + 7 * len(kind.title)


def text_at(x: float, y: float, words: str, anchor: str) -> Markup:
    """A text of the picture, in its ink."""
    style = f'font-size="11" fill="{colours.INK}" text-anchor="{anchor}"'
    return Markup(f'<text x="{x:g}" y="{y:g}" {style}>{h(words)}</text>')
