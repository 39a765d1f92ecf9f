"""An emulated GPU run as a timeline and as HTML: counts, lanes, lines with bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from septran.explain.html import (
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
from septran.explain.timeline import Record, Timeline
from septran.explain.timeline_svg import timeline_svg

if TYPE_CHECKING:
    from septran.targets.cuda.emulated_profile import EmulatedProfile

CONFLICTS = 12
"""Lines with bank conflicts that are listed."""
KINDS = {
    "tma load": "in", "bulk load": "in", "tma store": "out", "bulk store": "out",
    "wgmma": "matrix", "mma": "matrix", "threads": "threads",
}  # fmt: skip
"""What the bars of a command are; every other command is a wait."""


def timeline(profile: EmulatedProfile, title: str = "") -> Timeline:
    """Everything that was carried out, in steps: they order things and are no time."""
    name = title or f"{profile.name} on {profile.machine}, emulated ({profile.mode})"
    records = tuple(_records(profile))
    end = max((record.end for record in records), default=0)
    note = "steps of the emulator order things; they are no time of a GPU"
    return Timeline(name, "steps", end, records, (note,))


def _records(profile: EmulatedProfile) -> Iterator[Record]:
    from septran.targets.cuda.emulator.trace import COMMANDS

    run = profile.run
    several = len(set(run.trace["core"].tolist())) > 1
    for row in np.sort(run.trace, order=("core", "queue", "start")):
        command = COMMANDS[int(row["command"])]
        yield Record(
            lane=run.queues[int(row["queue"])], start=int(row["start"]), end=int(row["end"]),
            kind=KINDS.get(command, "wait"), label=command,
            group=f"multiprocessor {int(row['core'])}" if several else "",
            origin=run.origins.get(int(row["line"]), f"line {int(row['line'])} of the source"),
            bytes=int(row["bytes"]), flops=int(row["flops"]),
        )  # fmt: skip


def emulated_panel(profile: EmulatedProfile) -> Markup:
    """Everything of one emulated run; complete without a script, network or kernel."""
    found = timeline(profile)
    title = join([strong(profile.name), f" on {profile.machine}, emulated ({profile.mode})"])
    alt = f"Timeline of {found.title}: {found.end:,} steps"
    return panel(
        title,
        *(paragraph(line.strip()) for line in profile.amounts()),
        paragraph(found.notes[0]),
        picture(timeline_svg(found), alt),
        *_conflicts(profile),
    )


def _conflicts(profile: EmulatedProfile) -> Iterator[Markup]:
    found = profile.run.conflicts[:CONFLICTS]
    if not found:
        yield paragraph("no bank conflicts in shared memory")
        return
    rows: list[tuple[Any, ...]] = [
        (mono(c.place), f"{c.wavefronts:,}", f"{c.ideal:,}") for c in found
    ]
    head = ("line", "wavefronts", "at best")
    yield details("bank conflicts in shared memory", table(head, rows, head[1:]))
