"""A mapping whose tiles do not fit; tiles that do, and do not move too much."""

from __future__ import annotations

from septran.lessons.goals import moves_at_most, right
from septran.lessons.lesson import Lesson

START = """
machine: dsa-sim
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {loops: parallel}, proc: CORE, mems: {C: ACC}, pipeline: 2}
  - {match: {primitive: gemm}, mems: {A: SPM, B: SPM}}
tunables: {block_M: 128, block_N: 256, block_K: 128}
"""

LESSON = Lesson(
    title="Fit the scratchpad",
    story="These tiles are too large for the memories of the machine. Tiny ones would fit, and "
    "would fetch the same elements again and again. Find some that fit and move little.",
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
    solution=START.replace("block_N: 256", "block_N: 128").replace("block_K: 128", "block_K: 64"),
    shapes={"M": 256, "N": 384, "K": 512},
)
