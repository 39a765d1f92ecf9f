"""Rows that a tensor of integers chooses, as every machine's code takes them."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.task.errors import IndexRangeError

MACHINES = ("cpu-x86", "dsa-sim", "npu-cube", "nvidia-a100", "nvidia-h200")


@task.define(leaf=True)
def tile(C, A, B):
    """C += A @ B."""
    task.call_primitive("gemm", C, A, B)


@task.define(leaf=True)
def store(C, acc):
    """C is what was summed."""
    C[:, :] = acc


@task.define
def block(C, A, B):
    """The product of a tile in steps along its sum."""
    Ap, Bp = task.partition(A, shape=(A.shape[0], 32)), task.partition(B, shape=(32, B.shape[1]))
    acc = task.zeros(C.shape, task.float32, name="acc")
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(tile, acc, Ap[0, k], Bp[k, 0])
    task.launch(store, C, acc)


@task.define
def grouped(
    C: task.Tensor["T", "N"],
    X: task.Tensor["M", "K"],
    W: task.Tensor["E", "K", "N"],
    rows: task.Tensor["T"],
    expert: task.Tensor["B"],
):
    """Each block of rows, which are gathered, times the weights of its expert."""
    size = C.shape[0] // expert.shape[0]
    Cp = task.partition(C, shape=(size, 32))
    Ap = task.partition(task.gather(X, rows), shape=(size, X.shape[1]))
    for i, j in task.parallel_range(Cp.shape):
        Wp = task.partition(W[expert[i]], shape=(W.shape[1], 32))
        task.launch(block, Cp[i, j], Ap[i, 0], Wp[0, j])


@task.define(leaf=True)
def combine(Y, X, Z, own):
    """A leaf of expressions whose operands are gathered by rows, by columns and inside of it."""
    Y[:, :] = X * 2 + Z[own] - task.sum(X, axis=1)[:, None]


@task.define
def crossed(
    Y: task.Tensor["U", "T"],
    X: task.Tensor["M", "N"],
    Z: task.Tensor["M", "T"],
    at: task.Tensor["T"],
    by: task.Tensor["U"],
    own: task.Tensor["U"],
):
    """Rows and columns of X, and rows of a tile of Z that the leaf chooses itself."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp, Gp = (task.partition(t, shape=tile) for t in (Y, X[by][:, at]))
    Zp, op = task.partition(Z, shape=(Z.shape[0], tile[1])), task.partition(own, shape=tile[:1])
    for i, j in task.parallel_range(Yp.shape):
        task.launch(combine, Yp[i, j], Gp[i, j], Zp[0, j], op[i])


LOGICS = {
    "grouped": (
        grouped,
        {"T": 70, "N": 70, "K": 50, "M": 41, "E": 5, "B": 7},
        {"rows": "int64", "expert": "uint8"},
    ),
    "crossed": (
        crossed,
        {"M": 40, "N": 70, "T": 30, "U": 20},
        {"at": "int32", "by": "int64", "own": "int8"},
    ),
}


def compiled(name, machine, dtype="float32"):
    logic, sizes, kinds = LOGICS[name]
    given = {n: kinds.get(n, dtype) for n, _ in logic.tensors}
    gpu = machine.startswith("nvidia")
    return septran.compile(logic, machine, shapes=sizes, dtypes=given, emulate=gpu)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("crossed", "float32"),
        pytest.param("grouped", "float16", marks=pytest.mark.slow),
        pytest.param("crossed", "float16", marks=pytest.mark.slow),
        pytest.param("grouped", "float32", marks=pytest.mark.slow),
    ],
)
@pytest.mark.one_in(2)
def test_gathered_operands_are_right_on_every_machine(name, dtype, machine):
    kernel = compiled(name, machine, dtype)
    check = kernel.check()
    assert check.right, str(check)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGICS)
def test_nothing_but_the_tensors_is_read(name):
    check = compiled(name, "cpu-x86").check(guard=True)
    assert check.right, str(check)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", LOGICS)
@pytest.mark.one_in(2, first=1)
def test_tile_programs_are_right_whenever_copies_land(name, machine):
    logic, sizes, kinds = LOGICS[name]
    given = {n: kinds.get(n, "float32") for n, _ in logic.tensors}
    stages = septran.produce_stages(logic, machine, shapes=sizes, dtypes=given)
    septran.verify(stages.tile_program, full=True)
    rng, arrays = np.random.default_rng(0), {}
    for param in stages.task_tree.root.params:
        if param.places is not None:
            arrays[param.name] = rng.integers(0, param.places, param.shape).astype(param.dtype)
        elif not param.writes:
            arrays[param.name] = rng.integers(-3, 4, param.shape).astype(param.dtype)
    wanted = task.run_tree(stages.task_tree, arrays)
    for order in ("early", "late", 1):
        found = septran.interpret(stages.tile_program, arrays, order=order)
        assert all(np.array_equal(found[n], wanted[n]) for n in found)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_kernel_reads_the_nearest_row_for_an_index_that_is_none(machine):
    sizes = {"T": 5, "V": 7, "D": 40}
    kernel = septran.compile("embedding", machine, shapes=sizes, emulate=machine.startswith("nv"))
    table = np.arange(280, dtype="float32").reshape(7, 40)
    index = np.array([3, -1, 7, 2**40, -(2**50)])
    assert np.array_equal(kernel(table, index), table[[3, 0, 6, 6, 0]])
    with pytest.raises(IndexRangeError, match=r"index\[1\] is -1, which is no index of 0\.\.6"):
        kernel.reference(table, index)
    with pytest.raises(IndexRangeError, match=r"index\[1\] is -1, which is no index of 0\.\.6"):
        kernel.check(table, index)
    program = kernel.stages.tile_program
    with pytest.raises(IndexRangeError, match=r"index\[1\] is -1, which is no index of 0\.\.6"):
        septran.interpret(program, [table, index])


def test_a_control_program_is_the_same_by_llvm_as_by_c(monkeypatch):
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    streams = []
    for compiler in ("none", ""):
        monkeypatch.setenv("SEPTRAN_DSA_CC", compiler)
        kernel = septran.compile("embedding", "npu-cube", shapes={"T": 9, "V": 7, "D": 40})
        arrays = (np.zeros((9, 40), "f4"), np.zeros((7, 40), "f4"), np.arange(9) % 7)
        streams.append(kernel.stages.executable.stream((), arrays).tobytes())
    assert streams[0] == streams[1]


def test_random_inputs_are_indices_of_what_they_choose_from():
    kernel = septran.compile("embedding", "cpu-x86", shapes={"T": 400, "V": 5, "D": 8})
    index = kernel.sample()["index"]
    assert set(index.tolist()) == set(range(5))


def test_no_row_is_multiplied_by_zero():
    """A one-hot product would move all of the table for each row."""
    sizes = {"T": 8, "V": 10_000, "D": 32}
    kernel = septran.compile("embedding", "dsa-sim", shapes=sizes)
    profile = kernel.profile()
    assert "GLOBAL -> SPM 1,024 bytes" in str(profile)


@task.define(leaf=True)
def late(Y, X):
    """What lies behind the hundredth row, and where it lies."""
    Y[:] = task.where(task.index(X, 0) > 100, X, 0.0) + task.index(X, 0)


@task.define
def places(Y: task.Tensor["T"], X: task.Tensor["M"], rows: task.Tensor["T"]):
    """Elements that are chosen, with their own positions: lanes whose positions are no ramp."""
    Yp, Xp = (task.partition(t, shape=(50,)) for t in (Y, task.gather(X, rows)))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(late, Yp[i], Xp[i])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.one_in(2, first=1)
def test_chosen_rows_say_where_they_lie(machine):
    kernel = septran.compile(
        places, machine, shapes={"T": 103, "M": 300}, dtypes={"X": "float32", "rows": "int64"},
        emulate=machine.startswith("nvidia"),
    )  # fmt: skip
    x = np.random.default_rng(5).standard_normal(300, dtype="f4")
    rows = np.random.default_rng(6).integers(0, 300, 103)
    assert np.array_equal(kernel(x, rows), np.where(rows > 100, x[rows], 0) + rows.astype("f4"))
    if machine == "cpu-x86":  # indices behind the end of a ragged tile are not read
        assert kernel.check(x, rows, guard=True).right
