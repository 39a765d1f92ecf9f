"""A profile of emulated CUDA: its counts, one multiprocessor's timeline, bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

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
)
from septran.views.timelines.svg import timeline_svg
from septran.views.timelines.timeline import Timeline, TimelineRecord

if TYPE_CHECKING:
    from septran.targets.cuda.run.emulated_profile import EmulatedProfile

WARPGROUP = 4
"""Warps that do the same; the first of them stands for all."""
KINDS = {"load": "in", "store": "out", "wgmma": "matrix", "mma": "matrix", "threads": "threads"}
"""Kind of bar by the last word of a command; those that begin with ``wait`` are waits."""


def emulated_panel(profile: EmulatedProfile) -> Markup:
    """Everything of one run; complete without a script, network or kernel."""
    title = join([strong(profile.name), " on ", profile.machine, f", emulated ({profile.mode})"])
    body: list[Markup] = [paragraph("; ".join(profile.amounts))]
    if len(profile.run.trace):
        times = timeline(profile)
        body.append(paragraph(*times.notes))
        body.append(picture(timeline_svg(times), f"Timeline of {times.title}"))
    conflicts = profile.run.conflicts
    if conflicts:
        rows = [(c.wavefronts, c.ideal, mono(str(c.place)[:400])) for c in conflicts]
        summary = f"bank conflicts at {len(conflicts)} lines"
        body.append(details(summary, table(["wavefronts", "least possible", "line"], rows)))
    else:
        body.append(paragraph("no bank conflicts"))
    return panel(title, *body)


def timeline(profile: EmulatedProfile, core: int | None = 0, *, warps: bool = False) -> Timeline:
    """Return what one multiprocessor did, or all for None; a lane a warpgroup, or one a warp.

    In steps: they order things, and are no time of a GPU.
    """
    records = tuple(_records(profile, core, warps))
    end = max((record.end for record in records), default=0)
    notes = ("steps order what happens; they are no time of a GPU",)
    title = f"{profile.name} on {profile.machine}, emulated ({profile.mode})"
    return Timeline(title, "steps", end, records, notes)


def _records(profile: EmulatedProfile, core: int | None, warps: bool) -> Iterator[TimelineRecord]:
    from septran.emulator.trace import COMMANDS

    trace, queues = profile.run.trace, profile.run.queues
    if core is not None:
        trace = trace[trace["core"] == core]
    if not warps:
        trace = trace[trace["end"] > trace["start"]]
    for row in trace[np.lexsort((trace["start"], trace["queue"], trace["core"]))]:
        lane = queues[int(row["queue"])]
        if not warps and lane.startswith("warp") and int(lane.split()[1]) % WARPGROUP:
            continue
        command = COMMANDS[int(row["command"])]
        kind = "wait" if command.startswith("wait") else KINDS[command.split()[-1]]
        line = int(row["line"])
        yield TimelineRecord(
            lane=lane, start=int(row["start"]), end=int(row["end"]), kind=kind, label=command,
            group=f"multiprocessor {int(row['core'])}",
            bytes=int(row["bytes"]), flops=int(row["flops"]),
            origin=profile.run.origins.get(line, f"line {line} of the source"),
        )  # fmt: skip
