"""Loops that turn as often as a tensor of integers says, as every machine's code does."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.task.errors import CountRangeError
from septran.tuning.model import predict
from tests.tiers import slow_but

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
def block(C, A, B, n):
    """The product of the first n steps of the sum."""
    Ap, Bp = task.partition(A, shape=(A.shape[0], 32)), task.partition(B, shape=(32, B.shape[1]))
    acc = task.zeros(C.shape, task.float32, name="acc")
    for k in task.sequential_range(task.count(n[0], most=Ap.shape[1])):
        task.launch(tile, acc, Ap[0, k], Bp[k, 0])
    task.launch(store, C, acc)


@task.define
def short_sums(
    C: task.Tensor["G", "M", "N"],
    A: task.Tensor["G", "M", "K"],
    B: task.Tensor["K", "N"],
    n: task.Tensor["G"],
):
    """For each group a product whose sum ends after n[g] blocks."""
    Cp = task.partition(C, shape=(1, 32, 32))
    Ap = task.partition(A, shape=(1, 32, A.shape[2]))
    Bp = task.partition(B, shape=(B.shape[0], 32))
    for g, i, j in task.parallel_range(*Cp.shape):
        task.launch(block, Cp[g, i, j][0], Ap[g, i, 0][0], Bp[0, j], n[g : g + 1])


@task.define(leaf=True)
def add(C, X):
    """C += X."""
    C[:] = C + X


@task.define
def row_sums(Y, X, length):
    """The sum of as many rows of X as a length in elements needs in blocks of three."""
    Y3 = task.empty(Y.shape, name="held")
    task.fill(Y3, 0)
    blocks = task.cdiv(task.count(length, most=3 * X.shape[0]), 3)
    for p in task.sequential_range(blocks):
        task.launch(add, Y3, X[p])
    task.copy(Y, Y3)


@task.define
def ragged_rows(Y: task.Tensor["B", "D"], X: task.Tensor["B", "L", "D"], length: task.Tensor["B"]):
    """Sums of the first rows."""
    for b in task.parallel_range(Y.shape[0]):
        task.launch(row_sums, Y[b], X[b], length[b])


LOGICS = {
    "short_sums": (short_sums, {"G": 4, "M": 32, "N": 40, "K": 150}, {"n": "int64"}),
    "ragged_rows": (ragged_rows, {"B": 5, "L": 4, "D": 40}, {"length": "int32"}),
}
COUNTS = {"short_sums": [0, 1, 5, 3], "ragged_rows": [0, 1, 12, 7, 3]}


def given(name, dtype="float32"):
    logic, sizes, kinds = LOGICS[name]
    return logic, sizes, {n: kinds.get(n, dtype) for n, _ in logic.tensors}


def compiled(name, machine, dtype="float32"):
    logic, sizes, dtypes = given(name, dtype)
    gpu = machine.startswith("nvidia")
    return septran.compile(logic, machine, shapes=sizes, dtypes=dtypes, emulate=gpu)


def inputs(kernel, name):
    return [
        np.array(COUNTS[name], a.dtype) if n in ("n", "length") else a
        for n, a in kernel.sample().items()
    ]


CASES = [("ragged_rows", "float32"), ("short_sums", "float32"), ("short_sums", "float16")]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_counted_loops_are_right_on_every_machine(name, dtype, machine):
    kernel = compiled(name, machine, dtype)
    check = kernel.check(*inputs(kernel, name))
    assert check.right, str(check)


@pytest.mark.parametrize("name", LOGICS)
def test_counted_loops_are_right_with_short_vectors(name, monkeypatch):
    monkeypatch.setenv("SEPTRAN_NATIVE", "avx2")
    kernel = compiled(name, "cpu-x86")
    check = kernel.check(*inputs(kernel, name))
    assert check.right, str(check)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", LOGICS)
@pytest.mark.one_in(2, first=1)
def test_tile_programs_are_right_whenever_copies_land(name, machine):
    logic, sizes, dtypes = given(name)
    stages = septran.produce_stages(logic, machine, shapes=sizes, dtypes=dtypes)
    septran.verify(stages.tile_program, full=True)
    rng, arrays = np.random.default_rng(0), {}
    for param in stages.task_tree.root.params:
        if param.places is not None:
            arrays[param.name] = np.array(COUNTS[name], param.dtype)
        elif not param.writes:
            arrays[param.name] = rng.integers(-3, 4, param.shape).astype(param.dtype)
    wanted = task.run_tree(stages.task_tree, arrays)
    for order in ("early", "late", 1):
        found = septran.interpret(stages.tile_program, arrays, order=order)
        assert all(np.array_equal(found[n], wanted[n]) for n in found)


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim", "nvidia-a100"])
def test_a_kernel_takes_the_nearest_number_for_one_out_of_range(machine):
    kernel = compiled("ragged_rows", machine)
    x = kernel.sample()["X"]
    length = np.array([-1, 13, 2**31 - 1, -(2**31), 12], "int32")
    found = kernel(x, length)
    for b, rows in enumerate((0, 4, 4, 0, 4)):
        assert np.allclose(found[b], x[b, :rows].sum(axis=0), atol=1e-5)
    message = r"length\[0\] is -1, and counts 0 to 12 iterations"
    for run in (kernel.reference, kernel.check):
        with pytest.raises(CountRangeError, match=message) as caught:
            run(x, length)
        assert caught.value.where.line == row_sums.function.__code__.co_firstlineno + 6
    with pytest.raises(CountRangeError, match=message):
        septran.interpret(kernel.stages.tile_program, [x, length])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("machine", MACHINES)
def test_pages_behind_the_last_key_are_not_read(machine):
    sizes = {"B": 4, "H": 4, "G": 2, "D": 16, "P": 5, "S": 8, "L": 3}
    dtypes = {"Q": "float32", "K": "float32", "V": "float32"}
    kernel = septran.compile(
        "paged_attention", machine, shapes=sizes, dtypes=dtypes,
        emulate=machine.startswith("nvidia"),
    )  # fmt: skip
    given = dict(kernel.sample())
    given["K"][4] = given["V"][4] = np.nan
    # 99 is no page, and page 4 has no numbers: neither is right where it is looked at.
    given["length"] = np.array([0, 8, 9, 24])
    given["pages"] = np.array([[99, 4, 4], [3, 99, 99], [0, 2, 4], [1, 0, 3]])
    check = kernel.check(*given.values())
    assert check.right, str(check)
    assert np.isfinite(kernel(*given.values())).all()


@pytest.mark.parametrize(
    "machine", ["cpu-x86", *(pytest.param(m, marks=pytest.mark.slow) for m in MACHINES[1:])]
)
def test_blocks_of_keys_that_a_mask_skips_are_not_read(machine):
    sizes, flags = {"B": 1, "H": 2, "G": 1, "M": 40, "N": 70, "D": 16}, {"rows": 16, "columns": 32}
    kernel = septran.compile(
        "block_sparse_attention", machine, shapes=sizes, static=flags, dtypes="float32",
        emulate=machine.startswith("nvidia"),
    )  # fmt: skip
    given = dict(kernel.sample())
    given["K"][:, :, 32:64] = given["V"][:, :, 32:64] = np.nan
    given["mask"] = np.array([[[[1, 0, 1], [0, 0, 1], [0, 0, 0]], [[1, 0, 0]] * 3]], np.uint8)
    check = kernel.check(*given.values())
    assert check.right, str(check)
    assert np.isfinite(kernel(*given.values())).all()


@task.define
def nested_block(C, A, B, n):
    """Sums of several lengths, one after the other, in one accumulator."""
    acc = task.zeros(C.shape, task.float32, name="acc")
    Ap, Bp = task.partition(A, shape=(1, A.shape[1], 32)), task.partition(B, shape=(32, B.shape[1]))
    for e in task.sequential_range(n.shape[0]):
        for k in task.sequential_range(task.count(n[e], most=Ap.shape[2])):
            task.launch(tile, acc, Ap[e, 0, k][0], Bp[k, 0])
    task.launch(store, C, acc)


@task.define
def nested(
    C: task.Tensor["M", "N"],
    A: task.Tensor["E", "M", "K"],
    B: task.Tensor["K", "N"],
    n: task.Tensor["E"],
):
    """Counted loops in a loop that runs in order."""
    Cp, Bp = task.partition(C, shape=(32, 32)), task.partition(B, shape=(B.shape[0], 32))
    Ap = task.partition(A, shape=(A.shape[0], 32, A.shape[2]))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(nested_block, Cp[i, j], Ap[0, i, 0], Bp[0, j], n)


NESTED = {"M": 32, "N": 40, "K": 130, "E": 4}
TYPES = {"C": "float32", "A": "float32", "B": "float32", "n": "int64"}


@pytest.mark.one_in(4, first=1)
@pytest.mark.parametrize("machine", MACHINES)
def test_counted_loops_in_loops_are_right(machine):
    gpu = machine.startswith("nvidia")
    kernel = septran.compile(nested, machine, shapes=NESTED, dtypes=TYPES, emulate=gpu)
    for n in ([0, 3, 5, 1], [1, 0, 2, 0], [5, 5, 5, 4]):
        check = kernel.check(*(kernel.sample() | {"n": np.array(n)}).values())
        assert check.right, str(check)


@pytest.mark.parametrize("dtype", slow_but(["float16"], ["float32", "float16"]))
def test_blocks_that_stay_have_rings_that_begin_anew_with_each_tile(dtype):
    sizes = {"G": 9, "M": 160, "N": 160, "K": 150}
    dtypes = dict.fromkeys("CAB", dtype) | {"n": "int64"}
    kernel = septran.compile(short_sums, "nvidia-h200", shapes=sizes, dtypes=dtypes, emulate=True)
    assert any("stay and take" in r.message for r in kernel.stages.tile_program.remarks)
    given = kernel.sample() | {"n": np.array([5, 0, 0, 1, 5, 2, 0, 3, 4])}
    check = kernel.check(*given.values())
    assert check.right, str(check)


@task.define
def twice_block(C, A, B, m, n):
    """As many sums as one count says, each as long as another one does."""
    acc = task.zeros(C.shape, task.float32, name="acc")
    Ap, Bp = task.partition(A, shape=(1, A.shape[1], 32)), task.partition(B, shape=(32, B.shape[1]))
    for e in task.sequential_range(task.count(m[0], most=n.shape[0])):
        for k in task.sequential_range(task.count(n[e], most=A.shape[2]) // 32):
            task.launch(tile, acc, Ap[e, 0, k][0], Bp[k, 0])
    task.launch(store, C, acc)


@task.define
def twice(
    C: task.Tensor["M", "N"],
    A: task.Tensor["E", "M", "K"],
    B: task.Tensor["K", "N"],
    m: task.Tensor["L"],
    n: task.Tensor["E"],
):
    """Counted loops in a counted loop."""
    Cp, Bp = task.partition(C, shape=(32, 32)), task.partition(B, shape=(B.shape[0], 32))
    Ap = task.partition(A, shape=(A.shape[0], 32, A.shape[2]))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(twice_block, Cp[i, j], Ap[0, i, 0], Bp[0, j], m, n)


@pytest.mark.one_in(6, first=1)
@pytest.mark.parametrize("machine", MACHINES)
def test_counted_loops_in_counted_loops_are_right(machine):
    sizes, dtypes = NESTED | {"L": 1}, TYPES | {"m": "int32"}
    gpu = machine.startswith("nvidia")
    kernel = septran.compile(twice, machine, shapes=sizes, dtypes=dtypes, emulate=gpu)
    for m, n in ((0, [130, 0, 31, 100]), (3, [64, 0, 130, 99]), (4, [0, 130, 129, 32])):
        given = kernel.sample() | {"m": np.array([m], "int32"), "n": np.array(n)}
        check = kernel.check(*given.values())
        assert check.right, str(check)


@task.define
def sparse_block(C, A, B, mask):
    """The product of the blocks that are there."""
    Ap, Bp = task.partition(A, shape=(A.shape[0], 32)), task.partition(B, shape=(32, B.shape[1]))
    acc = task.zeros(C.shape, task.float32, name="acc")
    for k in task.sequential_range(Ap.shape[1]):
        with task.when(mask[k]):
            task.launch(tile, acc, Ap[0, k], Bp[k, 0])
    task.launch(store, C, acc)


@task.define
def block_sparse(
    C: task.Tensor["M", "N"],
    A: task.Tensor["M", "K"],
    B: task.Tensor["K", "N"],
    mask: task.Tensor["I", "L"],
):
    """A product of which a mask says the blocks of A that are not zeros."""
    Cp = task.partition(C, shape=(32, 32))
    Ap, Bp = (task.partition(A, shape=(32, A.shape[1])), task.partition(B, shape=(B.shape[0], 32)))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(sparse_block, Cp[i, j], Ap[i, 0], Bp[0, j], mask[i])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_blocks_that_a_mask_takes_out_are_skipped(machine, dtype):
    sizes = {"M": 70, "N": 40, "K": 150, "I": 3, "L": 5}
    dtypes = dict.fromkeys("CAB", dtype) | {"mask": "uint8"}
    gpu = machine.startswith("nvidia")
    kernel = septran.compile(block_sparse, machine, shapes=sizes, dtypes=dtypes, emulate=gpu)
    given = dict(kernel.sample())
    mask = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 1, 0, 1]], "uint8")
    # What is skipped is not read, or this would not be right.
    given["A"][:32, 32:64] = given["A"][32:64] = np.nan
    check = kernel.check(*(given | {"mask": mask}).values())
    assert check.right, str(check)
    assert not kernel(*(given | {"mask": mask}).values())[32:64].any()


@task.define
def cleared(C: task.Tensor["M", "N"], A: task.Tensor["M", "N"], mask: task.Tensor["I"]):
    """Rows that are copied, or left at zero."""
    Cp, Ap = (task.partition(x, shape=(8, x.shape[1])) for x in (C, A))
    for i in task.parallel_range(Cp.shape[0]):
        task.fill(Cp[i, 0], 0)
        with task.when(mask[i]):
            task.launch(store, Cp[i, 0], Ap[i, 0])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.one_in(2, first=1)
def test_what_is_skipped_leaves_what_was_written_before(machine):
    sizes, dtypes = {"M": 30, "N": 24, "I": 4}, {"C": "float32", "A": "float32", "mask": "int32"}
    gpu = machine.startswith("nvidia")
    kernel = septran.compile(cleared, machine, shapes=sizes, dtypes=dtypes, emulate=gpu)
    given = kernel.sample() | {"mask": np.array([0, 1, 0, 1], "int32")}
    check = kernel.check(*given.values())
    assert check.right, str(check)


@task.define
def product(C, A, B):
    """C = A @ B, block by block of what is summed."""
    Ap, Bp = task.partition(A, shape=(A.shape[0], 32)), task.partition(B, shape=(32, B.shape[1]))
    acc = task.zeros(C.shape, task.float32, name="acc")
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(tile, acc, Ap[0, k], Bp[k, 0])
    task.launch(store, C, acc)


@task.define
def section_block(C, A, B, ends):
    """The product over one section."""
    low, high = (task.count(ends[n], most=A.shape[1]) for n in (0, 1))
    task.launch(product, C, A[:, low:high], B[low:high])


@task.define
def section_products(
    C: task.Tensor["E", "M", "N"],
    A: task.Tensor["M", "T"],
    B: task.Tensor["T", "N"],
    ends: task.Tensor["E", 2],
):
    """For each section of what is summed a product of its own."""
    Cp = task.partition(C, shape=(1, 32, 32))
    Ap, Bp = (task.partition(A, shape=(32, A.shape[1])), task.partition(B, shape=(B.shape[0], 32)))
    for e, i, j in task.parallel_range(*Cp.shape):
        task.launch(section_block, Cp[e, i, j][0], Ap[i, 0], Bp[0, j], ends[e])


ENDS = np.array([[0, 0], [0, 37], [37, 100], [109, 150]])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", slow_but(["float16"], ["float32", "float16", "bfloat16"]))
def test_products_sum_over_sections_and_nothing_behind_them(machine, dtype):
    sizes = {"E": 4, "M": 40, "N": 48, "T": 150}
    dtypes = dict.fromkeys("CAB", dtype) | {"ends": "int32"}
    gpu = machine.startswith("nvidia")
    kernel = septran.compile(section_products, machine, shapes=sizes, dtypes=dtypes, emulate=gpu)
    given = dict(kernel.sample()) | {"ends": ENDS.astype("int32")}
    # No number of these is read, not even to be multiplied by zero.
    given["A"][:, 100:109] = given["B"][100:109] = np.nan
    check = kernel.check(*given.values())
    assert check.right, str(check)


@task.define(leaf=True)
def weighted(Y, X):
    """Rows, and the greatest of each column among them."""
    Y[:, :] = X * 2 + task.max(X, axis=0)[None, :]


@task.define
def section_rows(Y: task.Tensor["M", "D"], X: task.Tensor["M", "D"], ends: task.Tensor["E", 2]):
    """Rows of sections, one after another, also where they lie over each other."""
    task.fill(Y, 0)
    for e in task.sequential_range(ends.shape[0]):
        low, high = (task.count(ends[e, n], most=X.shape[0]) for n in (0, 1))
        Yp, Xp = (task.partition(t[low:high], shape=(8, t.shape[1])) for t in (Y, X))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(weighted, Yp[i, 0], Xp[i, 0])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "machine", ["cpu-x86", "dsa-sim", pytest.param("npu-cube", marks=pytest.mark.slow)]
)
def test_later_sections_write_over_earlier_ones(machine):
    sizes, dtypes = {"M": 40, "D": 24, "E": 4}, dict.fromkeys("YX", "float32") | {"ends": "int64"}
    kernel = septran.compile(section_rows, machine, shapes=sizes, dtypes=dtypes)
    for ends in ([[0, 13], [13, 13], [10, 40], [39, 2]], [[5, 40], [0, 8], [20, 21], [0, 0]]):
        given = kernel.sample() | {"ends": np.array(ends)}
        check = kernel.check(*given.values())
        assert check.right, str(check)


@pytest.mark.parametrize("machine", ["cpu-x86", "nvidia-h200"])
def test_estimates_suppose_that_the_first_section_is_all(machine):
    sizes = {"E": 4, "M": 64, "N": 64, "T": 128}
    dtypes = dict.fromkeys("CAB", "float32") | {"ends": "int32"}
    stages = septran.produce_stages(section_products, machine, shapes=sizes, dtypes=dtypes)
    operations = predict(stages.tile_program).operations
    assert 2 * 64 * 64 * 128 <= operations < 3 * 64 * 64 * 128


def test_a_page_table_is_supposed_where_a_gpu_is_predicted():
    sizes = {"B": 4, "H": 4, "G": 2, "D": 16, "P": 16, "S": 8, "L": 4}
    dtypes = dict.fromkeys("QKV", "float32")
    stages = septran.produce_stages("paged_attention", "nvidia-a100", shapes=sizes, dtypes=dtypes)
    assert predict(stages.tile_program).seconds > 0


@task.define
def first_rows(Y, X, n):
    """The sum of the first n rows of those that there are."""
    task.fill(Y, 0)
    for p in task.sequential_range(task.count(n[0], most=X.shape[0])):
        task.launch(add, Y, X[p])


@task.define
def counted_rows(
    Y: task.Tensor["G", "D"], X: task.Tensor["L", "D"], n: task.Tensor["G", task.int64]
):
    """A sum for each part of X, of which the last may have fewer rows."""
    Xp = task.partition(X, shape=(32, X.shape[1]))
    for g in task.parallel_range(Xp.shape[0]):
        task.launch(first_rows, Y[g], Xp[g, 0], n[g : g + 1])


@pytest.mark.parametrize("machine", slow_but(["cpu-x86", "dsa-sim"], MACHINES))
def test_a_ragged_tile_bounds_a_count_by_what_there_is(machine):
    """It was bounded by a full tile, and a kernel read behind the tensor."""
    kernel = septran.compile(counted_rows, machine, emulate=machine.startswith("nvidia"))
    X = np.arange(50 * 40, dtype=np.float32).reshape(50, 40)
    kernel.check(X, np.array([3, 18])).raise_if_wrong()
    for last in (18, 25):
        n = np.array([3, last])
        assert np.array_equal(kernel(X, n), [X[:3].sum(axis=0), X[32:].sum(axis=0)])
    for run in (kernel.check, kernel.reference, kernel.interpret):
        with pytest.raises(CountRangeError, match=r"n\[1\] is 25, and counts 0 to 18"):
            run(X, np.array([3, 25]))


@pytest.mark.parametrize("machine", slow_but(["cpu-x86", "npu-cube"], MACHINES))
def test_a_dimension_that_calls_tell_bounds_a_count_by_the_call_s(machine):
    """It was bounded by the greatest call: random program 3000558."""
    emulate = machine.startswith("nvidia")
    kernel = septran.compile(counted_rows, machine, dynamic={"L": (1, 32)}, emulate=emulate)
    for rows in (1, 3, 32):
        X = np.arange(rows * 40, dtype=np.float32).reshape(rows, 40)
        for number in (0, 1, rows):
            kernel.check(X, np.array([number])).raise_if_wrong()
        assert np.array_equal(kernel(X, np.array([32])), [X.sum(axis=0)])
    for run in (kernel.check, kernel.reference, kernel.interpret):
        with pytest.raises(CountRangeError, match=r"is 4, and counts 0 to 3"):
            run(X[:3], np.array([4]))


@task.define(leaf=True)
def twice_of(y, x):
    y[:] = x * 2


@task.define
def as_many_rows(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], n: task.Tensor[1]):
    """The first n[0] rows, doubled: n says how often the grid's own loop turns, and no more."""
    task.fill(Y, -1)
    for i in task.parallel_range(task.count(n[0], most=X.shape[0])):
        task.launch(twice_of, Y[i], X[i])


@pytest.mark.parametrize("machine", slow_but(["nvidia-h200", "dsa-sim"], (*MACHINES, "amd-mi300x")))
def test_a_count_may_bound_the_outermost_loop_alone(machine):
    gpu = machine.startswith(("nvidia", "amd"))
    x, n = np.ones((5, 7), "float32"), np.array([3], "int32")
    kernel = septran.compile(as_many_rows, machine, emulate=gpu)
    wanted = np.where(np.arange(5)[:, None] < 3, 2, -1) * x
    np.testing.assert_array_equal(kernel(x, n), wanted)


@task.define
def first_tiles(Y, X, n):
    """The first n tiles of two rows, doubled, of those that there are."""
    Yp, Xp = (task.partition(t, shape=(2, t.shape[1])) for t in (Y, X))
    for i in task.parallel_range(task.count(n[0], most=Xp.shape[0])):
        task.launch(twice_of, Yp[i, 0], Xp[i, 0])


@task.define
def counted_tiles(
    Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], n: task.Tensor["G", task.int32]
):
    """Each part of five rows has three tiles, and the last part may have fewer."""
    task.fill(Y, -1)
    Yp, Xp = (task.partition(t, shape=(5, t.shape[1])) for t in (Y, X))
    for g in task.parallel_range(Xp.shape[0]):
        task.launch(first_tiles, Yp[g, 0], Xp[g, 0], n[g : g + 1])


@pytest.mark.parametrize("machine", slow_but(["cpu-x86", "dsa-sim"], MACHINES))
def test_tiles_of_a_ragged_tile_bound_a_count(machine):
    kernel = septran.compile(counted_tiles, machine, emulate=machine.startswith("nvidia"))
    x, n = np.ones((8, 7), "float32"), np.array([1, 2], "int32")
    wanted = np.where(np.isin(np.arange(8)[:, None], (0, 1, 5, 6, 7)), 2, -1) * x
    for many in (n, np.array([1, 9], "int32")):  # one tile that there is not is none
        np.testing.assert_array_equal(kernel(x, many), wanted)
    kernel.check(x, n).raise_if_wrong()
    with pytest.raises(CountRangeError, match=r"n\[1\] is 3, and counts 0 to 2"):
        kernel.check(x, np.array([1, 3], "int32"))


@task.define
def tiles_of_a_call(
    Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], n: task.Tensor[1, task.int32]
):
    """The first n tiles of as many as the call's rows are."""
    task.fill(Y, -1)
    Yp, Xp = (task.partition(t, shape=(5, t.shape[1])) for t in (Y, X))
    for i in task.parallel_range(task.count(n[0], most=Xp.shape[0])):
        task.launch(twice_of, Yp[i, 0], Xp[i, 0])


@pytest.mark.parametrize("machine", slow_but(["cpu-x86", "dsa-sim"], MACHINES))
def test_tiles_of_rows_that_calls_tell_bound_a_count(machine):
    kernel = septran.compile(
        tiles_of_a_call, machine, dynamic={"M": (1, 64)}, emulate=machine.startswith("nvidia")
    )
    for rows in (3, 8, 64):
        x = np.ones((rows, 7), "float32")
        for tiles in (0, 1, 99):
            wanted = np.where(np.arange(rows)[:, None] < 5 * tiles, 2, -1) * x
            np.testing.assert_array_equal(kernel(x, np.array([tiles], "int32")), wanted)
    with pytest.raises(CountRangeError, match=r"n\[0\] is 3, and counts 0 to 2"):
        kernel.check(x[:8], np.array([3], "int32"))
