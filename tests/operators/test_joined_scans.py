"""Scans by a function of the logic on every machine, against float64 by the error bound."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task

MACHINES = ("cpu-x86", "dsa-sim", "npu-cube", "nvidia-a100", "nvidia-h200")
SIZES = {"M": 21, "N": 75}


def follow(earlier, later):
    (a, x), (c, z) = earlier, later
    return a * c, c * x + z


@task.define(leaf=True)
def tile(Y, A, X, *, axis: int, reverse: bool, exclusive: bool):
    """A scan of a tile."""
    first = (1, 0) if exclusive else None
    factor, found = task.scan(follow, (task.tanh(A), X), axis, reverse, exclusive, first)
    Y[:, :] = factor + found


@task.define
def recurrences(
    Y: task.Tensor["M", "N"], A: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *,
    axis: int = 1, reverse: bool = False, exclusive: bool = False, along: int = 1,
):  # fmt: skip
    """Whole rows or columns, or tiles that are ragged along the axis of the scan."""
    size = task.tunable("block_rows")
    shape = (size, X.shape[1]) if along else (X.shape[0], size)
    Yp, Ap, Xp = (task.partition(x, shape=shape) for x in (Y, A, X))
    for i in task.parallel_range(Yp.shape[1 - along]):
        at = (i, 0) if along else (0, i)
        flags = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
        task.launch(tile, Yp[at], Ap[at], Xp[at], **flags)


def compiled(machine, dtype="float32", sizes=None, way=None, **static):
    mapping = f"extends: {machine}\nmachine: {machine}\ntunables: {{block_rows: 8}}\n"
    mapping = mapping.replace("8}", f"8, scan: {way}}}") if way else mapping
    gpu = machine.startswith("nvidia")
    return septran.compile(
        recurrences, mapping, shapes=sizes or SIZES, dtypes=dtype, static=static, emulate=gpu
    )


@pytest.mark.one_in(12)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("axis", "along"), [(0, 0), (1, 1), (0, 1), (1, 0)])
@pytest.mark.parametrize("way", ["doubled", "stepped"])
@pytest.mark.parametrize(
    ("dtype", "reverse", "exclusive"),
    [
        ("float32", False, False),
        ("float16", True, False),
        pytest.param("float32", True, True, marks=pytest.mark.slow),
        pytest.param("bfloat16", False, True, marks=pytest.mark.slow),
    ],
)
def test_pairs_are_joined_on_every_machine(dtype, reverse, exclusive, way, axis, along, machine):
    flags = {"axis": axis, "along": along, "reverse": reverse, "exclusive": exclusive}
    check = compiled(machine, dtype, way=way, **flags).check()
    assert check.right, str(check)


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 0), (0, 3), (2, 16), (9, 2)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.one_in(3)
def test_short_axes_are_joined(sizes, axis, machine):
    kernel = compiled(machine, sizes=dict(zip("MN", sizes, strict=True)), axis=axis)
    assert kernel.check().right


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
@pytest.mark.parametrize("reverse", [False, True])
def test_one_kernel_is_for_any_number_of_steps(reverse, machine):
    random = np.random.default_rng(0)
    kernel = septran.compile(
        "linear_recurrence", machine, static={"reverse": reverse}, dynamic={"T": (1, 100)}
    )
    for steps in (1, 31, 64, 65, 100):
        a, x = (random.uniform(-1, 1, (2, steps, 20)).astype("float32") for _ in range(2))
        check = kernel.check(a, x)
        assert check.right, str(check)


@task.define(leaf=True)
def before_tile(Y, X, *, highest: float):
    Y[:, :] = task.scan(task.minimum, X, axis=1, exclusive=True, identity=highest)


@task.define
def before(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, highest: float):
    for _ in task.parallel_range(1):
        task.launch(before_tile, Y, X, highest=highest)


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
def test_an_exclusive_scan_begins_with_a_scalar_of_the_logic(machine):
    kernel = septran.compile(before, machine, shapes=SIZES)
    x = np.random.default_rng(0).standard_normal((21, 75)).astype("float32")
    found = kernel(x, highest=3.5)
    np.testing.assert_array_equal(found[:, 0], np.full(21, 3.5, "float32"))
    np.testing.assert_array_equal(found[:, 1:], np.minimum.accumulate(x, 1)[:, :-1])
