"""The timeline of one call, whatever the kernel runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from septran.errors import CallError
from septran.explain.timeline import Timeline
from septran.targets.base import SelfProfiling

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
        from septran.explain import gpu_timeline
        from septran.runtime.gpu import device_zeros
        from septran.targets.cuda import marked_run

        return gpu_timeline.timeline(marked_run.record(program, run.arguments, device_zeros), title)
    from septran.explain.cpu_timeline import timeline
    from septran.targets.cpu.marks import record

    return timeline(record(program, run.arguments), title)


def _told(run: Rehearsal) -> Timeline:
    from septran.explain import dsa_timeline, emulated_panel
    from septran.targets.cuda.emulated_profile import EmulatedProfile

    profile = run.profile()
    if isinstance(profile, EmulatedProfile):
        return emulated_panel.timeline(profile)
    return dsa_timeline.timeline(profile)
