"""The timeline of one call, whatever the kernel runs on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from septran.errors import CallError
from septran.stage import view
from septran.targets.base import SelfProfiling
from septran.targets.registry import marking_for
from septran.views.timelines.timeline import Timeline, TimelineRecord, covered

if TYPE_CHECKING:
    from septran.runtime.instrumented_call import InstrumentedCall
    from septran.targets.cpu.run.instrumentation import Mark


def timeline(marks: Sequence[Mark], title: str) -> Timeline:
    """All blocks of one call, in microseconds."""
    records = tuple(
        TimelineRecord(
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


def _notes(records: Sequence[TimelineRecord], end: float) -> Iterator[str]:
    lanes = sorted({record.lane for record in records})
    for lane in lanes:
        busy = covered([r for r in records if r.lane == lane]) / end
        yield f"{lane} busy {busy:.0%}"
    if not lanes:
        yield "no block ran: the mapping spreads nothing over cores"


class NoTimelineError(CallError):
    """Nothing records when the parts of this kernel run."""

    code = "SEP660"


def timeline_of(run: InstrumentedCall) -> Timeline:
    """When each engine, warp or block worked."""
    if isinstance(run.specialisation.stages.executable, SelfProfiling):
        timeline: Timeline = view(run.profile(), "timeline")
        return timeline
    program = run.program
    target = None if program is None else marking_for(program.machine.backend)
    if program is None or target is None:
        where = "a kernel loaded from a file" if program is None else program.machine.name
        raise NoTimelineError(
            f"{run.name}: there is no timeline of {where}",
            hint="compile it from its logic for a CPU, an NVIDIA GPU or a simulated DSA, or with "
            "emulate=True",
        )
    from septran.runtime.gpu import device_zeros  # late: the runtime

    marks = target.marks(program, run.arguments, device_zeros)
    found: Timeline = view(marks, "timeline", f"{run.name} on {program.machine.name}")
    return found
