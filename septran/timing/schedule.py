"""When each unit of a machine works in a program, and for which other it waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from septran.timing.clock import Clock, TimedQueue


@dataclass(frozen=True)
class UnitTime:
    """The work and the waiting of one unit, in cycles."""

    name: str
    """The name of an engine, or of a queue of instructions."""
    busy: int
    first: int
    """When its first work begins."""
    last: int
    """When its last work ends."""
    waits: tuple[tuple[str, int], ...]
    """For how long its next work waited for another unit, by that unit, the longest first."""
    crowded: int
    """By how much its transfers took longer as others were on main memory's port."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-ready data."""
        return asdict(self) | {"waits": dict(self.waits)}


@dataclass(frozen=True)
class UnitSchedule:
    """The schedule of the core that takes longest, as far as it is known without data."""

    cycles: int
    units: tuple[UnitTime, ...]
    """The units that work, the busiest first."""
    full: int
    """Cycles for which the control core waited for room in a queue."""
    synced: int
    """Cycles for which the control core waited for all queues to end."""

    @property
    def by(self) -> UnitTime | None:
        """The unit that works for longest; None in a program that does nothing."""
        return self.units[0] if self.units else None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-ready data."""
        units = [unit.to_dict() for unit in self.units]
        return {"cycles": self.cycles, "units": units, "full": self.full, "synced": self.synced}

    def __str__(self) -> str:
        return "\n".join([f"{self.cycles:,} cycles", *map(self._row, self.units)])

    def _row(self, unit: UnitTime) -> str:
        waits = ", ".join(f"{name} {cycles:,}" for name, cycles in unit.waits if cycles)
        share = unit.busy / self.cycles if self.cycles else 0.0
        row = (
            f"  {unit.name}: busy {unit.busy:,} ({share:.0%}), from {unit.first:,} to {unit.last:,}"
        )
        return row + (f"; waits for {waits}" if waits else "")


def schedule_of(clocks: Sequence[Clock]) -> UnitSchedule:
    """The schedule of the slowest of some cores."""
    slowest = max(clocks, key=lambda clock: clock.cycles)
    names = [lane.name for lane in slowest.lanes]
    units = [_unit(lane, names) for lane in slowest.lanes if lane.first < math.inf]
    ordered = tuple(sorted(units, key=lambda unit: -unit.busy))
    return UnitSchedule(slowest.cycles, ordered, round(slowest.full), round(slowest.synced))


def _unit(lane: TimedQueue, names: Sequence[str]) -> UnitTime:
    waits = sorted(lane.waits.items(), key=lambda item: -item[1])
    named = tuple((names[n], round(cycles)) for n, cycles in waits)
    busy, first, last = (round(n) for n in (lane.busy, lane.first, lane.last))
    return UnitTime(lane.name, busy, first, last, named, round(lane.crowded))
