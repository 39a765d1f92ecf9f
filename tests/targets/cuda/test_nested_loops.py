"""Products in nested sequential loops: roles are around all of them, and rings go on."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

import septran
from septran import task
from septran.emulator import EmulatedBoundsError, emulate, emulation
from septran.ir.index import Index, Var
from septran.machine.loader import load_machine
from septran.targets.cuda.target import TARGET
from septran.targets.cuda.unsupported import UnsupportedByCudaError
from septran.tile.nodes import Acquire, For, Role, Wait, nodes
from septran.tile.verify.places import PrivateMemoryError
from septran.tile.verify.verifier import verify
from tests.tiers import slow_but

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
SIZES = [(1, 64), (1, 128), (2, 128), (2, 384), (3, 200)]
"""Products, and the summed length of each: stages are as many as steps, fewer, ragged."""


@task.define(leaf=True)
def add_tile(acc, a, w):
    """One step of one product."""
    task.call_primitive("gemm", acc, a, w)


@task.define(leaf=True)
def add_weighted(total, acc, g):
    """A row counts as its weight says."""
    total[:, :] = total + acc * g


@task.define(leaf=True)
def round_tile(Y, acc):
    """The sum in the dtype of Y."""
    Y[:, :] = acc.astype(Y.dtype)


@task.define
def sum_block(Y, A, W):
    """One sum over both loops."""
    acc = task.zeros(Y.shape, task.accumulator_dtype(Y.dtype), name="acc")
    depth = task.tunable("block_K")
    for e in task.sequential_range(A.shape[0]):
        Ap = task.partition(A[e], shape=(A.shape[1], depth))
        Wp = task.partition(W[e], shape=(depth, W.shape[2]))
        for k in task.sequential_range(Ap.shape[1]):
            task.launch(add_tile, acc, Ap[0, k], Wp[k, 0])
    task.launch(round_tile, Y, acc)


@task.define
def nested_sum(
    Y: task.Tensor["M", "N"], A: task.Tensor["E", "M", "K"], W: task.Tensor["E", "K", "N"]
):
    """Y = sum over e of A[e] @ W[e]."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp = task.partition(Y, shape=tile)
    Ap = task.partition(A, shape=(A.shape[0], tile[0], A.shape[2]))
    Wp = task.partition(W, shape=(A.shape[0], W.shape[1], tile[1]))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(sum_block, Yp[i, j], Ap[0, i, 0], Wp[0, 0, j])


@task.define
def rising_block(Y, A, W):
    """Each sum is a step longer than the one before."""
    acc = task.zeros(Y.shape, task.accumulator_dtype(Y.dtype), name="acc")
    for e in task.sequential_range(A.shape[0]):
        Ap = task.partition(A[e], shape=(A.shape[1], 32))
        Wp = task.partition(W[e], shape=(32, W.shape[2]))
        for k in task.sequential_range(e + 1):
            task.launch(add_tile, acc, Ap[0, k], Wp[k, 0])
    task.launch(round_tile, Y, acc)


@task.define
def rising_sum(
    Y: task.Tensor["M", "N"], A: task.Tensor["E", "M", "K"], W: task.Tensor["E", "K", "N"]
):
    """Loops whose extent depends on the loop around them."""
    Yp = task.partition(Y, shape=(64, 64))
    Ap = task.partition(A, shape=(A.shape[0], 64, A.shape[2]))
    Wp = task.partition(W, shape=(A.shape[0], W.shape[1], 64))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(rising_block, Yp[i, j], Ap[0, i, 0], Wp[0, 0, j])


@task.define
def experts_block(Y, X, W, G):
    """A product of its own for each expert."""
    total = task.zeros(Y.shape, task.accumulator_dtype(Y.dtype), name="total")
    depth = task.tunable("block_K")
    Xp = task.partition(X, shape=(X.shape[0], depth))
    for e in task.sequential_range(W.shape[0]):
        acc = task.zeros(Y.shape, task.accumulator_dtype(Y.dtype), name="acc")
        Wp = task.partition(W[e], shape=(depth, W.shape[2]))
        for k in task.sequential_range(Xp.shape[1]):
            task.launch(add_tile, acc, Xp[0, k], Wp[k, 0])
        task.launch(add_weighted, total, acc, G[e])
    task.launch(round_tile, Y, total)


@task.define
def experts(
    Y: task.Tensor["M", "N"],
    X: task.Tensor["M", "K"],
    W: task.Tensor["E", "K", "N"],
    G: task.Tensor["E", "M", 1],
):
    """Y = sum over e of G[e] * (X @ W[e])."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp = task.partition(Y, shape=tile)
    Xp = task.partition(X, shape=(tile[0], X.shape[1]))
    Wp = task.partition(W, shape=(W.shape[0], W.shape[1], tile[1]))
    Gp = task.partition(G, shape=(G.shape[0], tile[0], 1))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(experts_block, Yp[i, j], Xp[i, 0], Wp[0, 0, j], Gp[0, i, 0])


def sizes(products, depth, rows=64, columns=64):
    return {"E": products, "M": rows, "N": columns, "K": depth}


def is_right(kernel):
    for mode in ("eager", "late", "random"):
        with emulation(mode=mode, seed=3):
            kernel.check().raise_if_wrong()


@pytest.mark.one_in(9)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("products", "depth"), SIZES)
def test_a_sum_over_two_loops_is_right(products, depth, dtype):
    shapes = sizes(products, depth)
    options = {"shapes": shapes, "dtypes": dtype, "emulate": True}
    is_right(septran.compile(nested_sum, "nvidia-h200", **options))


def test_a_sum_over_two_loops_is_right_without_roles():
    options = {"shapes": sizes(2, 384), "dtypes": "float16", "emulate": True}
    is_right(septran.compile(nested_sum, "nvidia-a100", **options))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("machine", ["nvidia-h200", "nvidia-a100"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sums_of_unequal_length_have_rings_that_begin_anew(machine, dtype):
    options = {"shapes": sizes(8, 256), "dtypes": dtype, "emulate": True}
    kernel = septran.compile(rising_sum, machine, **options)
    is_right(kernel)
    if machine == "nvidia-h200":
        remarks = [r.message for r in kernel.stages.tile_program.remarks]
        assert any("not the same in all iterations" in message for message in remarks), remarks


@pytest.mark.one_in(2)
@pytest.mark.parametrize("machine", ["nvidia-h200", "nvidia-a100"])
@pytest.mark.parametrize("dtype", slow_but(["float16"], ["float16", "float32"]))
def test_a_product_for_each_expert_is_right(machine, dtype):
    options = {"shapes": sizes(3, 200, rows=100, columns=72), "dtypes": dtype, "emulate": True}
    is_right(septran.compile(experts, machine, **options))


@pytest.fixture(scope="module")
def program():
    tile = {"block_N": 64, "block_K": 64}
    options = {"shapes": sizes(2, 384), "dtypes": "float16", "tunables": tile}
    return septran.produce_stages(nested_sum, "nvidia-h200", **options).tile_program


def split(program):
    """The body of a block: its roles."""
    body = program.body
    while isinstance(body[0], For):
        body = body[0].body
    return body


def with_block(program, body):
    def inside(old):
        (loop,) = old
        inner = inside(loop.body) if isinstance(loop.body[0], For) else tuple(body)
        return (replace(loop, body=inner),)

    return replace(program, body=inside(program.body))


def test_the_interpreter_runs_it(program):
    random = np.random.default_rng(0)
    a, w = (random.integers(-1, 2, s).astype("float16") for s in ((2, 64, 384), (2, 384, 64)))
    exact = sum(a[e].astype("float64") @ w[e].astype("float64") for e in range(2))
    for order in ("early", "late", 1):
        found = septran.interpret(program, {"A": a, "W": w}, order=order)
        assert np.array_equal(found["Y"], exact)


def test_roles_are_around_both_loops_and_fills_are_counted_through(program):
    producer, consumer = split(program)
    assert isinstance(producer, Role)
    assert isinstance(consumer, Role)
    for role, kind in ((producer, Acquire), (consumer, Wait)):
        (fill,) = {n.index for n in nodes(role.body) if isinstance(n, kind)}
        loops = [n for n in nodes(role.body) if isinstance(n, For)]
        assert fill == Index.of(loops[0].variable) * 6 + loops[1].variable


def test_an_accumulator_of_the_block_is_none_of_its_consumers(program):
    producer, consumer = split(program)
    fill, *rest = consumer.body
    broken = with_block(program, [fill, producer, replace(consumer, body=tuple(rest))])
    with pytest.raises(PrivateMemoryError, match="both the consumer and the body around it use it"):
        verify(broken)


def test_roles_that_begin_anew_are_refused(program):
    roles = split(program)
    fill = roles[1].body[0]
    loop = For(Var("again"), Index.of(2), "sequential", None, roles, roles[0].origin)
    with pytest.raises(UnsupportedByCudaError, match="the producer is in the loop over again"):
        TARGET.lower(with_block(program, [fill, loop]))


@pytest.mark.parametrize("mode", ["eager", "late"])
def test_an_accumulator_with_too_few_registers_is_found(program, mode):
    cuda = TARGET.lower(program).cuda
    assert "float acc_ptr[32];" in cuda.source
    cuda = replace(cuda, source=cuda.source.replace("float acc_ptr[32];", "float acc_ptr[16];"))
    a, w = np.ones((2, 64, 384), np.float16), np.ones((2, 384, 64), np.float16)
    arrays = {"Y": np.zeros((64, 64), np.float16), "A": a, "W": w}
    with pytest.raises(
        EmulatedBoundsError, match="32 registers, and number 16 is outside of the array of 64"
    ):
        emulate(cuda, arrays, mode=mode, machine=load_machine("nvidia-h200"))


@task.define(leaf=True)
def add_sum(total, acc):
    """Of another product."""
    total[:, :] = total + acc


@task.define(leaf=True)
def squash(T, X):
    """A left operand that is made here."""
    T[:, :] = task.tanh(X).astype(T.dtype)


@task.define
def made_block(Y, X, W, V):
    """A product of inputs, then products of what is made, in each iteration of the outer loop."""
    total = task.zeros(Y.shape, task.accumulator_dtype(Y.dtype), name="total")
    acc = task.zeros(Y.shape, task.accumulator_dtype(Y.dtype), name="acc")
    depth = task.tunable("block_K")
    for e in task.sequential_range(X.shape[0]):
        Xp = task.partition(X[e, 0], shape=(X.shape[2], depth))
        Vp = task.partition(V[e], shape=(depth, V.shape[2]))
        for k in task.sequential_range(Xp.shape[1]):
            task.launch(add_tile, total, Xp[0, k], Vp[k, 0])
        for f in task.sequential_range(X.shape[1]):
            T = task.empty(X.shape[2:], X.dtype, name="T")
            task.launch(squash, T, X[e, f])
            Tp = task.partition(T, shape=(T.shape[0], depth))
            Wp = task.partition(W[e, f], shape=(depth, W.shape[3]))
            for k in task.sequential_range(Tp.shape[1]):
                task.launch(add_tile, acc, Tp[0, k], Wp[k, 0])
    task.launch(add_sum, total, acc)
    task.launch(round_tile, Y, total)


@task.define
def made(
    Y: task.Tensor["M", "N"],
    X: task.Tensor["E", "F", "M", "K"],
    W: task.Tensor["E", "F", "K", "N"],
    V: task.Tensor["E", "K", "N"],
):
    """Y = sum over e of X[e, 0] @ V[e] and of tanh(X[e, f]) @ W[e, f]."""
    rows = task.tunable("block_M")
    Yp = task.partition(Y, shape=(rows, Y.shape[1]))
    Xp = task.partition(X, shape=(*X.shape[:2], rows, X.shape[3]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(made_block, Yp[i, 0], Xp[0, 0, i, 0], W, V)


def test_a_copy_sees_what_threads_wrote_where_it_fills(tmp_path):
    """A tile that threads write lies where TMA fills one of another product."""
    path = tmp_path / "three.mapping.yaml"
    rule = "{match: {loops: parallel}, pipeline: 3}"
    path.write_text(f"extends: nvidia-h200\nmachine: nvidia-h200\nrules:\n  - {rule}\n")
    shapes = {"E": 2, "F": 3, "M": 32, "N": 48, "K": 7}
    options = {"shapes": shapes, "dtypes": "bfloat16", "tunables": {"block_M": 8, "block_K": 32}}
    is_right(septran.compile(made, path, emulate=True, **options))
