"""The timeline of a kernel on a CPU: a bar a block, a lane a thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from septran.views.timelines.timeline import Record, Timeline, covered

if TYPE_CHECKING:
    from septran.targets.cpu.run.instrumentation import Mark


def timeline(marks: Sequence[Mark], title: str) -> Timeline:
    """All blocks of one call, in microseconds."""
    records = tuple(
        Record(
            lane=f"thread {mark.thread}", start=mark.start * 1e6, end=mark.end * 1e6,
            kind="block", label=f"block {mark.unit} of {_short(mark.nest.origin.task)}",
            origin=str(mark.nest.origin),
        )
        for mark in sorted(marks, key=lambda m: (m.thread, m.start))
    )  # fmt: skip
    end = max((record.end for record in records), default=0.0)
    return Timeline(title, "us", end, records, tuple(_notes(records, end)))


def _short(path: str) -> str:
    return path.rpartition("/")[2]


def _notes(records: Sequence[Record], end: float) -> Iterator[str]:
    lanes = sorted({record.lane for record in records})
    for lane in lanes:
        busy = covered([r for r in records if r.lane == lane]) / end
        yield f"{lane} busy {busy:.0%}"
    if not lanes:
        yield "no block ran: the mapping spreads nothing over cores"
