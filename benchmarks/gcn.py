"""AMD machine code beside others', counted without a GPU: ``python -m benchmarks.gcn``.

    python -m benchmarks.gcn_triton FOLDER gfx942         # where Triton is: its listings
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

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import septran
from benchmarks.gcn_listing import LANES, VECTOR_UNITS, Loop, kernel
from septran.emulator.launch import CudaProgram
from septran.machine.model import Machine
from septran.targets.rocm.compile import HipCompiled, HipFigures, compile_text
from septran.targets.rocm.occupancy import waves_at_a_time

SQUARE = {"M": 4096, "N": 4096, "K": 4096}
ROWS = {"M": 8192, "N": 4096}


@dataclass(frozen=True)
class GcnCase:
    """One operator that is counted."""

    family: str
    operator: str
    dtype: str
    dims: Mapping[str, int] = field(default_factory=lambda: SQUARE)
    static: Mapping[str, Any] = field(default_factory=dict)
    instruction: str = "mfma"
    """Of the machine file, for the throughput of its products; empty for none."""
    elements: int = 0
    """Elements of all rows, where there are no products."""


def _heads(d: int) -> dict[str, int]:
    return {"B": 4, "H": 16, "G": 16, "M": 4096, "N": 4096, "D": d}


CASES = (
    GcnCase("gemm_f16", "gemm", "float16", static={"trans_b": True}),
    GcnCase("gemm_f16_rows", "gemm", "float16"),
    GcnCase("gemm_bf16", "gemm", "bfloat16", static={"trans_b": True}),
    GcnCase("gemm_int8", "gemm", "int8", static={"trans_b": True}, instruction="mfma_int8"),
    GcnCase("gemm_int8_rows", "gemm", "int8", instruction="mfma_int8"),
    GcnCase("gemm_fp8", "gemm", "float8_e4m3fn", static={"trans_b": True}),
    GcnCase("gemm_f32", "gemm", "float32", instruction="mfma_float32"),
    GcnCase("attention_64", "attention", "float16", _heads(64)),
    GcnCase("attention_128", "attention", "float16", _heads(128)),
    GcnCase("softmax", "softmax", "float16", ROWS, instruction="", elements=8192 * 4096),
    GcnCase("layer_norm", "layer_norm", "float16", ROWS, instruction="", elements=8192 * 4096),
    GcnCase("rms_norm", "rms_norm", "float16", ROWS, instruction="", elements=8192 * 4096),
)  # fmt: skip
"""Each family of `benchmarks.gpu` that has a rival without a GPU."""


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", default="amd-mi300x")
    parser.add_argument("--beside", type=Path, help="a folder with listings of others")
    parser.add_argument("--families", nargs="+", choices=[c.family for c in CASES])
    options = parser.parse_args()
    chosen = [c for c in CASES if not options.families or c.family in options.families]
    found = [row for case in chosen for row in rows(case, options.machine, options.beside)]
    print(table(found))


def table(rows: list[Row]) -> str:
    """As Markdown; the ratio is ours to the least of the others, by instructions."""
    lines = [(*HEAD, "ratio"), ("---",) * (len(HEAD) + 1)]
    for row in rows:
        others = [r.cost for r in rows if r.family == row.family and r.side != "SepTran"]
        ratio = f"{row.cost / min(others):.2f}" if others and row.side == "SepTran" else ""
        lines.append((*row.cells(), ratio))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rows(case: GcnCase, name: str, beside: Path | None) -> Iterator[Row]:
    """Ours, and the others' whose listings are there."""
    machine, program = _program(case, name)
    compiled, launch = compile_text(program.source, program.arch, case.family), program.launches[0]
    lanes = launch.grid * launch.block
    for figures in compiled.figures:
        waves = waves_at_a_time(launch, figures, machine)
        yield from _row(case, machine, "SepTran", compiled.assembly, figures, lanes, waves)
    # A program of `benchmarks.gcn_triton` is a row of four waves.
    lanes = case.dims.get("M", 0) * LANES * VECTOR_UNITS
    for path in sorted(beside.glob(f"{program.arch}.{case.family}.*.s")) if beside else []:
        side, text = path.name.split(".")[2], path.read_text(encoding="utf-8")
        for figures in HipCompiled(program.arch, b"", text, side, 0.0).figures:
            yield from _row(case, machine, side, text, figures, lanes, None)


def _row(
    case: GcnCase, machine: Machine, side: str, text: str, figures: HipFigures,
    lanes: int, waves: int | None,
) -> Iterator[Row]:  # fmt: skip
    loop, whole = kernel(text, figures.kernel)
    if not case.instruction:
        yield Row(case.family, side, figures, whole, 0.0, case.elements / lanes, waves)
    elif loop.products:
        # An instruction of 8-bit floats, which are others', is as fast as one of bytes.
        own = "mfma_int8" if "8_" in loop.kind else case.instruction
        rate = machine.instruction(own).throughput or 1.0
        cycles = loop.products * VECTOR_UNITS / rate
        yield Row(case.family, side, figures, loop, cycles, 0.0, waves)


def _program(case: GcnCase, name: str) -> tuple[Machine, CudaProgram]:
    stages = septran.produce_stages(
        case.operator, name, shapes=dict(case.dims), dtypes=case.dtype, static=dict(case.static)
    )
    return stages.tile_program.machine, stages.tensor_ir.cuda


if __name__ == "__main__":
    main()
