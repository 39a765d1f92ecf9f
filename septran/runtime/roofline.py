"""The roofline of a kernel: the work of one call, and the peak rates of the machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from septran.dtypes import accumulator_dtype, itemsize
from septran.machine.model import Instruction, Machine
from septran.runtime.stages import Stages
from septran.runtime.work import work
from septran.tile.nodes import Compute, TileProgram, nodes


@dataclass(frozen=True)
class Roofline:
    """The figures with which a time is compared."""

    flops: int
    """The number of operations of one call."""
    bytes_moved: int
    """The compulsory traffic of one call: bytes over main memory's bus."""
    peak_flops: float | None
    """Operations a second of the whole machine, from its file; None when unknown."""
    peak_bandwidth: float | None
    """Bytes a second of its main memory, from its file; None when unknown."""
    machine: str

    @staticmethod
    def of(stages: Stages) -> Roofline:
        """Return the roofline of a compilation, from its task tree and tile program."""
        done, program = work(stages.task_tree), stages.tile_program
        machine = program.machine
        # Of a machine file for any device, a share of its peaks would say nothing.
        known = not machine.vendor.get("assumed")
        return Roofline(
            done.flops,
            done.bytes_moved,
            peak_flops(program, done.operations) if known else None,
            machine.main_memory.bytes_per_second if known else None,
            machine.name,
        )


def peak_flops(program: TileProgram, operations: Mapping[str, int]) -> float | None:
    """Return operations a second if the main instruction never stalled; None if unknown."""
    used = {n.primitive: n for n in nodes(program.body) if isinstance(n, Compute)}
    main = max((p for p in operations if p in used), key=lambda p: operations[p], default=None)
    if main is None or program.machine.clock_mhz is None:
        return None
    try:
        instruction = program.machine.instruction(used[main].instruction)
    except KeyError:
        return None
    if instruction.throughput is None:
        return None
    dtype = program.buffer(used[main].operands[0].buffer).dtype
    # Figures are for 32-bit lanes: half as many 64-bit ones fit into a register.
    lanes = 4 / itemsize(accumulator_dtype(dtype))
    each = 2 if main == "gemm" else 1
    units = _units(program.machine, instruction)
    return instruction.throughput * lanes * each * program.machine.clock_mhz * 1e6 * units


def _units(machine: Machine, instruction: Instruction) -> int:
    """Return the number of processors of the issuing level in the whole machine."""
    level = instruction.issued_by or machine.processors[min(1, len(machine.processors) - 1)].name
    return math.prod(p.count for p in machine.processors[: machine.depth(level) + 1])
