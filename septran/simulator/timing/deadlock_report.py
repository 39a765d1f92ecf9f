"""Who waits where, when nothing can go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from septran.simulator.errors import StuckError
from septran.simulator.stream import SET, Stream

if TYPE_CHECKING:
    from septran.simulator.timing.timeline import Control


def stuck(stream: Stream, controls: Sequence[Control]) -> StuckError:
    """The report: every queue and control core that waits, and for what."""
    lines = []
    for control in controls:
        for lane in control.lanes:
            if lane.head < len(lane.entries):
                n = lane.entries[lane.head]
                lines.append(f"{stream.describe(n)} waits for {_reason(stream, n)}")
        if control.next < len(control.commands):
            n = control.commands[control.next]
            what = "the other cores" if control.at_barrier else "its queues to be done"
            if stream.queue[n] >= 0:
                what = "a place in that queue"
            lines.append(f"core {control.core} at {stream.describe(n)} waits for {what}")
    return StuckError(
        "deadlock: " + "; ".join(lines),
        hint="every wait_flag needs one set_flag of the same queues and number before it",
    )


def _reason(stream: Stream, n: int) -> str:
    what = stream.flag_name(n)
    return f"room in {what}, which is full" if stream.code[n] == SET else what
