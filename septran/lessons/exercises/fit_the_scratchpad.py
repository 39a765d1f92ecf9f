"""A mapping of tiny tiles; tiles that just fit, and do not move too much."""

from __future__ import annotations

from septran.lessons.goals import moves_at_most, right
from septran.lessons.lesson import Lesson

START = """
machine: dsa-sim
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {loops: parallel}, proc: CORE, mems: {C: ACC}, pipeline: 2}
  - {match: {primitive: gemm}, mems: {A: SPM, B: SPM}}
tunables: {block_M: 32, block_N: 64, block_K: 128}
"""

LESSON = Lesson(
    title="Fit the scratchpad",
    story="These tiles are small, and fetch the same elements again and again. Find some that "
    "still fit into the memories of the machine, and move little.",
    logic="gemm",
    mapping=START,
    goals=(
        right(),
        moves_at_most(
            7 << 19,
            hint="A is read N / block_N times, B is read M / block_M times; block_K decides only "
            "how much is there at one time",
        ),
    ),
    solution=START.replace("block_M: 32, block_N: 64", "block_M: 128, block_N: 128"),
    shapes={"M": 256, "N": 384, "K": 512},
)
