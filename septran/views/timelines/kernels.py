"""The timeline of one call, whatever the kernel runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from septran.errors import CallError
from septran.stage import view
from septran.targets.base import SelfProfiling
from septran.targets.registry import marking_for
from septran.views.timelines.timeline import Timeline

if TYPE_CHECKING:
    from septran.runtime.instrumented_call import Rehearsal


class NoTimelineError(CallError):
    """Nothing can tell when the parts of this kernel run."""

    code = "SEP660"


def timeline_of(run: Rehearsal) -> Timeline:
    """When each engine, warp or block worked."""
    if isinstance(run.specialisation.stages.executable, SelfProfiling):
        told: Timeline = view(run.profile(), "timeline")
        return told
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
