"""Room for the intermediate results of vector expressions, in a memory that also holds buffers.

A machine file names the memory in ``options.temporaries`` of an instruction. The temporaries lie
behind all buffers of the plan, and a share of the memory is reserved for them.
"""

from __future__ import annotations

from septran.machine.model import Machine, Memory
from septran.tile.nodes import Compute, TileProgram, nodes

SHARE = 8
"""The reciprocal of the share that is reserved in a memory that also holds buffers."""


def memories_of_temporaries(machine: Machine) -> frozenset[str]:
    """Return the memories that hold temporaries of any instruction."""
    named = (i.options.get("temporaries") for i in machine.instructions)
    return frozenset(machine.memory(str(name)).name for name in named if name is not None)


def kept_for_temporaries(program: TileProgram, memory: Memory) -> int:
    """Return the bytes of `memory` that buffers must leave to the computations of `program`."""
    if memory.capacity_bytes is None or memory.name not in memories_of_temporaries(program.machine):
        return 0
    machine = program.machine
    used = {n.instruction for n in nodes(program.body) if isinstance(n, Compute)}
    named = (i.options.get("temporaries") for i in machine.instructions if i.name in used)
    served = {machine.memory(str(name)).name for name in named if name is not None}
    return memory.capacity_bytes // SHARE if memory.name in served else 0


def start_of_temporaries(program: TileProgram, memory: Memory) -> int:
    """Return the first byte behind all buffers of the plan, at the memory's alignment."""
    ends = (p.offset_bytes + p.size_bytes for p in program.plan if p.memory == memory.name)
    step = max(8, memory.alignment)
    return -(-max(ends, default=0) // step) * step


def shared_with_buffers(program: TileProgram) -> dict[str, int]:
    """Where temporaries begin in each of their memories that also holds buffers, in bytes."""
    held = {p.memory for p in program.plan} & memories_of_temporaries(program.machine)
    return {n: start_of_temporaries(program, program.machine.memory(n)) for n in sorted(held)}


def advice(machine: Machine) -> tuple[str, ...]:
    """Return notes of `septran lint` on temporaries in a memory that may also hold buffers."""
    reached = {name for engine in machine.engines for edge in engine.moves for name in edge}
    taken = (m for i in machine.instructions for names in i.operands.values() for m in names)
    reached |= {machine.canonical(name) for name in taken}
    found = []
    for name in sorted(memories_of_temporaries(machine) & reached):
        kept = (machine.memory(name).capacity_bytes or 0) // SHARE
        found.append(
            f"temporaries of vector expressions are in {name}, where buffers can be, too: "
            f"{kept:,} bytes of it are kept for them; a memory of their own leaves it whole"
        )
    return tuple(found)
