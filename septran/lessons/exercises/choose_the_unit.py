"""Two units multiply: a matrix unit for many rows, a slower one for single rows."""

from __future__ import annotations

from dataclasses import replace

from septran import task
from septran.lessons.goals import at_most_cycles, busy, right
from septran.lessons.lesson import Lesson
from septran.machine.loader import load_machine
from septran.machine.model import Machine
from septran.operators.gemm import gemm_core

START = """
machine: dsa-sim
extends: dsa-sim.mapping.yaml
rules:
  - {match: {primitive: gemm}, binding: {gemm: gemv}}
"""


@task.define
def two_products(
    Y: task.Tensor["M", "N", task.int32],
    Z: task.Tensor["one", "N", task.int32],
    A: task.Tensor["M", "K"],
    B: task.Tensor["K", "N"],
    x: task.Tensor["one", "K"],
):
    """Y = A @ B for many rows, and Z = x @ B for a single one."""
    task.launch(gemm_core, Y, A, B)
    task.launch(gemm_core, Z, x, B)


def with_gemv() -> Machine:
    """`dsa-sim` with a unit for single rows: a quarter of the rate, and no row in vain."""
    machine = load_machine("dsa-sim")
    mma = machine.instruction("mma")
    options = {"queue": "GEMV", "startup_cycles": 4, "cycles": 4}
    gemv = replace(mma, name="gemv", tile=(1, 16, 16), options=options, throughput=64.0)
    return replace(machine, name="dsa-gemv", instructions=(*machine.instructions, gemv))


LESSON = Lesson(
    title="Who gets which product",
    story="This machine multiplies with a matrix unit, `mma`, that takes 16 rows at a time, and "
    "with `gemv`, that takes one, at a quarter of its rate. The mapping gives both products of "
    "this logic to `gemv`. Give each to the unit that is faster for it.",
    logic=two_products,
    mapping=START,
    goals=(
        right(),
        busy("GEMV", 0.01, "a rule's `match` may say `when: C_0 < 4`: rows of the product's tile"),
        at_most_cycles(40_000, "the first rule that matches and names a binding wins"),
    ),
    solution=START.replace("primitive: gemm}", "primitive: gemm, when: C_0 < 4}"),
    shapes={"M": 64, "N": 256, "K": 512, "one": 1},
    dtypes="int8",
    machine=with_gemv(),
)
