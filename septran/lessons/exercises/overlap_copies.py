"""Copies of a gemm that nothing hides: give the loop a second stage."""

from __future__ import annotations

from septran.lessons.goals import at_most_cycles, hides, right
from septran.lessons.lesson import Lesson

START = """
machine: dsa-sim
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {loops: parallel}, proc: CORE, mems: {C: ACC}, pipeline: 1}
  - {match: {primitive: gemm}, mems: {A: SPM, B: SPM}}
tunables: {block_M: 64, block_N: 64, block_K: 64}
"""

LESSON = Lesson(
    title="Overlap the copies",
    story="The matrix unit of this gemm waits for every tile: each copy starts when the product "
    "before it has ended. Change the mapping so that the next tiles travel while it works.",
    logic="gemm",
    mapping=START,
    goals=(
        right(),
        hides("A", "B", hint="`pipeline: n` gives the buffers that a loop fills n stages"),
        at_most_cycles(152_000, "larger blocks of C: each byte of A and B is then used more often"),
    ),
    solution=START.replace("pipeline: 1", "pipeline: 2").replace("block_N: 64", "block_N: 128"),
    shapes={"M": 256, "N": 256, "K": 512},
)
