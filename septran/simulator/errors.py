"""Errors in a stream of commands, found when it is simulated.

SimulationError             SEP550  any of the below
├── CommandError            SEP551  a command that this machine does not have
├── SimulatedBoundsError    SEP552  an address outside its memory, or not aligned
├── UnwrittenBytesError     SEP553  a read of bytes that nobody has written
├── HazardError             SEP554  two commands use the same bytes and nothing orders them
├── SimulatedDeadlockError  SEP555  queues that wait for each other, or for nobody
├── FlagError               SEP556  flags that are still set at the end
└── TemporaryOverlapError   SEP557  a temporary of the vector unit where a buffer is
"""

from __future__ import annotations

from septran.errors import TargetError


class SimulationError(TargetError):
    """A stream of commands that no hardware of this description carries out."""

    code = "SEP550"


class CommandError(SimulationError):
    """A command, or an argument of one, that the machine does not have."""

    code = "SEP551"


class SimulatedBoundsError(SimulationError):
    """An access outside a memory, or one that is not aligned as it must be."""

    code = "SEP552"


class UnwrittenBytesError(SimulationError):
    """A read of bytes that nobody has written."""

    code = "SEP553"


class HazardError(SimulationError):
    """Two commands of different queues use the same bytes, and no flag orders them."""

    code = "SEP554"


class SimulatedDeadlockError(SimulationError):
    """Queues or control cores that wait for what never happens."""

    code = "SEP555"


class FlagError(SimulationError):
    """Flags that were set and never waited for."""

    code = "SEP556"


class TemporaryOverlapError(SimulationError):
    """A temporary of the vector unit shares bytes with a buffer."""

    code = "SEP557"
