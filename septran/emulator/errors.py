"""Errors that the emulator finds in a kernel, and what it cannot run.

EmulationError               SEP583  any of the below
├── UnknownInstructionError  SEP584  an instruction or function that it does not know
├── UnmodelledError          SEP585  something that it knows and does not model
├── BoundsError              SEP586  an access outside a memory
├── AlignmentError           SEP596  an access that is not aligned as it must be
├── UnwrittenSharedError     SEP587  a read of shared memory that nobody has written
├── UnfinishedError          SEP588  data of asynchronous work that was not waited for
├── ProxyError               SEP589  a fence between threads and engines is missing
├── RegisterError            SEP590  accumulators used while or before wgmma may
├── ThreadRaceError          SEP591  two threads, the same bytes, and no barrier
├── DeadlockError            SEP592  threads that wait for what never happens
├── ArrivalError             SEP593  a barrier with a wrong count of arrivals or bytes
└── MisuseError              SEP594  an instruction used as it must not be
"""

from __future__ import annotations

from dataclasses import dataclass

from septran.errors import TargetError


@dataclass(frozen=True)
class CudaPlace:
    """A line of CUDA text, and what it came from."""

    line: int
    """1-based; 0 where it is not known."""
    text: str
    origin: str = ""
    """The comment of the generator next to it; empty where there is none."""

    def __str__(self) -> str:
        if not self.line:
            return "(unknown line)"
        origin = f"\n      {self.origin}" if self.origin else ""
        return f"line {self.line}: {self.text}{origin}"

    @property
    def brief(self) -> str:
        """On one line."""
        if not self.line:
            return "(unknown line)"
        return f"(line {self.line}: {self.text}{f' // {self.origin}' if self.origin else ''})"


class EmulationError(TargetError):
    """A kernel did something that a GPU punishes, or that nobody can rely on."""

    code = "SEP583"
    place: CudaPlace | None = None
    """Where in the CUDA text."""
    block: int | None = None
    """Number of the block; None where it is not one thread's mistake."""
    thread: int | None = None
    """Number of the thread in its block."""


class UnknownInstructionError(EmulationError):
    """The text uses an instruction or a function that the emulator does not know."""

    code = "SEP584"


class UnmodelledError(EmulationError):
    """The kernel does something whose result the emulator could only guess."""

    code = "SEP585"


class EmulatedBoundsError(EmulationError):
    """An access outside shared memory or an array."""

    code = "SEP586"


class AlignmentError(EmulationError):
    """An access at an address that is not a multiple of what it must be."""

    code = "SEP596"


class UnwrittenSharedError(EmulationError):
    """Shared memory is read that nobody has written."""

    code = "SEP587"


class UnfinishedError(EmulationError):
    """Asynchronous work was not waited for before its data was used or replaced."""

    code = "SEP588"


class ProxyError(EmulationError):
    """Threads wrote, an engine uses it, and no proxy fence lies in between."""

    code = "SEP589"


class RegisterError(EmulationError):
    """Registers were touched while a wgmma may use them, or wgmma came without its fence."""

    code = "SEP590"


class ThreadRaceError(EmulationError):
    """Two threads use the same bytes of shared memory, one writes, and nothing orders them."""

    code = "SEP591"


class EmulatedDeadlockError(EmulationError):
    """Threads wait for each other, or for what never happens."""

    code = "SEP592"


class ArrivalError(EmulationError):
    """A barrier got more or fewer arrivals or bytes than it counts."""

    code = "SEP593"


class MisuseError(EmulationError):
    """An instruction was executed in a way that it is not defined for."""

    code = "SEP594"


FAULTS: tuple[type[EmulationError], ...] = (
    EmulationError, EmulatedBoundsError, AlignmentError, UnwrittenSharedError, UnfinishedError,
    ProxyError, RegisterError, ThreadRaceError, EmulatedDeadlockError, ArrivalError, MisuseError,
    UnmodelledError,
)  # fmt: skip
"""By the runtime's numbers (``Fault`` in runtime/interface.h)."""
