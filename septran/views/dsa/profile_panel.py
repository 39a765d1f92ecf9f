"""A profile of a DSA as HTML: figures, a static timeline picture, lanes, stalls, origins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from septran.format_units import time_text
from septran.views.pictures import colours
from septran.views.pictures.html import (
    Markup,
    details,
    join,
    mono,
    panel,
    paragraph,
    picture,
    strong,
    table,
    tag,
)
from septran.views.timelines.svg import text_at

if TYPE_CHECKING:
    from septran.targets.dsa.profiles.comparison import ProfileComparison
    from septran.targets.dsa.profiles.profile import DsaProfile

WIDTH, LANE, LEFT, TOP = 860, 26, 110, 22
"""Pixels: of the lanes, of each lane's height, of the names, above the first lane."""
BARS = 250
"""Bars of a lane; more are joined where less than a pixel is between them."""
ORIGINS = 12
"""Origins that are listed."""
HUES = {
    "in": colours.BLUE, "out": colours.VERMILION, "matrix": colours.GREEN,
    "vector": colours.ORANGE,
}  # fmt: skip
"""By what a command is."""


def profile_panel(profile: DsaProfile) -> Markup:
    """Everything of one run; complete without a script, network or kernel."""
    title = join([strong(profile.name), " on ", profile.machine])
    return panel(
        title,
        *(paragraph(text) for text in _figures(profile)),
        timeline_picture(profile),
        _lanes(profile),
        details("bytes moved", *_moved(profile)),
        details("where the cycles come from", _origins(profile)),
    )


def comparison_panel(comparison: ProfileComparison) -> Markup:
    """The table, then the timelines on one axis of cycles."""
    from septran.targets.dsa.profiles.comparison import cell

    frame = comparison.to_pandas()
    rows = [
        (name.replace("_", " "), *(cell(name, value) for value in frame[name].tolist()))
        for name in frame.columns
    ]
    last = max(profile.cycles for profile in comparison.profiles)
    parts: list[Markup] = []
    for title, profile in zip(comparison.titles, comparison.profiles, strict=True):
        parts += [paragraph(strong(title)), timeline_picture(profile, last)]
    head = ("", *comparison.titles)
    return panel(strong("Profiles"), table(head, rows, comparison.titles), *parts)


def _figures(profile: DsaProfile) -> Iterator[str]:
    from septran.targets.dsa.profiles.text import CAUSE_TEXTS

    beside = f", {profile.of_bound:.3f} of the bound" if profile.of_bound else ""
    yield (
        f"{profile.cycles:,} cycles, {time_text(profile.seconds)} at "
        f"{profile.run.machine.clock_mhz:g} MHz{beside}"
    )
    if profile.bound is not None:
        yield str(profile.bound)
    yield (
        f"{profile.flops_per_second / 1e9:,.2f} GFLOP/s, "
        f"{profile.bytes_per_second / 1e9:,.2f} GB/s of main memory, "
        f"{profile.intensity:,.2f} FLOP/byte"
    )
    held = [f"{n:,} {CAUSE_TEXTS[cause]}" for cause, n in profile.stalls.items() if n]
    yield f"stall cycles: {'; '.join(held) or 'none'}"


def _lanes(profile: DsaProfile) -> Markup:
    rows = [
        (
            lane.core, mono(lane.queue), f"{lane.utilisation:.1%}", f"{lane.busy_cycles:,}",
            f"{lane.commands:,}", f"{lane.bytes:,}", f"{lane.flops:,}",
            *(f"{cycles:,}" for cycles in lane.stalls.values()),
        )
        for lane in profile.lanes
    ]  # fmt: skip
    causes = [f"stall: {cause}" for cause in profile.stalls]
    head = ("core", "queue", "utilisation", "busy", "commands", "bytes", "FLOP", *causes)
    return table(head, rows, (head[0], *head[2:]))


def _moved(profile: DsaProfile) -> Iterator[Markup]:
    sums = (
        ("memory edge", profile.edge_bytes),
        ("tensor", profile.tensor_bytes),
        ("channel", profile.channel_bytes),
    )
    for title, found in sums:
        if found:
            rows = [(mono(name), f"{moved:,}") for name, moved in found.items()]
            yield table((title, "bytes"), rows, ("bytes",))


def _origins(profile: DsaProfile) -> Markup:
    frame = profile.by_origin().head(ORIGINS)
    rows = [
        (row["origin"], mono(row["queue"]), f"{row['cycles']:,}", f"{row['bytes']:,}",
         f"{row['stall_flag']:,}")
        for row in frame.to_dict("records")
    ]  # fmt: skip
    return table(
        ("origin", "queue", "cycles", "bytes", "waited for flags"), rows,
        ("cycles", "bytes", "waited for flags"),
    )  # fmt: skip


def timeline_picture(profile: DsaProfile, last: int | None = None) -> Markup:
    """The lanes as an image on paper, the same in light and dark pages."""
    busy = ", ".join(f"{lane.queue} {lane.utilisation:.0%}" for lane in profile.lanes)
    alt = f"Timeline of {profile.cycles:,} cycles; lanes and how busy they are: {busy}"
    return picture(timeline_svg(profile, last), alt)


def timeline_svg(profile: DsaProfile, last: int | None = None) -> str:
    """The timeline of a run as an SVG document: a lane a queue and core."""
    last = max(1, last or profile.cycles)
    height = TOP + LANE * len(profile.lanes) + 40
    parts = [tag("title", f"{profile.name}: {profile.cycles:,} cycles")]
    for row, lane in enumerate(profile.lanes):
        parts += _lane(profile, lane.core, lane.queue, TOP + row * LANE, last)
    parts += [*_axis(last, TOP + LANE * len(profile.lanes)), *_legend(profile, height - 6)]
    return tag(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", role="img", font_family="sans-serif",
        viewBox=f"0 0 {LEFT + WIDTH + 20} {height}", width=LEFT + WIDTH + 20, height=height,
    ).replace("font_family", "font-family")  # fmt: skip


def _lane(profile: DsaProfile, core: int, queue: str, top: int, last: int) -> Iterator[Markup]:
    from septran.targets.dsa.profiles.lanes import waits, working
    from septran.views.dsa.plots import kinds_of

    trace = profile.run.trace
    many = len({lane.core for lane in profile.lanes}) > 1
    label = f"core {core} {queue}" if many else queue
    middle = top + LANE / 2
    yield text_at(LEFT - 8, middle + 4, label, "end")
    mine = (trace["core"] == core) & (trace["queue"] == profile.run.queues.index(queue))
    yield from _bars(waits(trace[mine]), middle - 2, 4, last, "#c8c8c2")
    kinds = kinds_of(profile)
    works = mine & working(trace)
    for kind in sorted(set(kinds[works])):
        chosen = trace[works & (kinds == kind)]
        spans = np.stack([chosen["start"], chosen["end"]], axis=1)
        hue = HUES[kind]
        yield from _bars(spans[::2], top + 4, LANE - 8, last, hue.line)
        yield from _bars(spans[1::2], top + 4, LANE - 8, last, hue.tint, hue.line)


def _bars(
    spans: Any, top: float, height: float, last: int, fill: str, line: str | None = None
) -> Iterator[Markup]:
    shapes = []
    for start, end in _joined(spans, last):
        x, width = LEFT + start / last * WIDTH, max(0.4, (end - start) / last * WIDTH)
        shapes.append(f"M{x:.1f} {top:g}h{width:.1f}v{height:g}h-{width:.1f}z")
    if shapes:  # one element for all: a notebook keeps the whole text
        yield tag("path", d="".join(shapes), fill=fill, stroke=line)


def _joined(spans: Any, last: int) -> Any:
    """The spans; where there are too many, those less than a pixel apart as one."""
    if len(spans) <= BARS:
        return spans
    gap = last / WIDTH
    first = np.concatenate([[True], spans[1:, 0] - spans[:-1, 1] > gap])
    ends = np.append(spans[:-1, 1][first[1:]], spans[-1, 1])
    return np.stack([spans[first, 0], ends], axis=1)


def _axis(last: int, top: int) -> Iterator[Markup]:
    yield tag(
        "line", x1=LEFT, y1=top, x2=LEFT + WIDTH, y2=top, stroke=colours.LINE
    )  # fmt: skip
    for part in range(5):
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        yield text_at(LEFT + WIDTH * part / 4, top + 14, f"{last * part // 4:,}", anchor)


def _legend(profile: DsaProfile, bottom: int) -> Iterator[Markup]:
    from septran.views.dsa.plots import TITLES, kinds_of

    x, used = LEFT, set(kinds_of(profile))
    for kind, hue in HUES.items():
        if kind not in used:
            continue
        yield tag("rect", x=x, y=bottom - 10, width=10, height=10, fill=hue.line)
        yield text_at(x + 14, bottom, TITLES[kind], "start")
        x += 28 + 7 * len(TITLES[kind])
    yield tag("rect", x=x, y=bottom - 7, width=10, height=4, fill="#c8c8c2")
    yield text_at(x + 14, bottom, "waits for a flag", "start")
