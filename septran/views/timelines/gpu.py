"""The timeline of a kernel on a GPU: a bar a mark, a lane a warpgroup."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from septran.views.timelines.timeline import Timeline, TimelineRecord

if TYPE_CHECKING:
    from septran.targets.cuda.run.instrumented_run import WarpgroupMark

BLOCKS = 4
"""Of one multiprocessor that are shown."""


def timeline(marks: Sequence[WarpgroupMark], title: str, unit: str = "us") -> Timeline:
    """Return the timeline of the first block's multiprocessor, in microseconds or `unit`."""
    scale = 1e-3 if unit == "us" else 1
    shown = _shown(marks)
    begun = min((mark.start for mark in shown), default=0)
    records = tuple(
        TimelineRecord(
            lane=mark.lane, start=(mark.start - begun) * scale, end=(mark.end - begun) * scale,
            kind=mark.site.kind, label=mark.site.label, origin=mark.site.origin,
            group=f"{mark.kernel}: block {mark.block} on multiprocessor {mark.multiprocessor}",
        )
        for mark in shown
    )  # fmt: skip
    end = max((record.end for record in records), default=0.0)
    return Timeline(title, unit, end, records, tuple(_notes(marks, shown, unit)))


def _shown(marks: Sequence[WarpgroupMark]) -> list[WarpgroupMark]:
    """Return the first blocks of each kernel on the multiprocessor of its first block."""
    found: list[WarpgroupMark] = []
    for kernel in dict.fromkeys(mark.kernel for mark in marks):
        mine = [mark for mark in marks if mark.kernel == kernel]
        near = [mark for mark in mine if mark.multiprocessor == mine[0].multiprocessor]
        blocks = list(dict.fromkeys(mark.block for mark in near))[:BLOCKS]
        found += [mark for mark in near if mark.block in blocks]
    return found


def _notes(
    marks: Sequence[WarpgroupMark], shown: Sequence[WarpgroupMark], unit: str
) -> Iterator[str]:
    if unit == "us" and shown:
        readings = [time for mark in shown for time in (mark.start, mark.end)]
        grain = math.gcd(*(time - readings[0] for time in readings))
        yield f"globaltimer goes in steps of {max(1, grain)} ns here"
    yield "the marks take time, too: `profile` times the kernel without them"
    if len(shown) < len(marks):
        blocks = len({(mark.kernel, mark.block) for mark in shown})
        yield f"{blocks} of {len({(m.kernel, m.block) for m in marks})} blocks with marks"
