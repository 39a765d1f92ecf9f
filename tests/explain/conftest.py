"""A gemm on a toy machine, built by hand: no tracer, no YAML, no code generator needed."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from septran.ir.index import Index, Var, ceil_div
from septran.ir.views import View
from septran.location import Location
from septran.machine.model import Engine, Instruction, Machine, Memory, Processor
from septran.mapping.resolved import (
    Decision,
    Instance,
    ResolvedMapping,
    Setting,
    Settings,
    TensorMemory,
)
from septran.targets.base import Source
from septran.task.tree import Launch, Loop, Param, Primitive, TaskNode, TaskTree
from septran.tile.layouts import Layout
from septran.tile.nodes import (
    Acquire,
    Buffer,
    Channel,
    Commit,
    Compute,
    Copy,
    For,
    Origin,
    Region,
    Release,
    Remark,
    TileProgram,
    Wait,
)
from septran.tile.records import Placement

HERE = Location(__file__, 1)
THERE = Location(__file__, 3)
M, N, K = 100, 64, 96


def param(name, view, *, reads=True, writes=False):
    return Param(name, view.shape, view.valid, "float32", reads, writes, HERE)


def leaf(path, name, primitive, views, **flags):
    params = tuple(
        param(n, v, reads=flags.get("accumulates", False) or n != "C", writes=n == "C")
        for n, v in zip("CAB", views, strict=False)
    )
    operands = tuple(View.whole(p.name, p.shape, p.valid) for p in params)
    body = (Primitive(primitive, operands, flags.get("attributes", ()), HERE),)
    return TaskNode(name, name, path, True, params, body, (), False, 2, HERE)


def build_tree(name="gemm", doc="C = A @ B."):
    i, k = Var("i"), Var("k")
    c, a, b = (View.whole(n, s) for n, s in (("C", (M, N)), ("A", (M, K)), ("B", (K, N))))
    rows, panel = c.block((Index.of(i) * 32, 0), (32, N)), a.block((Index.of(i) * 32, 0), (32, K))
    own = [View.whole(n, v.shape, v.valid) for n, v in (("C", rows), ("A", panel), ("B", b))]
    a_step = own[1].block((0, Index.of(k) * 32), (32, 32))
    b_step = own[2].block((Index.of(k) * 32, 0), (32, N))
    path = f"{name}/gemm_block"
    zero = leaf(f"{path}/fill", "fill", "fill", [own[0]], attributes=(("value", 0),))
    mma = leaf(f"{path}/gemm_tile", "gemm_tile", "gemm", [own[0], a_step, b_step], accumulates=True)
    step = (Launch(mma, (own[0], a_step, b_step), HERE),)
    walk = Loop((k,), (ceil_div(K, 32),), False, step, HERE)
    params = (param("C", rows, reads=False, writes=True), param("A", panel), param("B", b))
    inner = TaskNode(
        "gemm_block", "gemm_block", path, False, params, (Launch(zero, (own[0],), HERE), walk),
        (("block_K", 32),), True, 1, HERE, "One block of C: walk the K axis.",
    )  # fmt: skip
    outer = Loop((i,), (ceil_div(M, 32),), True, (Launch(inner, (rows, panel, b), HERE),), HERE)
    entry = (param("C", c, reads=False, writes=True), param("A", a), param("B", b))
    root = TaskNode(
        name, name, name, False, entry, (outer,), (("block_M", 32),), False, 0, HERE, doc
    )
    return TaskTree(root, dims=(("M", M), ("N", N), ("K", K)), file="gemm.py")


def build_machine():
    edges = (("GLOBAL", "SHARED"), ("SHARED", "GLOBAL"))
    return Machine(
        "toy-gpu", "cuda", clock_mhz=1000.0,
        processors=(Processor("HOST"), Processor("BLOCK", 4, "HOST", "multiprocessor")),
        memories=(
            Memory("GLOBAL", "HOST", 1 << 34, 1e9),
            Memory("SHARED", "BLOCK", 64 * 1024, 64e9),
            Memory("REGISTER", "BLOCK", 64 * 1024),
        ),
        engines=(
            Engine("tma", edges, True, "mbarrier"),
            Engine("store", (("REGISTER", "GLOBAL"),)),
        ),
        instructions=(
            Instruction("mma", "gemm", throughput=64.0, issued_by="BLOCK"),
            Instruction("simt", "fill"), Instruction("alu", "map", throughput=8.0),
        ),
    )  # fmt: skip


def build_resolved(tree=None, instance_name="gemm_block_gpu"):
    tree = tree or build_tree()
    instances = []
    for task in tree.tasks():
        where = {"C": "REGISTER", "A": "SHARED", "B": "SHARED"}
        if task.level == 0:
            where = dict.fromkeys("CAB", "GLOBAL")
        mapped = where if task.level < 2 else dict.fromkeys("CAB", "NONE")
        mems = {
            p.name: TensorMemory(mapped[p.name], "rule 2", THERE, memory=where[p.name])
            for p in task.params
        }
        name = instance_name if task.level == 1 else f"{task.name}_gpu"
        bindings = {"gemm": Setting("mma", "first that accepts float32")} if task.leaf else {}
        instances.append(
            Instance(
                task.path, name, task.name, task.variant,
                MappingProxyType(mems),
                Settings({
                    "proc": Setting("BLOCK" if task.level else "HOST", "rule 1", THERE),
                    **({"pipeline": Setting(2, "rule 2", THERE)} if task.level == 1 else {}),
                }),
                tunables=MappingProxyType({k: Setting(v, "tunables of the file", THERE)
                                  for k, v in task.tunables}),
                bindings=MappingProxyType(bindings), where=THERE,
            )
        )  # fmt: skip
    decisions = (
        Decision("decision", "gemm_tile", "gemm is bound to mma", None, THERE),
        Decision("no-effect", "cluster", "toy-gpu has no clusters", "remove the key", THERE),
    )
    return ResolvedMapping(tree, build_machine(), tuple(instances), decisions, "toy.mapping.yaml")


def _origin(rule, task="gemm/gemm_block"):
    return Origin(task, "gemm_block_gpu", HERE, THERE, rule)


def _region(name, shape, offsets=None, stage=0):
    view = View.whole(name, shape)
    if offsets:
        view = View.whole(name, (M, K)).block(offsets, shape)
    return Region(view.tensor, view.index, view.shape, view.valid, stage=Index.of(stage))


def build_program(rule="A is GLOBAL in gemm and SHARED in gemm_block, so it is copied in"):
    """A pipelined gemm with one channel of two stages."""
    i, k = Index.of(Var("i")), Index.of(Var("k"))
    why = _origin(rule)
    sync = _origin("gemm_tile reads A_SHARED, which arrives asynchronously")
    a_tile = _region("A_SHARED", (32, 32), stage=k % 2)
    b_tile = _region("B_SHARED", (32, N), stage=k % 2)
    accumulator = _region("C_REGISTER", (32, N))
    fill = Compute("fill", (accumulator,), "simt", "BLOCK", why, (("value", 0),))
    mma = Compute("gemm", (accumulator, a_tile, b_tile), "mma", "BLOCK", why, accumulates=True)
    steps = (
        Acquire("full", k, sync),
        Copy(a_tile, _region("A", (32, 32), (i * 32, k * 32)), "tma", "BLOCK", why, "full"),
        Copy(b_tile, _region("B", (32, N), (k * 32, 0)), "tma", "BLOCK", why, "full"),
        Commit("full", k, sync),
        Wait("full", k, sync),
        mma,
        Release("full", k, sync),
    )
    walk = For(Var("k"), Index.of(3), "sequential", None, steps, why, 2)
    back = _origin("C is REGISTER in gemm_block and GLOBAL in gemm, so it is copied out")
    store = Copy(_region("C", (32, N), (i * 32, 0)), accumulator, "store", "BLOCK", back)
    blocks = For(Var("i"), ceil_div(M, 32), "parallel", "BLOCK", (fill, walk, store), why)
    buffers = (
        Buffer("C", "GLOBAL", (M, N), "float32", tensor="C"),
        Buffer("A", "GLOBAL", (M, K), "float32", tensor="A"),
        Buffer("B", "GLOBAL", (K, N), "float32", tensor="B"),
        Buffer("A_SHARED", "SHARED", (32, 32), "float32", Layout("swizzle", (128,)), 2, "A", why),
        Buffer("B_SHARED", "SHARED", (32, N), "float32", Layout(), 2, "B", why),
        Buffer("C_REGISTER", "REGISTER", (32, N), "float32", tensor="C", origin=why),
    )
    plan = (
        Placement("A_SHARED", "SHARED", 0, 8192, 2, 8),
        Placement("B_SHARED", "SHARED", 8192, 16384, 2, 8),
    )
    remarks = (
        Remark("missed", "A", "pipeline 4 lowered to 2", "block_K: 16 would fit", THERE, "plan"),
    )
    return TileProgram(
        "gemm", build_machine(), ("C", "A", "B"), ("C",), (), buffers, (blocks,),
        (Channel("full", "tma", 2, ("A_SHARED", "B_SHARED"), sync),), plan, remarks,
    )  # fmt: skip


@pytest.fixture
def tree():
    return build_tree()


@pytest.fixture
def resolved():
    return build_resolved()


@pytest.fixture
def program():
    return build_program()


@pytest.fixture
def source():
    return Source(
        "gemm", "c", "int main(void) { return 0; }\n", {"assembly": "ret\n"}, {"bytes": 1}
    )


@pytest.fixture
def build():
    """The builders, for tests that vary a name or a reason."""
    return {
        "tree": build_tree, "resolved": build_resolved, "program": build_program,
        "rename": lambda stage, **changes: replace(stage, **changes),
    }  # fmt: skip
