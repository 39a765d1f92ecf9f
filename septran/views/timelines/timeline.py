"""A timeline as plain data: lanes with bars, for any engine, core, thread or block."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from septran.argument_checks import write_text
from septran.views.text.origin_text import origin_parts

MOST = 12_000
"""Bars that are kept one by one; of more, neighbours that are alike are joined."""
DEEP = 6
"""Rows of one lane for bars that overlap; deeper ones share the last row."""


@dataclass(frozen=True)
class BarKind:
    """A class of bars: its name for readers, its hue, and its pattern."""

    title: str
    hue: str
    """A colour of `septran.views.pictures.colours`, in lower case."""
    pattern: str
    """``solid``, ``hatched``, ``dotted``, ``crossed`` or ``thin``: colour is never alone."""


KINDS = {
    "in": BarKind("copies in", "blue", "solid"),
    "out": BarKind("copies out", "vermilion", "hatched"),
    "copy": BarKind("copies", "sky", "hatched"),
    "matrix": BarKind("matrix unit", "green", "dotted"),
    "vector": BarKind("vector unit", "orange", "crossed"),
    "compute": BarKind("computation", "green", "solid"),
    "threads": BarKind("threads at work", "orange", "crossed"),
    "block": BarKind("blocks", "purple", "solid"),
    "wait": BarKind("waits", "grey", "thin"),
    "sync": BarKind("synchronisation", "grey", "solid"),
}
"""What bars may be; any other name is drawn as computation."""


@dataclass(frozen=True)
class TimelineRecord:
    """Something that took from `start` to `end` in one lane."""

    lane: str
    """An engine, a queue, a warp, a thread."""
    start: float
    end: float
    kind: str
    """A key of `KINDS`."""
    label: str
    """A few words: ``dma_copy A``."""
    group: str = ""
    """What the lane belongs to: ``core 0``."""
    origin: str = ""
    """Why it is there: a rule, and in brackets the lines of the logic and the mapping."""
    bytes: int = 0
    flops: int = 0
    edge: str = ""
    """``GLOBAL -> SPM`` for a copy."""
    count: int = 1
    """How many were joined to make this bar."""


@dataclass(frozen=True, repr=False)
class Timeline:
    """Events over time; all times in `unit` from 0."""

    title: str
    unit: str
    """``cycles``, ``us``, ..."""
    end: float
    records: tuple[TimelineRecord, ...]
    notes: tuple[str, ...] = ()
    """Sentences about the whole run."""

    def explore(self) -> Any:
        """The interactive view of it."""
        from septran.views.live import explore

        return explore(self)

    def to_text(self, width: int = 72) -> str:
        """The lanes for a terminal: each column a part of the run, darker where busier."""
        from septran.views.timelines.text import timeline_text

        return timeline_text(self, width)

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Write JSON for https://ui.perfetto.dev; a microsecond is a cycle or step of others."""
        from septran.views.timelines.text import chrome_trace

        return write_text(path, json.dumps(chrome_trace(self)))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """A static picture."""
        from septran.views.timelines.svg import timeline_panel

        del include, exclude
        return {"text/html": str(timeline_panel(self)), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return (
            f"<Timeline of {self.title}: {len(self.records):,} records, {self.end:,} {self.unit}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, each text once: bars are columns of numbers into tables."""
        records = joined(self.records, self.end)
        lanes = _lanes(records, self.end)
        number = {(lane["group"], lane["title"]): n for n, lane in enumerate(lanes)}
        rows = _rows(records, lanes, number)
        table = _Table()
        return {
            "title": self.title,
            "unit": self.unit,
            "end": self.end,
            "notes": list(self.notes),
            "lanes": lanes,
            "kinds": _kinds(records),
            "bars": {
                "lane": [number[r.group, r.lane] for r in records],
                "row": rows,
                "start": [r.start for r in records],
                "end": [r.end for r in records],
                "what": [table.number(r) for r in records],
            },
            "what": table.rows,
            "origins": [origin_parts(text) for text in table.origins],
        }


def timelines(*found: Timeline) -> dict[str, Any]:
    """Several timelines for one view, one above the other on one axis."""
    return {"timelines": [timeline.to_dict() for timeline in found]}


class _Table:
    """The texts of bars, each combination once."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.origins: dict[str, int] = {}
        self.known: dict[tuple[Any, ...], int] = {}

    def number(self, record: TimelineRecord) -> int:
        origin = self.origins.setdefault(record.origin, len(self.origins))
        key = (
            record.kind, record.label, origin, record.bytes, record.flops, record.edge,
            record.count,
        )  # fmt: skip
        if key not in self.known:
            self.known[key] = len(self.rows)
            self.rows.append(list(key))
        return self.known[key]


def _kinds(records: Iterable[TimelineRecord]) -> dict[str, Any]:
    used = {r.kind for r in records}
    found = {name: kind for name, kind in KINDS.items() if name in used}
    found |= {name: BarKind(name, "green", "solid") for name in sorted(used - KINDS.keys())}
    return {
        name: {"title": kind.title, "hue": kind.hue, "pattern": kind.pattern}
        for name, kind in found.items()
    }


def _lanes(records: Sequence[TimelineRecord], end: float) -> list[dict[str, Any]]:
    """All lanes in order of first use, those of one group together."""
    groups: dict[str, dict[str, list[TimelineRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        groups[record.group][record.lane].append(record)
    return [
        _lane(group, title, mine, end)
        for group, lanes in groups.items()
        for title, mine in lanes.items()
    ]


def _lane(group: str, title: str, mine: Sequence[TimelineRecord], end: float) -> dict[str, Any]:
    works = [r for r in mine if r.kind not in ("wait", "sync")]
    waits = [r for r in mine if r.kind == "wait"]
    return {
        "group": group, "title": title, "rows": 1,
        "busy": covered(works) / end if end else 0.0,
        "waits": covered(waits) / end if end else 0.0,
        "count": sum(r.count for r in works),
        "bytes": sum(r.bytes for r in works),
        "flops": sum(r.flops for r in works),
    }  # fmt: skip


def covered(records: Iterable[TimelineRecord]) -> float:
    """The time in which at least one of them is going on."""
    total, reach = 0.0, 0.0
    for record in sorted(records, key=lambda r: r.start):
        # Only what goes beyond what earlier bars have covered: overlaps count once.
        total += max(0.0, record.end - max(record.start, reach))
        reach = max(reach, record.end)
    return total


def _rows(
    records: Sequence[TimelineRecord],
    lanes: list[dict[str, Any]],
    number: dict[tuple[str, str], int],
) -> list[int]:
    """The row of each bar in its lane: the first that is free when it starts."""
    free: list[list[float]] = [[] for _ in lanes]
    rows = [0] * len(records)
    for n in sorted(range(len(records)), key=lambda n: records[n].start):
        record = records[n]
        if record.kind == "wait":  # thin, between the rows of others
            continue
        lane = number[record.group, record.lane]
        until = free[lane]
        row = next((k for k, at in enumerate(until) if at <= record.start), len(until))
        # A lane with hundreds of bars at one time would be taller than the page.
        row = min(row, DEEP - 1)
        if row == len(until):
            until.append(0.0)
        until[row] = max(until[row], record.end)
        rows[n] = row
    for lane_data, until in zip(lanes, free, strict=True):
        lane_data["rows"] = max(1, len(until))
    return rows


def joined(
    records: Sequence[TimelineRecord], end: float, most: int = MOST
) -> tuple[TimelineRecord, ...]:
    """At most about `most` records: neighbours of a lane that are alike become one."""
    # Far less than a pixel of any screen; four times more each round, until few enough are left.
    gap = end / 20_000
    found = tuple(records)
    while len(found) > most and gap < end:
        shorter = _joined(found, gap)
        gap *= 4
        found = shorter
    return found


def _joined(records: Sequence[TimelineRecord], gap: float) -> tuple[TimelineRecord, ...]:
    last: dict[tuple[str, ...], int] = {}
    found: list[TimelineRecord] = []
    for record in sorted(records, key=lambda r: r.start):
        key = (record.group, record.lane, record.kind, record.label, record.origin, record.edge)
        # Only bars of one kind and origin are joined, so that a bar still says what it was.
        at = last.get(key)
        if at is None or record.start - found[at].end > gap:
            last[key] = len(found)
            found.append(record)
            continue
        one = found[at]
        found[at] = replace(
            one, end=max(one.end, record.end), bytes=one.bytes + record.bytes,
            flops=one.flops + record.flops, count=one.count + record.count,
        )  # fmt: skip
    return tuple(found)
