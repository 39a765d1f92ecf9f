"""Execute generated CUDA text on a CPU: what a kernel computes, and what it does wrong.

    from septran.emulator import emulate

    run = emulate(program, {"A": a, "B": b, "C": c})    # a `CudaProgram`; C is written in place
    run.statistics, run.conflicts, run.trace, run.stage("trace")

`program` is what lowering gives (`septran.emulator.launch.CudaProgram`); `arrays` are the
parameters by name, C-contiguous NumPy arrays (bfloat16 and float8 as ml_dtypes or as integers
of that width). `seed=None` is eager: asynchronous work lands when it is issued. `seed=0` lands
it as late as the waits allow, any other seed in a random order, with threads in a random
order. Mistakes are raised as `EmulationError`s that name the thread, the line of the text,
and the origin comment next to it. It needs g++ or clang++, and no GPU.
"""

from __future__ import annotations

from septran.emulator.emulate import Emulation, emulate
from septran.emulator.errors import (
    AlignmentError,
    ArrivalError,
    EmulatedBoundsError,
    EmulatedDeadlockError,
    EmulationError,
    MisuseError,
    ProxyError,
    RegisterError,
    ThreadRaceError,
    UnfinishedError,
    UnknownInstructionError,
    UnmodelledError,
    UnwrittenSharedError,
)
from septran.emulator.settings import MODES, emulation

__all__ = [
    "MODES",
    "AlignmentError",
    "ArrivalError",
    "EmulatedBoundsError",
    "EmulatedDeadlockError",
    "Emulation",
    "EmulationError",
    "MisuseError",
    "ProxyError",
    "RegisterError",
    "ThreadRaceError",
    "UnfinishedError",
    "UnknownInstructionError",
    "UnmodelledError",
    "UnwrittenSharedError",
    "emulate",
    "emulation",
]
