"""A gemm for Hopper whose sums lie in shared memory, with nothing that overlaps."""

from __future__ import annotations

from septran.lessons.attempt import Attempt
from septran.lessons.goals import copies_nothing_of, hides, right
from septran.lessons.lesson import Goal, Lesson, Outcome

START = """
machine: nvidia-h200
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - match: {loops: parallel}
    proc: BLOCK
    mems: {C: REGISTER, acc: SHARED}
  - {match: {primitive: gemm}, mems: {C: REGISTER, A: SHARED, B: SHARED}, binding: {gemm: wgmma}}
tunables: {block_M: 128, block_N: 128, block_K: 64}
"""


def _no_conflicts() -> Goal:
    def judge(attempt: Attempt) -> Outcome:
        found = attempt.profile.run.conflicts
        lost = sum(conflict.conflicts for conflict in found)
        return Outcome(not found, f"{lost:,} accesses to shared memory too many")

    hint = "the profile says which lines collide, and which copies they come from"
    return Goal("no bank conflicts", judge, hint)


LESSON = Lesson(
    title="Sums in registers",
    story="The sums of this block, `acc`, are placed in shared memory, and wgmma adds to "
    "registers: so they are copied there and back. And while a tile of A or B travels, the tensor "
    "cores wait. Mend both.",
    logic="gemm",
    mapping=START,
    goals=(
        right(),
        copies_nothing_of("acc", "place `acc` where wgmma adds"),
        _no_conflicts(),
        hides("A", "B", hint="`pipeline: n` of the block; warpspecialize may come with it"),
    ),
    solution=START.replace(
        "mems: {C: REGISTER, acc: SHARED}", "mems: {C: REGISTER, acc: REGISTER}\n    pipeline: 3"
    ),
    shapes={"M": 256, "N": 256, "K": 512},
    dtypes="float16",
)
