"""Figures of compiled kernels: registers, shared memory, occupancy, instructions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from septran.emulator.launch import CudaProgram, KernelLaunch
from septran.machine.model import Machine
from septran.targets.cuda.fragment.fragments import WARP
from septran.targets.cuda.run.compile import Compiled, KernelFigures

SASS = (
    "HGMMA", "IGMMA", "QGMMA", "HMMA", "IMMA", "FFMA", "UTMALDG", "UTMASTG", "LDGSTS", "LDSM",
    "STSM", "SYNCS", "USETMAXREG", "LDG", "STG", "LDS", "STS", "LDL", "STL", "BAR", "SHFL", "MUFU",
)  # fmt: skip
"""Machine instructions that are counted: tensor cores, asynchronous copies, spills."""
PTX = (
    "wgmma.mma_async", "mma.sync", "cp.async.bulk.tensor", "cp.async.cg", "cp.async.ca", "ldmatrix",
    "stmatrix", "mbarrier.try_wait", "setmaxnreg", "bar.sync", "barrier.cluster",
)  # fmt: skip
REGISTER_UNIT, SHARED_UNIT, RESERVED = 256, 128, 1024
"""Registers and bytes that are handed out at once; the driver's own bytes."""


def kernel_facts(
    program: CudaProgram, compiled: Compiled | None, machine: Machine | None
) -> dict[str, Any]:
    """Return what a launch asks for and what its machine code is, by name."""
    figures = {f.kernel: f for f in compiled.figures} if compiled else {}
    facts: dict[str, Any] = {}
    for launch in program.launches:
        prefix = f"{launch.kernel}: " if len(program.launches) > 1 else ""
        found = _launch_facts(launch, figures.get(launch.kernel), machine)
        facts |= {prefix + name: value for name, value in found}
    if program.scratch:
        facts["scratch bytes"] = sum(size for _, size in program.scratch)
    if compiled is not None:
        facts |= {name: count for name, count in count_ptx(compiled.ptx).items() if count}
        facts |= {f"ptxas {a.code}": a.text for a in compiled.advisories}
        facts["cubin bytes"] = len(compiled.cubin)
        facts["compiler"] = compiled.compiler
    return facts


def _launch_facts(
    launch: KernelLaunch, figures: KernelFigures | None, machine: Machine | None
) -> Iterator[tuple[str, Any]]:
    yield "grid", launch.grid
    yield "threads a block", launch.block
    if launch.cluster > 1:
        yield "blocks a cluster", launch.cluster
    yield "dynamic shared bytes", launch.shared_bytes
    if figures is None:
        return
    yield "static shared bytes", figures.static_shared_bytes
    yield "registers a thread", figures.registers
    yield "spill bytes", figures.spill_store_bytes + figures.spill_load_bytes
    yield "stack bytes", figures.stack_bytes
    blocks = blocks_per_unit(launch, figures, machine) if machine else None
    if blocks is not None:
        yield "blocks a multiprocessor", blocks
        yield "occupancy", f"{blocks * launch.block / unit_limits(machine)['threads']:.0%}"


def unit_limits(machine: Machine | None) -> dict[str, int]:
    """Return what one multiprocessor has, from the machine file's ``vendor: multiprocessor``."""
    given = machine.vendor.get("multiprocessor", {}) if machine else {}
    return {str(name): int(value) for name, value in given.items()}


def blocks_per_unit(launch: KernelLaunch, figures: KernelFigures, machine: Machine) -> int | None:
    """Blocks that one multiprocessor holds at a time; None where its limits are not known."""
    limits = unit_limits(machine)
    if not limits or not launch.block:
        return None
    # Registers go to whole warps; the system keeps some shared memory of each block.
    warps = -(-launch.block // WARP)
    each = -(-figures.registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    shared = launch.shared_bytes + figures.static_shared_bytes + RESERVED
    shared = -(-shared // SHARED_UNIT) * SHARED_UNIT
    bounds = [limits["blocks"], limits["threads"] // (warps * WARP), limits["shared"] // shared]
    if each:
        bounds.append(limits["registers"] // (each * warps))
    return min(bounds)


def count_ptx(ptx: str) -> Counter[str]:
    """Return how often the text has each of the instructions that characterise a kernel."""
    # Instructions stand behind a line's start, or in inline assembly behind ; and {.
    heads = re.findall(r"(?:^|[;{}])\s*(?:@!?%?\w+\s+)?([a-z]\w*\.[a-z0-9_.:]+)", ptx, re.M)
    found: Counter[str] = Counter()
    for head in heads:
        for name in PTX:
            if head == name or head.startswith(name + "."):
                found[name] += 1
    return found


def count_sass(sass: str) -> Counter[str]:
    """Return how often the machine code has each instruction of `SASS`."""
    pattern = r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)"
    heads = Counter(re.findall(pattern, sass, re.M))
    return Counter({name: heads[name] for name in SASS if heads[name]})
