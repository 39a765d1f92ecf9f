"""The cost of a command by its arguments, as the simulator's own table has it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from septran.machine.model import Machine
from septran.simulator.commands import (
    ADDRESS,
    CODES,
    EXTERNS,
    RECORD,
    memory_address,
    parameter_address,
)
from septran.simulator.hardware import Hardware
from septran.simulator.operands import operands
from septran.simulator.spaces import Spaces
from septran.simulator.stream import Stream
from septran.simulator.timing.costs import costs
from septran.timing.clock import Cost

Key = tuple[Any, ...]
"""The extern and its arguments; of an address the number of its memory, -1 for a parameter."""

_MIDDLE = 1 << 38
"""A byte from which a command may reach far to both sides."""
_ROOM = np.broadcast_to(np.zeros((), np.uint8), (1 << 40,))
"""A parameter that is large enough for any command."""


@dataclass
class CommandCosts:
    """The costs of the commands of one machine, each worked out once."""

    machine: Machine
    known: dict[Key, Cost] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Where things are does not matter here, so no memory has an end.
        endless = [replace(memory, capacity_bytes=None) for memory in self.machine.memories]
        hardware = Hardware(replace(self.machine, memories=tuple(endless)))
        self.spaces = Spaces(hardware, (_ROOM,))

    def of(self, key: Key) -> Cost:
        """The cost of a command."""
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._worked_out(key)
        return found

    def _worked_out(self, key: Key) -> Cost:
        extern, *arguments = key
        command, _ = EXTERNS[extern]
        record = np.zeros(1, RECORD)
        record["code"] = CODES[extern]
        for n, (argument, value) in enumerate(zip(command.arguments, arguments, strict=True)):
            place = self._address(value) if argument.kind == ADDRESS else value
            record["arguments"][0, n] = place
        stream = Stream(record, self.spaces.hardware)
        cost = costs(stream, self.spaces, operands(stream, self.spaces))
        shared = float(cost.shared_bytes[0])
        return Cost(
            float(cost.cycles[0]), float(cost.lead[0]), int(cost.pipe[0]), shared,
            float(cost.rate[0]) if shared else np.inf,
        )  # fmt: skip

    @staticmethod
    def _address(memory: int) -> int:
        base = parameter_address(0) if memory < 0 else memory_address(memory)
        return base + _MIDDLE
