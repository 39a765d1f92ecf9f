"""A timeline in a terminal, and as JSON for https://ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from septran.format_units import shades_text
from septran.views.timelines.timeline import TimelineRecord, covered

if TYPE_CHECKING:
    from septran.views.timelines.timeline import Timeline

MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
"""Of a unit of time; cycles and steps are shown as one each."""


def timeline_text(timeline: Timeline, width: int = 72) -> str:
    """One row a lane; the darker a character, the busier the lane in that part of the run."""
    lanes = by_lane(timeline.records)
    indent = max((len(lane) for _, lane in lanes), default=0)
    lines, previous = [timeline.title], None
    for (group, lane), records in lanes.items():
        if group != previous and group:
            lines.append(f"  {group}")
        previous = group
        works = [r for r in records if r.kind not in ("wait", "sync")]
        share = covered(works) / timeline.end if timeline.end else 0.0
        bar = shades_text(_shares(works, timeline.end, width))
        lines.append(f"  {lane:{indent}} |{bar}| {share:>6.1%}{_amounts(works)}")
    last = f"{timeline.end:,.5g} {timeline.unit}"
    lines.append(f"  {'':{indent}}  0{last:>{width - 1}}")
    return "\n".join([*lines, *(f"  {note}" for note in timeline.notes)])


def by_lane(records: Sequence[TimelineRecord]) -> dict[tuple[str, str], list[TimelineRecord]]:
    """The records of each group and lane, groups and lanes in order of first use."""
    groups: dict[str, dict[str, list[TimelineRecord]]] = {}
    for record in records:
        groups.setdefault(record.group, {}).setdefault(record.lane, []).append(record)
    return {(g, lane): found for g, lanes in groups.items() for lane, found in lanes.items()}


def _shares(works: Sequence[TimelineRecord], end: float, width: int) -> Iterator[float]:
    """Yield how much of each equal part of the run is covered."""
    for n in range(width):
        first, last = end * n / width, end * (n + 1) / width
        inside = [r for r in works if r.start < last and r.end > first]
        busy = covered(_cut(r, first, last) for r in inside)
        yield busy / (last - first) if last > first else 0.0


def _cut(record: TimelineRecord, first: float, last: float) -> TimelineRecord:
    start, end = max(record.start, first), min(record.end, last)
    return TimelineRecord(record.lane, start, end, record.kind, record.label)


def _amounts(works: Sequence[TimelineRecord]) -> str:
    """Return what a lane moved and computed, where that is known."""
    moved, done = sum(r.bytes for r in works), sum(r.flops for r in works)
    words = [f"{moved:,} bytes"] * bool(moved) + [f"{done:,} operations"] * bool(done)
    return "".join(f"  {word}" for word in words)


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """A process a group, a thread a lane, an event a bar."""
    return {"traceEvents": list(_events(timeline)), "displayTimeUnit": "ns"}


def _events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    scale = MICROSECONDS.get(timeline.unit, 1.0)
    groups: dict[str, int] = {}
    for tid, ((group, lane), records) in enumerate(by_lane(timeline.records).items()):
        if group not in groups:
            groups[group] = len(groups)
            name = {"name": group or timeline.title}
            yield {"ph": "M", "pid": groups[group], "name": "process_name", "args": name}
        place = {"pid": groups[group], "tid": tid}
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": lane}}
        for r in records:
            facts = {"origin": r.origin, "bytes": r.bytes, "flops": r.flops}
            yield {
                "ph": "X", **place, "name": r.label, "cat": r.kind, "ts": r.start * scale,
                "dur": (r.end - r.start) * scale,
                "args": {name: value for name, value in facts.items() if value},
            }  # fmt: skip
