"""A second engine that loads stands idle: write the pass that shares the copies out."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from septran import task
from septran.lessons.attempt import Attempt
from septran.lessons.goals import at_most_cycles, right
from septran.lessons.lesson import Goal, Lesson, Outcome
from septran.machine.loader import load_machine
from septran.machine.model import Machine
from septran.tile.nodes import Copy, Node, TileProgram, nodes, rewrite
from septran.tile.user_passes import tile_pass

MAPPING = """
machine: npu-cube
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}
  - {match: {holds: parallel}, proc: HOST, persistent: true, pipeline: 2}
  - {match: {loops: parallel}, proc: CORE, mems: {accumulators: L0C}, pipeline: 2}
  - {match: {primitive: gemm}, mems: {gemm.C: L0C, gemm.A: L0A, gemm.B: L0B}, binding: cube}
tunables: {"block_*": 128, block_in: 64}
"""


@task.define(leaf=True)
def multiply(Y, X, W):
    """Y += X @ W.T on one tile."""
    task.call_primitive("gemm", Y, X, W.T)


@task.define
def block(Y, X, W):
    """One block of Y: walk along the inner axis."""
    step = task.tunable("block_in")
    Xp = task.partition(X, shape=(X.shape[0], step))
    Wp = task.partition(W, shape=(W.shape[0], step))
    task.fill(Y, 0)
    for k in task.sequential_range(Xp.shape[1]):
        task.launch(multiply, Y, Xp[0, k], Wp[0, k])


@task.define
def linear(
    Y: task.Tensor["rows", "out"], X: task.Tensor["rows", "in_"], W: task.Tensor["out", "in_"]
):
    """A layer of a network: Y = X @ W.T."""
    high, wide = task.tunable("block_rows"), task.tunable("block_out")
    Yp = task.partition(Y, shape=(high, wide))
    Xp = task.partition(X, shape=(high, X.shape[1]))
    Wp = task.partition(W, shape=(wide, W.shape[1]))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(block, Yp[i, j], Xp[i, 0], Wp[j, 0])


def revision_b() -> Machine:
    """`npu-cube` with a memory twice as fast, and a second engine that loads."""
    old = load_machine("npu-cube")
    memory, mte2 = old.memories[0], old.engine("mte2")
    faster = replace(memory, bytes_per_second=2 * (memory.bytes_per_second or 0))
    return replace(
        old,
        name="npu-rev-b",
        memories=(faster, *old.memories[1:]),
        engines=(mte2, replace(mte2, name="mte2b"), *old.engines[1:]),
    )


@tile_pass(after="choose_engines")
def everything_by_one(program: TileProgram) -> TileProgram:
    """Share copies between the engines that can carry them out."""

    def change(node: Node) -> tuple[Node, ...]:
        if isinstance(node, Copy):
            return (replace(node, engine="mte2b"),)
        return (node,)

    return replace(program, body=rewrite(program.body, change))


@tile_pass(after="choose_engines")
def least_loaded(program: TileProgram) -> TileProgram:
    """Give each copy to the engine that has the least to carry so far."""
    load: Counter[str] = Counter()

    def change(node: Node) -> tuple[Node, ...]:
        if not isinstance(node, Copy):
            return (node,)
        edge = tuple(program.buffer(r.buffer).memory for r in (node.source, node.target))
        able = [e.name for e in program.machine.engines if edge in e.moves]
        best = min(able, key=lambda name: load[name], default=node.engine)
        load[best] += math.prod(node.target.shape)
        return (replace(node, engine=best),)

    return replace(program, body=rewrite(program.body, change))


def _two_load() -> Goal:
    def judge(attempt: Attempt) -> Outcome:
        found = {n.engine for n in nodes(attempt.program.body) if isinstance(n, Copy)}
        mine = sorted(found & {"mte2", "mte2b"})
        return Outcome(len(mine) == 2, " and ".join(mine) or "none of the two")

    hint = "keep a count of what each engine has to carry, and take the least"
    return Goal("both engines that load are used", judge, hint)


LESSON = Lesson(
    title="Share the engines",
    story="Revision B of this NPU has two engines that load, and the pass gives every copy to the "
    "second one, also those that it cannot carry out. Mend the pass: each copy goes to an engine "
    "that moves along its edge, and those that load share the work.",
    logic=linear,
    mapping=MAPPING,
    goals=(right(), _two_load(), at_most_cycles(26_000, "both engines should carry as much")),
    solution=least_loaded,
    shapes={"rows": 512, "out": 512, "in_": 512},
    machine=revision_b(),
    mends="pass",
    broken=everything_by_one,
)
