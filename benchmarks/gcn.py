"""AMD machine code beside others', counted without a GPU: ``python -m benchmarks.gcn``.

    python -m benchmarks.counts.gcn_triton FOLDER gfx942  # where Triton is: its listings
    python -m benchmarks.gcn --beside FOLDER              # ours, and those in the folder

Clang compiles our kernels for the machine, and instructions of the loop that binds are counted by
pipe. FOLDER has assembly listings of others, ``ARCH.FAMILY.RIVAL.s``, made by whatever compiles
them (composable_kernel's templates by ``clang++ -S``). Cycles are what a wave asks of its vector
unit's pipes: of the matrix core by the machine file's throughput, of the vector lanes four for an
instruction, of the local data share by bytes. For products they are set beside the matrix core's,
which no kernel can do without: vector or lds above 1 says that the loop is bound by that, and not
by products. Rows of softmax and norms have no products; theirs are cycles an element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import septran
from benchmarks.counts.gcn_listing import LANES, VECTOR_UNITS, Loop, kernel
from benchmarks.counts.table import OURS, Counted, chosen, options_of, table
from septran.emulator.launch import CudaProgram
from septran.machine.model import Machine
from septran.targets.rocm.compile import HipCompiled, HipFigures, compile_text
from septran.targets.rocm.occupancy import waves_at_a_time

INSTRUCTIONS = {"int8": "mfma_int8", "float32": "mfma_float32"}
"""Of the machine file by operands' type, for the throughput of their products; else `PLAIN`."""
PLAIN = "mfma"


@dataclass(frozen=True)
class Row:
    """One kernel of a family, ours or another's."""

    family: str
    side: str
    figures: HipFigures
    loop: Loop
    """The loop that binds, or all of a kernel without products."""
    matrix_cycles: float
    """Of a wave in the loop; 0 without products."""
    elements: float
    """Elements of a lane in the kernel; 0 where products are counted."""
    waves: int | None
    """On a compute unit; None where it is not known."""

    def cells(self) -> list[str]:
        """As the table has them."""
        loop, figures, per = self.loop, self.figures, self.matrix_cycles or self.elements
        shown = [loop.counts[pipe] for pipe in SHOWN]
        pairs = loop.counts["waits"], loop.counts["barriers"]
        cycles = (loop.vector_cycles, loop.lds_cycles)
        registers = f"{figures.vector_registers}, {figures.accumulation_registers}"
        return [
            self.family, self.side, *map(str, shown), "{}, {}".format(*pairs),
            str(loop.instructions - sum(shown) - sum(pairs)), *(f"{c / per:.2f}" for c in cycles),
            f"{self.cost:.1f}", registers, str(figures.spilled), str(self.waves or ""),
        ]  # fmt: skip

    @property
    def cost(self) -> float:
        """Instructions for a hundred cycles of the matrix core, or for an element of a lane."""
        return self.loop.instructions / (self.matrix_cycles / 100 or self.elements)


SHOWN = ("matrix", "vector", "transcendental", "accumulators", "lds", "memory")
HEAD = (
    "family", "side", "matrix", "vector", "exp and such", "accumulators", "lds", "memory",
    "waits, barriers", "scalar and other", "vector cycles", "lds cycles", "instructions",
    "registers", "spills", "waves",
)  # fmt: skip


def main() -> None:
    """Print a row for each family and side, and the ratios."""
    options = options_of(__doc__, "amd-mi300x", "a folder with listings of others")
    cases = chosen(options.families)
    found = [row for case in cases for row in rows(case, options.machine, options.beside)]
    print(table(HEAD, found))


def rows(case: Counted, name: str, beside: Path | None) -> Iterator[Row]:
    """Ours, and the others' whose listings are there."""
    machine, program = _program(case, name)
    compiled, launch = compile_text(program.source, program.arch, case.family), program.launches[0]
    lanes = launch.grid * launch.block
    for figures in compiled.figures:
        waves = waves_at_a_time(launch, figures, machine)
        yield from _row(case, machine, OURS, compiled.assembly, figures, lanes, waves)
    # A program of `benchmarks.counts.gcn_triton` is a row of four waves.
    lanes = case.dims.get("M", 0) * LANES * VECTOR_UNITS
    for path in sorted(beside.glob(f"{program.arch}.{case.family}.*.s")) if beside else []:
        side, text = path.name.split(".")[2], path.read_text(encoding="utf-8")
        for figures in HipCompiled(program.arch, b"", text, side, 0.0).figures:
            yield from _row(case, machine, side, text, figures, lanes, None)


def _row(
    case: Counted, machine: Machine, side: str, text: str, figures: HipFigures,
    lanes: int, waves: int | None,
) -> Iterator[Row]:  # fmt: skip
    loop, whole = kernel(text, figures.kernel)
    if case.elements:
        yield Row(case.family, side, figures, whole, 0.0, case.elements / lanes, waves)
    elif loop.products:
        # An instruction of 8-bit floats, which are others', is as fast as one of bytes.
        own = "mfma_int8" if "8_" in loop.kind else INSTRUCTIONS.get(case.dtype, PLAIN)
        rate = machine.instruction(own).throughput or 1.0
        cycles = loop.products * VECTOR_UNITS / rate
        yield Row(case.family, side, figures, loop, cycles, 0.0, waves)


def _program(case: Counted, name: str) -> tuple[Machine, CudaProgram]:
    stages = septran.produce_stages(
        case.operator, name, shapes=dict(case.dims), dtypes=case.dtype, static=dict(case.static)
    )
    return stages.tile_program.machine, stages.tensor_ir.cuda


if __name__ == "__main__":
    main()
