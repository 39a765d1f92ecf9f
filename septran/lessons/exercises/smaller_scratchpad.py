"""A scratchpad of a quarter of the size: tiles have to become smaller, and still overlap."""

from __future__ import annotations

from dataclasses import replace

from septran.lessons.goals import at_most_cycles, hides, right
from septran.lessons.lesson import Lesson
from septran.machine.loader import load_machine
from septran.machine.model import Machine

START = """
machine: dsa-sim
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {loops: parallel}, proc: CORE, mems: {C: ACC}, pipeline: 2}
  - {match: {primitive: gemm}, mems: {A: SPM, B: SPM}}
tunables: {block_M: 128, block_N: 128, block_K: 128}
"""


def small() -> Machine:
    """`dsa-sim` with 64 KiB of scratchpad."""
    machine = load_machine("dsa-sim")
    memories = tuple(
        replace(m, capacity_bytes=64 << 10) if m.name == "SPM" else m for m in machine.memories
    )
    return replace(machine, name="dsa-small", memories=memories)


LESSON = Lesson(
    title="A smaller scratchpad",
    story="This DSA has 64 KiB of scratchpad, and the mapping wants two stages of tiles of "
    "128 x 128 in float32, 256 KiB. The compiler makes do: it brings them in smaller steps, in "
    "one stage, and nothing travels while the matrix unit works. Find tiles that fit in two.",
    logic="gemm",
    mapping=START,
    goals=(
        right(),
        hides("A", "B", hint="keep `pipeline: 2`"),
        at_most_cycles(150_000, "C's blocks decide how often A and B are read, not block_K"),
    ),
    solution=START.replace("block_K: 128", "block_K: 32"),
    shapes={"M": 256, "N": 256, "K": 512},
    machine=small(),
)
