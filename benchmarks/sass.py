"""NVIDIA machine code beside others', counted without a GPU: ``python -m benchmarks.sass``.

    python -m benchmarks.counts.sass_triton FOLDER sm_90a  # where Triton is: its PTX
    python -m benchmarks.sass --beside FOLDER            # ours, and what the folder has

nvcc compiles our kernels and the others' for the machine, with one assembler, and the loop that
binds is counted by pipe. FOLDER has ``ARCH.FAMILY.RIVAL.ptx``, ``.cu`` or ``.cubin``, and beside it
as JSON, what is known of a launch: ``threads``, ``shared`` bytes, ``stages``, ``options`` for nvcc
such as ``-I...``, as ``log`` what ptxas said of a cubin. Nothing runs, and nothing here is a time
that was measured: microseconds are what the busiest pipe, and the main memory, would need at the
machine file's rates if nothing else took time. A loop's issue, FMA, ALU, XU and shared memory are
set beside its tensor cores' cycles: above 1, the loop is bound by that and not by products. Rows
have no products; theirs are counted of the whole kernel, for 32 elements.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import septran
from benchmarks.counts.sass_counts import (
    LANES,
    SCHEDULERS,
    Counts,
    binding,
    copying,
    counted,
    hertz,
)
from benchmarks.counts.sass_listing import Listing, kernels
from benchmarks.counts.table import OURS, Counted, chosen, options_of, table
from septran.emulator.launch import KernelLaunch
from septran.machine.model import Machine
from septran.runtime.work import work
from septran.targets.cuda.run.compile import KernelFigures, compile_text, disassemble, read_figures
from septran.targets.cuda.run.facts import blocks_per_unit
from septran.targets.cuda.run.toolchain import nvcc


@dataclass(frozen=True)
class Kernel:
    """One kernel's machine code and what is known of its launch."""

    side: str
    sass: str
    figures: KernelFigures
    launch: KernelLaunch
    stages: int
    """Tiles of the deepest ring in flight; 0 where it is not known."""

    @property
    def listing(self) -> Listing:
        """Its control flow."""
        return kernels(self.sass)[self.figures.kernel]


@dataclass(frozen=True)
class Row:
    """One kernel of a family, ours or another's."""

    family: str
    kernel: Kernel
    counts: Counts
    """Of a turn of the loop that binds, or of all of a kernel without products."""
    elements: float
    """Of a warp in what is counted; 0 where products are counted."""
    microseconds: tuple[float, float]
    """Of the busiest pipe, and of main memory."""
    beyond: int
    """Instructions behind the loop that binds: what it does not hide."""
    copying: int
    blocks: int | None
    """At a time on a multiprocessor; None where it is not known."""

    @property
    def side(self) -> str:
        """`OURS`, or a rival's name."""
        return self.kernel.side

    @property
    def cost(self) -> float:
        """Instructions of a warp for a hundred cycles of its tensor core, or for 32 elements."""
        if self.elements:
            return self.counts.instructions / self.elements * LANES
        return self.counts.instructions / self.counts.tensor_cycles * 100

    def cells(self) -> list[str]:
        """As the table has them."""
        counts, figures, launch = self.counts, self.kernel.figures, self.kernel.launch
        pipes = [counts.pipes[pipe] for pipe in SHOWN]
        per = self.elements / LANES or counts.tensor_cycles
        parts = [counts.cycles[pipe] / per for pipe in PARTS]
        pipe, _ = counts.busiest
        busy, memory = self.microseconds
        return [
            self.family, self.side, *map(str, pipes), str(counts.instructions - sum(pipes)),
            *(f"{part:.2f}" for part in parts), f"{self.cost:.1f}",
            f"{busy:.0f} {pipe}", f"{memory:.0f}", str(self.beyond or ""), str(self.copying or ""),
            str(figures.registers), str(figures.spill_store_bytes + figures.spill_load_bytes),
            str(launch.shared_bytes + figures.static_shared_bytes),
            "" if self.blocks is None else f"{self.blocks} of {launch.block}",
            str(self.kernel.stages or ""),
        ]  # fmt: skip


SHOWN = ("tensor", "fma", "alu", "xu", "shared", "global", "uniform", "barriers", "branches")
PARTS = ("issue", "fma", "alu", "xu", "shared")
HEAD = (
    "family", "side", *SHOWN, "other", *(f"{part} cycles" for part in PARTS), "instructions",
    "us of the busiest", "us of memory", "behind the loop", "copying", "registers", "spilled bytes",
    "shared bytes", "blocks of threads", "stages",
)  # fmt: skip


def main() -> None:
    """Print a row for each family and side, and the ratios."""
    every = ("--all", "each rival's kernels, not the least")
    options = options_of(__doc__, "nvidia-h200", "a folder with kernels of others", every)
    found: list[Row] = []
    for case in chosen(options.families):
        rows_ = list(rows(case, options.machine, options.beside))
        found += rows_ if options.all else least(rows_)
    print(table(HEAD, found))


def least(rows: list[Row]) -> list[Row]:
    """Ours, and of each rival's kernels the one with fewest instructions.

    A rival is what stands before the first digit of its name: ``triton`` of ``triton128x256``.
    """
    best: dict[str, Row] = {}
    for row in rows:
        name = re.split(r"\d", row.side, maxsplit=1)[0]
        if name not in best or row.cost < best[name].cost:
            best[name] = row
    return list(best.values())


def rows(case: Counted, name: str, beside: Path | None) -> Iterator[Row]:
    """Ours, and the others' that are there."""
    machine, moved, ours = _ours(case, name)
    others = _others(case, machine.arch, beside) if beside else ()
    for kernel in (*ours, *others):
        row = _row(case, machine, moved, kernel)
        if row is not None:
            yield row


def _row(case: Counted, machine: Machine, moved: int, kernel: Kernel) -> Row | None:
    listing, units = kernel.listing, machine.processors[1].count
    memory = moved / (machine.main_memory.bytes_per_second or math.inf) * 1e6
    blocks = blocks_per_unit(kernel.launch, kernel.figures, machine)
    per_second = hertz(machine) * units * SCHEDULERS
    if case.elements:
        counts = counted(listing, None, machine)
        warps = kernel.launch.grid * kernel.launch.block // LANES
        busy = counts.busiest[1] * warps / per_second * 1e6
        elements = case.elements / warps
        return Row(case.family, kernel, counts, elements, (busy, memory), 0, 0, blocks)
    found = binding(listing, machine) or binding(listing, machine, scalar=True)
    if found is None:
        return None
    loop, counts = found
    busy = counts.busiest[1] * case.products / counts.products / per_second * 1e6
    beyond = len(listing.instructions(listing.after(loop)))
    return Row(case.family, kernel, counts, 0.0, (busy, memory), beyond, copying(listing), blocks)


def _ours(case: Counted, name: str) -> tuple[Machine, int, list[Kernel]]:
    stages = septran.produce_stages(
        case.operator, name, shapes=dict(case.dims), dtypes=case.dtype, static=dict(case.static)
    )
    program, text = stages.tile_program, stages.tensor_ir.cuda
    compiled = compile_text(text.source, text.arch, case.family)
    sass = disassemble(compiled.cubin) or ""
    deep = max((c.stages for c in program.channels), default=1)
    launches = {launch.kernel: launch for launch in text.launches}
    found = [Kernel(OURS, sass, f, launches[f.kernel], deep) for f in compiled.figures]
    return program.machine, work(stages.task_tree).bytes_moved, found


def _others(case: Counted, arch: str, folder: Path) -> Iterator[Kernel]:
    for path in sorted(folder.glob(f"{arch}.{case.family}.*")):
        side, kind = path.name.removeprefix(f"{arch}.{case.family}.").rsplit(".", 1)
        if kind not in ("ptx", "cu", "cubin"):
            continue
        told = path.with_suffix(".json")
        facts = json.loads(told.read_text(encoding="utf-8")) if told.exists() else {}
        cubin, log = _assembled(path, arch, facts)
        sass = disassemble(cubin) or ""
        threads, shared = int(facts.get("threads", 0)), int(facts.get("shared", 0))
        # Rows of others are one a block.
        grid = case.dims["M"] if case.elements else 1
        for figures in read_figures(log):
            launch = KernelLaunch(figures.kernel, grid, threads, 1, shared, ())
            yield Kernel(side, sass, figures, launch, int(facts.get("stages", 0)))


def _assembled(path: Path, arch: str, facts: Mapping[str, Any]) -> tuple[bytes, str]:
    """Machine code and what ptxas said of it; raises CalledProcessError with nvcc's words."""
    if path.suffix == ".cubin":
        return path.read_bytes(), str(facts.get("log", ""))
    tool = nvcc()
    if tool is None:
        raise SystemExit(f"nvcc is needed to compile {path}")
    with tempfile.TemporaryDirectory(prefix="septran-sass-") as place:
        out = Path(place, "kernel.cubin")
        options = ["-cubin", f"-arch={arch}", "-std=c++17", "-Xptxas=-v", *facts.get("options", ())]
        done = subprocess.run(
            [str(tool.path), *options, "-o", str(out), str(path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"nvcc refused {path}:\n{done.stderr[:2000]}")
        return out.read_bytes(), done.stdout + done.stderr


if __name__ == "__main__":
    main()
