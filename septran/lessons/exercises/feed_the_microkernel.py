"""A gemm on the CPU that is right and slow: the layout and the tiles."""

from __future__ import annotations

from septran.lessons.attempt import Attempt
from septran.lessons.goals import moves_at_most, right
from septran.lessons.lesson import Goal, Lesson, Outcome

START = """
machine: cpu-x86
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": DRAM}}
  - {match: {loops: parallel}, proc: CORE}
  - {match: {primitive: gemm}, mems: {A: L2, B: L2}, binding: {gemm: fma_microkernel}}
tunables: {block_M: 32, block_N: 32, block_K: 32}
"""
SOLUTION = """
machine: cpu-x86
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": DRAM}}
  - {match: {loops: parallel}, proc: CORE}
  - match: {primitive: gemm}
    mems: {A: L2, B: L2}
    layouts: {B: "panels(1, 16)"}
    binding: {gemm: fma_microkernel}
tunables: {block_M: 96, block_N: 192, block_K: 256}
"""


def _panels() -> Goal:
    def judge(attempt: Attempt) -> Outcome:
        found = {str(b.layout) for b in attempt.program.buffers if b.tensor == "B"}
        found -= {"row"} if len(found) > 1 else set()
        held = ", ".join(sorted(found)) or "row"
        return Outcome(held.startswith("panels(1,"), held)

    hint = '`layouts: {B: "panels(1, 16)"}` of the leaf: 16 columns side by side'
    return Goal("B is packed in panels of columns", judge, hint)


def _fits() -> Goal:
    def judge(attempt: Attempt) -> Outcome:
        most = attempt.program.machine.memory("L2").capacity_bytes or 0
        used = max(
            (p.offset_bytes + p.size_bytes for p in attempt.program.plan if p.memory == "L2"),
            default=0,
        )
        return Outcome(0 < used <= most, f"{used >> 10:,} KiB")

    return Goal("the tiles fit L2", judge, "A's is block_M x block_K, B's block_K x block_N")


LESSON = Lesson(
    title="Feed the microkernel",
    story="The microkernel reads B with large strides, and as the blocks are small, the same data "
    "is brought again and again. Mend both, within the L2 cache.",
    logic="gemm",
    mapping=START,
    goals=(
        right(),
        _panels(),
        moves_at_most(9 << 20, "larger blocks of C read A and B less often"),
        _fits(),
    ),
    solution=SOLUTION,
    shapes={"M": 480, "N": 384, "K": 512},
)
