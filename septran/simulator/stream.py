"""The recorded stream by columns, and how a command of it is named in messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from septran.dtypes import itemsize
from septran.simulator.commands import CODES, COMMANDS, DTYPES, EXTERNS, RECORD, Command
from septran.simulator.errors import CommandError
from septran.simulator.hardware import Hardware

Array = np.ndarray[Any, Any]

NAMES = tuple(EXTERNS)
"""Extern by code."""
SET, WAIT = CODES["dsa.set_flag"], CODES["dsa.wait_flag"]
SYNC, BARRIER = CODES["dsa.sync"], CODES["dsa.barrier"]
COLUMNS: Mapping[str, Mapping[str, int]] = {
    name: {argument.name: n for n, argument in enumerate(command.arguments)}
    for name, command in COMMANDS.items()
}
"""Place of each argument, by command and name."""
ITEM_BYTES: Array = np.array(
    [1 if d.startswith("float8") else itemsize(d) for d in DTYPES], np.int64
)
"""By number of the dtype."""


@dataclass(frozen=True)
class Commands:
    """The commands of one extern: where in the stream they are, and their arguments."""

    extern: str
    command: Command
    function: str
    at: Array
    """Positions in the stream."""
    arguments: Array

    def __getitem__(self, name: str) -> Array:
        """An argument by name, one number a command."""
        column: Array = self.arguments[:, COLUMNS[self.command.name][name]]
        return column


@dataclass(frozen=True)
class Stream:
    """A recorded stream of commands, with the hardware and the origins of its commands."""

    records: Array
    hardware: Hardware
    origins: Mapping[int, str] = field(default_factory=dict)
    numbers: Array | None = None
    """Positions in the whole stream, where these are a choice from it."""

    def __post_init__(self) -> None:
        if self.records.dtype != RECORD or self.records.ndim != 1:
            raise CommandError(f"a stream is a flat array of {RECORD}, not {self.records.dtype}")
        self._check(self.code, 0, len(NAMES), "has the number {} of no command")
        self._check(self.core, 0, self.hardware.cores, f"is on core {{}} of {self.hardware.cores}")

    def _check(self, numbers: Array, low: int, high: int, what: str) -> None:
        bad = np.flatnonzero((numbers < low) | (numbers >= high))
        if bad.size:
            raise CommandError(f"command #{bad[0]} {what.format(numbers[bad[0]])}")

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def forms(self) -> Stream:
        """Each different command once, where it occurs first."""
        return Stream(self.records[self._distinct[0]], self.hardware, self.origins, self.first)

    @property
    def first(self) -> Array:
        """Position of each form's first occurrence."""
        return self._distinct[0]

    @property
    def form(self) -> Array:
        """The number of each command's form."""
        return self._distinct[1]

    @cached_property
    def _distinct(self) -> tuple[Array, Array]:
        return _distinct(np.column_stack([self.code, self.core, self.arguments]))

    @cached_property
    def code(self) -> Array:
        """Number of each command's extern."""
        return np.ascontiguousarray(self.records["code"])

    @cached_property
    def core(self) -> Array:
        """Core that issued each."""
        return np.ascontiguousarray(self.records["core"])

    @cached_property
    def arguments(self) -> Array:
        """All arguments, one row a command."""
        return np.ascontiguousarray(self.records["arguments"])

    @cached_property
    def externs(self) -> tuple[Commands, ...]:
        """The commands by extern, those that occur."""
        if not len(self):
            return ()
        order = np.argsort(self.code, kind="stable")
        codes, starts = np.unique(self.code[order], return_index=True)
        found = []
        for code, at in zip(codes, np.split(order, starts[1:]), strict=True):
            command, function = EXTERNS[NAMES[code]]
            found.append(Commands(NAMES[code], command, function, at, self.arguments[at]))
        return tuple(found)

    @cached_property
    def queue(self) -> Array:
        """Number of the queue of each; -1 for what the control core does itself."""
        queue = np.full(len(self), -1, np.int64)
        for group in self.externs:
            columns = COLUMNS[group.command.name]
            # The queue that it tells of carries a set out, the one that it holds back a wait.
            name = {"set_flag": "src", "wait_flag": "dst"}.get(group.command.name, "queue")
            if name in columns:
                queue[group.at] = group[name]
                limit = len(self.hardware.queues)
                bad = group.at[(group[name] < 0) | (group[name] >= limit)]
                if bad.size:
                    raise CommandError(
                        f"{self.describe(bad[0])}: there is no queue {queue[bad[0]]}",
                        hint="queues: " + ", ".join(f"{q.number} {q.name}" for q in self.queues()),
                    )
        return queue

    def queues(self) -> Iterator[Any]:
        """Queues of one core."""
        return iter(self.hardware.queues)

    def named(self, at: int, name: str) -> int:
        """One argument of one command."""
        command, _ = EXTERNS[NAMES[self.code[at]]]
        return int(self.arguments[at, COLUMNS[command.name][name]])

    def describe(self, at: int) -> str:
        """``#12 dsa.mma on MMA of core 0 (line 40: C += A @ B)``."""
        name = NAMES[self.code[at]]
        core, line = int(self.core[at]), int(self.records["line"][at])
        queue = self._queue_name(at)
        place = queue if self.hardware.cores == 1 else f"{queue} of core {core}"
        origin = self.origins.get(line, "")
        words = [f"line {line}"] if line else []
        words += [origin] if origin else []
        number = at if self.numbers is None else self.numbers[at]
        return f"#{number} {name} on {place}" + (f" ({': '.join(words)})" if words else "")

    def operand(self, at: int, role: int) -> str:
        """``#12 dsa.mma on MMA of core 0: a``."""
        command, _ = EXTERNS[NAMES[self.code[at]]]
        return f"{self.describe(at)}: {command.arguments[role].name}"

    def _queue_name(self, at: int) -> str:
        command, _ = EXTERNS[NAMES[self.code[at]]]
        word = {"set_flag": "src", "wait_flag": "dst"}.get(command.name, "queue")
        if word not in COLUMNS[command.name]:
            return "the control core"
        number = self.named(at, word)
        queues = self.hardware.queues
        return queues[number].name if 0 <= number < len(queues) else f"queue {number}"

    def flag_name(self, at: int) -> str:
        """``flag 0 from dma_in to MMA`` of a set_flag or wait_flag."""
        names = [self.hardware.queues[self.named(at, word)].name for word in ("src", "dst")]
        return f"flag {self.named(at, 'flag')} from {names[0]} to {names[1]}"


def _distinct(rows: Array) -> tuple[Array, Array]:
    """First position of each different row, in order, and the number of each row's."""
    # One odd factor a column; whether two rows that agree in it are equal is checked below.
    factors = np.random.default_rng(1).integers(1 << 62, size=rows.shape[1]) | 1
    mixed = (rows * factors).sum(axis=1)
    _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first][inverse], rows):
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size)
    return first[order], number[inverse.reshape(-1)]
