"""The timeline of a DSA's profile: a bar a command, a thin one where a queue waited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from septran.targets.dsa.profiles.lanes import CONTROL, NAMES, working
from septran.views.dsa.plots import kinds_of
from septran.views.timelines.timeline import Timeline, TimelineRecord

if TYPE_CHECKING:
    from septran.targets.dsa.profiles.profile import DsaProfile


def timeline(profile: DsaProfile, title: str = "") -> Timeline:
    """Everything that was carried out, in cycles."""
    records = tuple(_records(profile))
    return Timeline(title or f"{profile.name} on {profile.machine}", "cycles",
                    profile.cycles, records, tuple(_notes(profile)))  # fmt: skip


def _records(profile: DsaProfile) -> Iterator[TimelineRecord]:
    trace, kinds, moved = profile.run.trace, kinds_of(profile), profile.movement
    works = working(trace) & (trace["end"] > trace["start"])
    order = np.lexsort((trace["start"], trace["queue"], trace["core"]))
    for n in order[(works | (trace["flag"] > 0))[order]].tolist():
        record = trace[n]
        place = _place(profile, record)
        if record["flag"] > 0:
            start = int(record["start"])
            end = start + int(record["flag"])
            yield TimelineRecord(
                start=start, end=end, kind="wait", label="waits for a flag", **place
            )
        if works[n]:
            label = f"{NAMES[record['command']]} {moved.tensor[n]}".rstrip()
            yield TimelineRecord(
                start=int(record["start"]), end=int(record["end"]),
                kind=str(kinds[n]) or "compute", label=label, bytes=int(record["bytes"]),
                flops=int(record["flops"]), edge=str(moved.edge[n]), **place,
            )  # fmt: skip


def _place(profile: DsaProfile, record: Any) -> dict[str, Any]:
    queue, origin = int(record["queue"]), profile.origin(int(record["line"]))
    lane = CONTROL if queue < 0 else profile.run.queues[queue]
    return {"lane": lane, "group": f"core {int(record['core'])}", "origin": origin}


def _notes(profile: DsaProfile) -> Iterator[str]:
    if profile.of_bound:
        yield f"{profile.of_bound:.3f} of the bound"
    yield f"{profile.flops_per_second / 1e9:,.1f} GFLOP/s"
    yield f"{profile.bytes_per_second / 1e9:,.1f} GB/s of main memory"
