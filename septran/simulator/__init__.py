"""A deterministic simulator of DSAs: what a stream of commands computes, and how fast.

It is fed by the commands that a kernel's control code issues (`commands.RECORD`) and
driven by the machine file alone. Every in-order queue of every core runs beside the
others; flags, syncs and barriers order them. Function and time come from one stream.
"""

from __future__ import annotations

from septran.simulator.errors import (
    CommandError,
    FlagError,
    HazardError,
    SimulatedBoundsError,
    SimulatedDeadlockError,
    SimulationError,
    TemporaryOverlapError,
    UnwrittenBytesError,
)
from septran.simulator.run import CAUSES, TRACE, Run, simulate

__all__ = [
    "CAUSES",
    "TRACE",
    "CommandError",
    "FlagError",
    "HazardError",
    "Run",
    "SimulatedBoundsError",
    "SimulatedDeadlockError",
    "SimulationError",
    "TemporaryOverlapError",
    "UnwrittenBytesError",
    "simulate",
]
