"""Four-bit weights that a block unpacks into bytes, and products of these with ragged edges."""

import shutil

import pytest

import septran
from septran import task
from septran.emulator import MODES, emulation
from tests.tiers import slow_but

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")


@task.define(leaf=True)
def unpack(T, W):
    """Two weights of each byte, less 8: the low halves are the first rows."""
    half = W.shape[0]
    T[:half, :] = ((W & 15).astype("int32") - 8).astype("int8")
    T[half:, :] = ((W >> 4).astype("int32") - 8).astype("int8")


@task.define(leaf=True)
def multiply(acc, A, T):
    """Add a product."""
    task.call_primitive("gemm", acc, A, T)


@task.define(leaf=True)
def scaled(C, acc, s):
    """The sums as numbers."""
    C[:, :] = acc.astype("float32") * s


@task.define
def product(C, A, W, s):
    """One block of C: walk its weights."""
    acc = task.empty(C.shape, task.int32, name="acc")
    task.fill(acc, 0)
    Ap, Wp = task.partition(A, shape=(A.shape[0], 32)), task.partition(W, shape=(16, W.shape[1]))
    for k in task.sequential_range(Ap.shape[1]):
        T = task.empty((32, W.shape[1]), task.int8, name="T")
        task.launch(unpack, T, Wp[k, 0])
        task.launch(multiply, acc, Ap[0, k], T)
    task.launch(scaled, C, acc, s)


@task.define
def narrow(
    C: task.Tensor["M", "N", task.float32],
    A: task.Tensor["M", "K", task.int8],
    W: task.Tensor["K // 2", "N", task.uint8],
    s: task.Tensor[1, "N", task.float32],
):
    """C in blocks."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Cp, Ap = task.partition(C, shape=tile), task.partition(A, shape=(tile[0], A.shape[1]))
    Wp, sp = (task.partition(x, shape=(x.shape[0], tile[1])) for x in (W, s))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(product, Cp[i, j], Ap[i, 0], Wp[0, j], sp[0, j])


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (64, 70), (40, 150)])
@pytest.mark.parametrize("machine", slow_but(["nvidia-h200"], ["nvidia-a100", "nvidia-h200"]))
@pytest.mark.one_in(2)
def test_columns_that_do_not_exist_are_not_read(machine, rows, columns):
    kernel = septran.compile(
        narrow, machine, shapes={"M": rows, "N": columns, "K": 96},
        tunables={"block_M": 64, "block_N": 128}, emulate=True,
    )  # fmt: skip
    assert "int8" in str(kernel.stages.tile_program).partition("gemm(")[2].partition("\n")[0]
    for mode in MODES:
        with emulation(mode, seed=1):
            found = kernel.check()
        assert found.right, f"{mode}: {found}"
