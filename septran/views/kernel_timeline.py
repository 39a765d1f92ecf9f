"""The timeline of one call, whatever the kernel runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from septran.errors import CallError
from septran.targets.base import SelfProfiling
from septran.views.timeline import Timeline

if TYPE_CHECKING:
    from septran.runtime.rehearsal import Rehearsal


class NoTimelineError(CallError):
    """Nothing can tell when the parts of this kernel run."""

    code = "SEP660"


def timeline_of(run: Rehearsal) -> Timeline:
    """When each engine, warp or block worked."""
    if isinstance(run.specialisation.stages.executable, SelfProfiling):
        return _told(run)
    program = run.program
    if program is None or program.machine.backend not in ("cpu", "cuda"):
        where = "a kernel loaded from a file" if program is None else program.machine.name
        raise NoTimelineError(
            f"{run.name}: there is no timeline of {where}",
            hint="compile it from its logic for a CPU, an NVIDIA GPU or a simulated DSA, or with "
            "emulate=True",
        )
    title = f"{run.name} on {program.machine.name}"
    if program.machine.backend == "cuda":
        from septran.runtime.gpu import device_zeros
        from septran.targets.cuda import marked_run
        from septran.views import gpu_timeline

        return gpu_timeline.timeline(marked_run.record(program, run.arguments, device_zeros), title)
    from septran.targets.cpu.marks import record
    from septran.views.cpu_timeline import timeline

    return timeline(record(program, run.arguments), title)


def _told(run: Rehearsal) -> Timeline:
    from septran.targets.cuda.emulated_profile import EmulatedProfile
    from septran.views import dsa_timeline, emulated_panel

    profile = run.profile()
    if isinstance(profile, EmulatedProfile):
        return emulated_panel.timeline(profile)
    return dsa_timeline.timeline(profile)
