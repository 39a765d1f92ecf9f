"""Large blocks without overlap, or overlap with small ones: a mapping that has both."""

from __future__ import annotations

from septran.lessons.goals import at_most_cycles, hides, moves_at_most, right
from septran.lessons.lesson import Lesson

START = """
machine: dsa-sim
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  # one of us: large blocks of C; the other: pipeline: 2, with blocks of 32 x 32
  - {match: {loops: parallel}, proc: CORE, mems: {C: ACC}, pipeline: 1}
  - {match: {primitive: gemm}, mems: {A: SPM, B: SPM}}
tunables: {block_M: 128, block_N: 128, block_K: 256}
"""

LESSON = Lesson(
    title="The best of both",
    story="With blocks of 128 x 128, little has to be brought, but nothing travels while the "
    "matrix unit works. `pipeline: 2` alone changes nothing: two stages of these tiles are larger "
    "than the scratchpad, so there is one. Find a mapping that moves little and hides it.",
    logic="gemm",
    mapping=START,
    goals=(
        right(),
        moves_at_most(1_400 << 10, "C's blocks decide how often A and B are read"),
        hides("A", "B", hint="two stages of a step's tiles of A and B have to fit into SPM"),
        at_most_cycles(80_000, "smaller steps along K begin to compute earlier"),
    ),
    solution=START.replace("pipeline: 1", "pipeline: 2").replace("block_K: 256", "block_K: 32"),
    shapes={"M": 256, "N": 256, "K": 256},
)
