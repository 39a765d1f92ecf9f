"""The tensor, edge and channel of each copy's bytes, by its addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.machine.model import Machine
from septran.simulator.commands import CODES, COMMANDS, memory_address, parameter_address
from septran.simulator.queues import Queues
from septran.tile.nodes import TileProgram

Array = np.ndarray[Any, Any]
COPIES = ("dma_copy", "dma_block", "dma_unblock", "dma_zero")
_NEXT = memory_address(1) - memory_address(0)


@dataclass(frozen=True)
class CommandTexts:
    """One text for each command of a stream; empty for all that an engine does not carry out."""

    edge: Array
    """``GLOBAL -> SPM``; of zeros the memory that gets them."""
    tensor: Array
    """The caller's tensor at one end, where there is one."""
    channel: Array
    """The channel of the tile program that the copy belongs to."""


def movement(stream: Array, machine: Machine, program: TileProgram | None = None) -> CommandTexts:
    """Read the addresses of all copies of `stream`."""
    edge, tensor, channel = (np.full(len(stream), "", object) for _ in range(3))
    for name in COPIES:
        at = np.flatnonzero(stream["code"] == CODES[f"dsa.{name}"])
        columns = [argument.name for argument in COMMANDS[name].arguments]
        values = stream["arguments"][at]
        target = values[:, columns.index("dst")]
        source = values[:, columns.index("src")] if "src" in columns else target
        for first, origin in _memories(machine, source):
            for second, goal in _memories(machine, target):
                words = f"{origin} -> {goal}" if "src" in columns else goal
                edge[at[first & second]] = words
        if program is None:
            continue
        for mine, word in _tensors(program, source, target):
            tensor[at[mine]] = word
        for mine, word in _channels(program, values[:, columns.index("queue")], source, target):
            channel[at[mine]] = word
    return CommandTexts(edge, tensor, channel)


def _memories(machine: Machine, addresses: Array) -> Iterator[tuple[Array, str]]:
    yield addresses < memory_address(0), machine.main_memory.name
    for number, memory in enumerate(machine.memories):
        first = memory_address(number)
        yield (addresses >= first) & (addresses < first + _NEXT), memory.name


def _tensors(program: TileProgram, *ends: Array) -> Iterator[tuple[Array, str]]:
    for number, name in enumerate(program.params):
        low, high = parameter_address(number), parameter_address(number + 1)
        yield np.any([(end >= low) & (end < high) for end in ends], axis=0), name


def _channels(program: TileProgram, queue: Array, *ends: Array) -> Iterator[tuple[Array, str]]:
    """Copies of a channel's engine with one of its buffers at one end."""
    numbers = Queues(program.machine).numbers
    memories = [memory.name for memory in program.machine.memories]
    plan = {placement.buffer: placement for placement in program.plan}
    for channel in program.channels:
        mine = queue == numbers[channel.engine]
        for place in (plan[name] for name in channel.buffers if name in plan):
            low = memory_address(memories.index(place.memory)) + place.offset_bytes
            high = low + place.size_bytes
            inside = np.any([(end >= low) & (end < high) for end in ends], axis=0)
            yield mine & inside, channel.name
