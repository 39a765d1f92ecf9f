"""What NVIDIA machine code asks of a multiprocessor's pipes: for `benchmarks.sass`.

Rates are those of compute capability 9.0 in the CUDA C programming guide's table of the throughput
of arithmetic instructions; of tensor cores and shared memory, those of the machine file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.counts.sass_listing import Instruction, Listing, Loop
from septran.machine.model import Machine

LANES, SCHEDULERS = 32, 4
"""Of a warp; of a multiprocessor, each of which issues an instruction a cycle."""
PIPES = (
    ("tensor", r"[HIQ]GMMA|[HIQD]MMA"), ("copies", r"UTMA|UBLKCP|LDGSTS"),
    ("shared", r"LDS|STS|LDSM|STSM|ATOMS|SHFL|MOVM"), ("spills", r"LDL|STL"),
    ("global", r"LDG\b|STG|LD\b|ST\b|RED|ATOM|LDC\b"), ("xu", r"MUFU|POPC|FLO|BREV"),
    ("fma", r"FFMA|FADD|FMUL|HFMA2|HADD2|HMUL2|IMAD|DFMA|DADD|DMUL"),
    ("barriers", r"SYNCS|BAR|B2R|WARPGROUP|DEPBAR|LDGDEPBAR|ARRIVES|MEMBAR|FENCE|ELECT|NANOSLEEP"
                 r"|CCTL|ERRBAR|CGAERRBAR|USETMAXREG|UCGABAR"),
    ("branches", r"BRA|BRX|BSSY|BSYNC|BREAK|EXIT|CALL|RET|WARPSYNC|YIELD"),
    ("uniform", r"U[A-Z]|R2UR|S2UR|REDUX"),
    ("alu", r"IADD|VIADD|LOP3|LEA|SHF|PRMT|SEL|FSEL|MOV|ISETP|FSETP|HSETP2|FCHK|FMNMX|HMNMX2|IMNMX"
            r"|VIMNMX|IABS|PLOP3|P2R|R2P|BMSK|SGXT|F2FP|F2F|F2I|I2F|I2FP|I2I|FRND|VABSDIFF|LOP"),
)  # fmt: skip
"""Names, and how mnemonics begin; the first that fits, and "other" else."""
HALF, EIGHTH = 2, 8
"""Cycles of a scheduler's 32 lanes where 64, and 16, of a multiprocessor's are done in one."""
WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "16": 2, "U8": 1, "S8": 1}
"""Bytes of a lane by the modifier of an access; 4 without one."""
MATRIX_BYTES = 4
"""Of a lane, for each 8x8 matrix of 16 bits that LDSM and STSM move."""
SPAN_BYTES = 32
"""Along the sum, of each row that one warpgroup's product reads, whatever its type."""
INSTRUCTIONS = (
    (r"HGMMA.*TF32", "wgmma_tf32"), (r"HGMMA", "wgmma"), (r"IGMMA", "wgmma_int8"),
    (r"QGMMA", "wgmma_fp8"), (r"HMMA.*TF32", "mma_sync_tf32"), (r"HMMA", "mma_sync"),
    (r"IMMA", "mma_sync_int8"),
)  # fmt: skip
"""Which instruction of a machine file has the rate of a mnemonic."""


@dataclass(frozen=True)
class Counts:
    """Of one warp, for one turn of a loop or for all of a kernel."""

    pipes: Counter[str]
    """Instructions."""
    cycles: Counter[str]
    """Of a scheduler: "issue", "fma", "alu", "xu"; of what four of them share: "shared"."""
    products: int
    """Multiplications with their additions, of tensor cores; of float32's FMA units where a
    kernel has no others."""
    tensor_cycles: float
    """Of a scheduler's tensor core, or of its FMA units."""
    global_bytes: int
    """Of a lane, by loads and stores."""

    @property
    def instructions(self) -> int:
        """All of them."""
        return self.pipes.total()

    @property
    def busiest(self) -> tuple[str, float]:
        """The pipe with most cycles, "tensor" among them, and its cycles."""
        found = {**self.cycles, "tensor": self.tensor_cycles}
        return max(found.items(), key=lambda item: item[1])


def hertz(machine: Machine) -> float:
    """Its clock."""
    return (machine.clock_mhz or 1.0) * 1e6


def binding(listing: Listing, machine: Machine, scalar: bool = False) -> tuple[Loop, Counts] | None:
    """The innermost loop with most products, of several the one with fewest instructions."""
    loops = listing.innermost()
    found = [(loop, counted(listing, loop.blocks, machine, scalar)) for loop in loops]
    return max(
        ((loop, counts) for loop, counts in found if counts.products),
        key=lambda item: (item[1].products, -item[1].instructions),
        default=None,
    )


def counted(
    listing: Listing, blocks: frozenset[int] | None, machine: Machine, scalar: bool = False
) -> Counts:
    """Of some blocks, or of a whole kernel; with `scalar`, FFMA are products."""
    instructions = listing.instructions(blocks)
    pipes, cycles = Counter(map(_pipe, instructions)), _cycles(instructions, machine)
    products, tensor = 0, 0.0
    for i in instructions:
        if (done := _products(i, scalar)) > 0:
            products += done
            tensor += done * SCHEDULERS / _rate(i, machine)
    moved = sum(_bytes(i) for i in instructions if _pipe(i) == "global")
    return Counts(pipes, cycles, products, tensor, moved)


def copying(listing: Listing) -> int:
    """Instructions for one turn of a loop by a warp that only brings tiles; 0 without one."""
    loops = [listing.instructions(loop.blocks) for loop in listing.innermost()]
    pipes = [[_pipe(i) for i in loop] for loop in loops]
    return max((len(p) for p in pipes if "copies" in p and "tensor" not in p), default=0)


def _pipe(instruction: Instruction) -> str:
    found = (name for name, begin in PIPES if re.match(begin, instruction.mnemonic))
    return next(found, "other")


def _cycles(instructions: Iterable[Instruction], machine: Machine) -> Counter[str]:
    found: Counter[str] = Counter()
    for i in instructions:
        pipe = _pipe(i)
        found["issue"] += 1
        if pipe == "fma":
            found["fma"] += HALF if i.mnemonic.startswith("IMAD") else 1
        elif pipe == "alu":
            found["alu"] += HALF
        elif pipe == "xu":
            found["xu"] += EIGHTH
        elif pipe in ("shared", "tensor"):
            found["shared_bytes"] += _shared_bytes(i)
    # All four schedulers' warps share it.
    rate = (machine.memory("SHARED").bytes_per_second or 1.0) / hertz(machine)
    found["shared"] = round(found.pop("shared_bytes", 0) * SCHEDULERS / rate)
    return found


def _shared_bytes(instruction: Instruction) -> int:
    """Of one warp: an operand of a warpgroup's product is read once for its four."""
    if shape := re.match(r"[HIQ]GMMA\.(\d+)x(\d+)", instruction.mnemonic):
        operands = [o.strip() for o in instruction.operands.split(",")]
        in_registers = len(operands) > 1 and operands[1].startswith("R")
        rows = int(shape[2]) + (0 if in_registers else int(shape[1]))
        return rows * SPAN_BYTES // SCHEDULERS
    if _pipe(instruction) == "tensor":
        return 0
    return _bytes(instruction) * LANES


def _bytes(instruction: Instruction) -> int:
    """Of one lane."""
    words = instruction.mnemonic.split(".")
    if words[0] in ("LDSM", "STSM"):
        return MATRIX_BYTES * int(words[-1])
    if words[0] == "LDC":
        return 0
    return next((WIDTHS[word] for word in words[1:] if word in WIDTHS), 4)


def _products(instruction: Instruction, scalar: bool) -> int:
    mnemonic = instruction.mnemonic
    if shape := re.match(r"[HIQ]GMMA\.(\d+)x(\d+)x(\d+)", mnemonic):
        m, n, k = map(int, shape.groups())
        return m * n * k // SCHEDULERS
    if shape := re.match(r"[HIQ]MMA\.(?:\w+\.)*?(\d\d)(\d)(\d+)", mnemonic):
        m, n, k = map(int, shape.groups())
        return m * n * k
    return LANES if scalar and mnemonic.startswith("FFMA") else 0


def _rate(instruction: Instruction, machine: Machine) -> float:
    names = [n for begin, n in INSTRUCTIONS if re.match(begin, instruction.mnemonic)]
    return machine.instruction(names[0] if names else "simt").throughput or 1.0
