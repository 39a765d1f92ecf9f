"""Scans on every machine, against float64 by the error bound, and in interpreted tile programs."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task

MACHINES = ("cpu-x86", "dsa-sim", "npu-cube", "nvidia-a100", "nvidia-h200")
SIZES = {"M": 21, "N": 75}


@task.define(leaf=True)
def tile(Y, X, *, function: str, axis: int, reverse: bool, exclusive: bool):
    """A scan of a tile."""
    Y[:, :] = task.scan(function, X, axis, reverse, exclusive)


@task.define
def scans(
    Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *,
    function: str = "sum", axis: int = 1, reverse: bool = False, exclusive: bool = False,
):  # fmt: skip
    """Whole rows, or whole columns."""
    size = task.tunable("block_rows")
    shape = (size, X.shape[1]) if axis else (X.shape[0], size)
    Yp, Xp = task.partition(Y, shape=shape), task.partition(X, shape=shape)
    for i in task.parallel_range(Yp.shape[1 - axis]):
        at = (i, 0) if axis else (0, i)
        flags = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
        task.launch(tile, Yp[at], Xp[at], function=function, **flags)


def compiled(machine, dtype="float32", sizes=None, **static):
    gpu = machine.startswith("nvidia")
    return septran.compile(
        scans, machine, shapes=sizes or SIZES, dtypes=dtype, static=static, emulate=gpu
    )


@pytest.mark.one_in(9)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("function", "dtype", "reverse", "exclusive"),
    [
        ("sum", "float32", False, False),
        ("sum", "float16", True, True),
        pytest.param("sum", "float32", True, False, marks=pytest.mark.slow),
        pytest.param("sum", "bfloat16", False, True, marks=pytest.mark.slow),
        pytest.param("sum", "int32", True, True, marks=pytest.mark.slow),
        pytest.param("prod", "float32", False, True, marks=pytest.mark.slow),
        pytest.param("max", "float32", True, False, marks=pytest.mark.slow),
        pytest.param("min", "int32", False, True, marks=pytest.mark.slow),
    ],
)
def test_scans_are_right_on_every_machine(function, dtype, reverse, exclusive, axis, machine):
    check = compiled(
        machine, dtype, function=function, axis=axis, reverse=reverse, exclusive=exclusive
    ).check()
    assert check.right, str(check)


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 0), (0, 3), (2, 16), (2, 17)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.one_in(3)
def test_short_axes_are_scanned(sizes, reverse, machine):
    kernel = compiled(machine, sizes=dict(zip("MN", sizes, strict=True)), reverse=reverse)
    assert kernel.check().right


@pytest.mark.parametrize("machine", ["nvidia-a100", "nvidia-h200"])
@pytest.mark.one_in(2)
def test_scans_in_shared_memory_wait_for_each_step(machine):
    mapping = f"""
extends: {machine}
machine: {machine}
rules:
  - {{match: {{leaf: elementwise}}, mems: {{"*": SHARED}}}}
"""
    for axis in (0, 1):
        kernel = septran.compile(
            scans, mapping, shapes=SIZES, static={"axis": axis, "reverse": True}, emulate=True
        )
        check = kernel.check()
        assert check.right, str(check)


@task.define(leaf=True)
def doubled(Y, X):
    """A scan that stays on the stack."""
    Y[:, :] = task.scan("min", X * 2, axis=1, reverse=True) * 2 - X


@task.define
def doubled_rows(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """A row each."""
    Yp, Xp = (task.partition(x, shape=(1, x.shape[1])) for x in (Y, X))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(doubled, Yp[i, 0], Xp[i, 0])


@pytest.mark.both_widths
@pytest.mark.usefixtures("vectors")
def test_vectors_of_the_stack_are_written_from_the_end():
    """LLVM makes one wide vector of them, and broke where it was told what comes when."""
    check = septran.compile(doubled_rows, "cpu-x86", shapes={"M": 3, "N": 48}).check()
    assert check.right, str(check)


@pytest.mark.parametrize("function", ["max", "min", "sum"])
def test_nan_goes_on_to_all_that_come_after_it(function):
    x = np.ones((21, 75), "float32")
    x[4, 40] = np.nan
    found = compiled("cpu-x86", function=function)(x)
    assert np.array_equal(np.isnan(found), np.maximum.accumulate(np.isnan(x), axis=1))


def test_nothing_but_the_tensors_is_touched():
    for reverse in (False, True):
        check = compiled("cpu-x86", reverse=reverse).check(guard=True)
        assert check.right, str(check)


@pytest.mark.parametrize("machine", [*MACHINES, "amd-mi300x"])
def test_tile_programs_are_right_whenever_copies_land(machine):
    stages = septran.produce_stages("cumsum", machine, shapes={"M": 21, "N": 150})
    septran.verify(stages.tile_program, full=True)
    x = np.random.default_rng(0).integers(-3, 4, (21, 150)).astype("float32")
    for order in ("early", "late", 1):
        found = septran.interpret(stages.tile_program, {"X": x}, order=order)
        np.testing.assert_array_equal(found["Y"], np.cumsum(x, 1))


@task.define(leaf=True)
def half_written(Y, X):
    """The scan reads what nobody has written."""
    t = task.empty(X.shape, task.float32, name="t")
    t[:, :4] = X[:, :4]
    Y[:, :] = task.cumsum(t, axis=1)


@task.define
def undefined(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """Of one tile."""
    task.launch(half_written, Y, X)


def test_a_scan_of_unwritten_elements_is_refused():
    with pytest.raises(septran.SepTranError) as caught:
        task.run(undefined, np.ones((3, 8), "float32"))
    assert "t[" in str(caught.value)


def test_a_product_that_may_underflow_in_some_grouping_is_promised_nothing():
    """1e-30 twice, then 1e30 twice, is 1 in order of value and 0 in the order of the row."""
    x = np.ones((1, 8), "float32")
    x[0, :4] = 1e-30, 1e-30, 1e30, 1e30
    check = compiled("cpu-x86", sizes={"M": 1, "N": 8}, function="prod").check(x)
    assert check.right
    assert "unknown" in str(check)
