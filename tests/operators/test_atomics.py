"""Parts of a sum that parallel iterations add in whatever order they come, where a mapping asks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import septran
from septran import task
from septran.errors import TileError
from septran.mapping.mistakes import NoBindingError
from septran.runtime.accuracy import compare, error_bounds
from septran.task.errors import RaceError, TunableError
from septran.tile.nodes import Compute, rewrite

ATOMIC = {"reduction": "atomic"}
MACHINES = (
    "cpu-x86", pytest.param("nvidia-a100", marks=pytest.mark.slow),
    "nvidia-h200",
)  # fmt: skip
OTHERS = (
    "cpu-x86", pytest.param("nvidia-a100", marks=pytest.mark.slow), "nvidia-h200",
    pytest.param("amd-mi300x", marks=pytest.mark.slow), pytest.param("opencl-generic"),
)  # fmt: skip


@task.define(leaf=True)
def some_rows(part, X):
    """The sum of some rows."""
    part[:] = task.sum(X, axis=0)


@task.define
def columns(Y: task.InOut["N"], X: task.In["M", "N"], *, function: str = "sum"):
    """What the caller's Y holds, and all rows."""
    Xp = task.partition(X, shape=(4, X.shape[1]))
    for i in task.parallel_range(Xp.shape[0]):
        part = task.empty(Y.shape, task.accumulator_dtype(X.dtype), name="part")
        task.launch(some_rows, part, Xp[i, 0])
        task.reduce_into(Y, part, function)


@task.define
def rows_of_an_index(W: task.Out["V", "D"], G: task.In["T", "D"], index: task.In["T", task.int64]):
    """The rows of G, all at once, each added to the row of W that the index says."""
    task.fill(W, 0)
    for t in task.parallel_range(G.shape[0]):
        task.reduce_into(W[index[t]], G[t])


def compiled(logic, machine, sizes, dtype="float32", **static):
    return septran.compile(
        logic, machine, shapes=sizes, dtypes=dtype, static=static, tunables=ATOMIC,
        emulate=machine.startswith(("nvidia", "amd")),
    )  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_no_part_is_lost_and_there_is_no_workspace(machine):
    kernel = compiled(columns, machine, {"M": 22, "N": 70})
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, s).astype("float32") for s in ((22, 70), (70,)))
    wanted = y + x.sum(axis=0)
    kernel(x, out=y)
    np.testing.assert_array_equal(y, wanted)
    program = kernel.stages.tile_program
    assert not any("parts" in buffer.name for buffer in program.buffers)
    assert kernel.check().right
    for order in ("early", "late", 1):
        found = septran.interpret(program, {"X": x, "Y": np.zeros_like(y)}, order=order)
        np.testing.assert_array_equal(found["Y"], x.sum(axis=0))


@pytest.mark.parametrize("machine", MACHINES)
def test_rows_that_an_index_chooses_are_added_at_one_time(machine):
    kernel = compiled(rows_of_an_index, machine, {"V": 5, "D": 40, "T": 30})
    rng = np.random.default_rng(0)
    rows, index = rng.integers(-3, 4, (30, 40)).astype("float32"), rng.integers(0, 4, 30)
    wanted = np.zeros((5, 40), "float32")
    np.add.at(wanted, index, rows)
    np.testing.assert_array_equal(kernel(rows, index), wanted)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_threads_that_add_to_the_same_elements_lose_nothing(dtype):
    kernel = compiled(columns, "cpu-x86", {"M": 4000, "N": 300}, dtype)
    x = np.random.default_rng(0).integers(-9, 9, (4000, 300)).astype(dtype)
    for _ in range(5):
        y = np.ones(300, dtype)
        kernel(x, out=y)
        np.testing.assert_array_equal(y, 1 + x.sum(axis=0))


def test_the_bound_is_for_any_order_and_no_wider():
    """1 is lost beside 1e8 in one order and not in another; 1e7 is lost in none."""
    tree = task.trace(columns, {"Y": (1,), "X": (12, 1)}, chooser=_Atomic())
    x = np.zeros((12, 1), "float32")
    x[::4, 0] = 1e8, 1, -1e8
    (expected,) = error_bounds(tree, {"X": x, "Y": np.zeros(1, "float32")}).values()
    for value, right in ((0.0, True), (1.0, True), (1e7, False)):
        assert compare("Y", np.array([value], "float32"), expected).right is right
    exact = error_bounds(tree, {"X": np.ones((12, 1), "float32"), "Y": np.zeros(1, "float32")})
    assert not compare("Y", np.array([8.0], "float32"), exact["Y"]).right  # a part is missing


class _Atomic(task.DefaultChooser):
    def tunable(self, site, name, default, location):
        return "atomic" if name == "reduction" else super().tunable(site, name, default, location)


def test_a_plain_addition_in_its_place_is_a_race():
    program = compiled(columns, "cpu-x86", {"M": 22, "N": 70}).stages.tile_program

    def plain(node):
        if isinstance(node, Compute) and node.primitive == "accumulate":
            return (replace(node, primitive="copy", accumulates=False, instruction="vector"),)
        return (node,)

    with pytest.raises(TileError, match="parallel iterations of i write the same elements"):
        septran.verify(replace(program, body=rewrite(program.body, plain)))


@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
def test_a_machine_without_atomic_additions_refuses_them(machine):
    with pytest.raises(NoBindingError, match="no instruction accepts accumulate") as caught:
        compiled(columns, machine, {"M": 22, "N": 70})
    text = str(caught.value)
    assert "test_atomics.py" in text
    assert "`tunables: {reduction: ordered}`" in text


def test_a_type_that_no_atomic_addition_has_is_refused():
    with pytest.raises(NoBindingError, match="operands are float16, float32; it takes float32"):
        compiled(columns, "cpu-x86", {"M": 22, "N": 70}, "float16")


@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("machine", OTHERS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_extremes_are_joined_at_one_time(machine, function, dtype):
    kernel = compiled(columns, machine, {"M": 22, "N": 70}, dtype, function=function)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-90, 90, s).astype(dtype) for s in ((22, 70), (70,)))
    parts = np.stack([x[n : n + 4].sum(axis=0) for n in range(0, 22, 4)])
    pick = np.maximum if function == "max" else np.minimum
    wanted = pick(y, pick.reduce(parts))
    assert kernel.check().right
    kernel(x, out=y)
    np.testing.assert_array_equal(y, wanted)
    program = kernel.stages.tile_program
    assert not any("parts" in buffer.name for buffer in program.buffers)


@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("machine", OTHERS)
def test_nan_is_the_extreme_wherever_it_is(machine, function):
    """Of either sign, in what is there before or in a part; infinities and zeros are numbers."""
    kernel = compiled(columns, machine, {"M": 12, "N": 8}, function=function)
    x, y = np.zeros((12, 8), "float32"), np.zeros(8, "float32")
    nan = np.float32(np.nan)
    y[:] = [nan, -nan, 0, 0, 0, -1, -np.inf, np.inf]
    x[3, 2], x[11, 3], x[5, 4], x[6, 7] = nan, -nan, np.inf, -np.inf
    x[:, 5] = -3
    parts = np.stack([x[n : n + 4].sum(axis=0) for n in range(0, 12, 4)])
    pick = np.maximum if function == "max" else np.minimum
    wanted = pick(y, pick.reduce(parts))
    assert np.isnan(wanted).sum() == 4
    found = septran.interpret(kernel.stages.tile_program, {"X": x, "Y": y.copy()})["Y"]
    np.testing.assert_array_equal(found, wanted)
    kernel(x, out=y)
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("function", ["max", "min", "sum"])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_threads_that_join_to_the_same_elements_lose_nothing(function, dtype):
    kernel = compiled(columns, "cpu-x86", {"M": 4000, "N": 300}, dtype, function=function)
    reach = 2**40 if dtype == "int64" else 2**11  # of which float32 has each sum
    x = np.random.default_rng(0).integers(-reach, reach, (4000, 300)).astype(dtype)
    parts = x.reshape(1000, 4, 300).sum(axis=1)
    reduce = {"max": np.max, "min": np.min, "sum": np.sum}[function]
    for _ in range(5):
        y = np.ones(300, dtype)
        kernel(x, out=y)
        np.testing.assert_array_equal(y, reduce(np.vstack([np.ones((1, 300), dtype), parts]), 0))


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("held @BEYOND@ value ||", "true ||"),
        ("|| held != held", ""),
        ("seen, wanted", "seen, seen"),
    ],
    ids=["gives up", "NaN is lost", "nothing is written"],
)
def test_a_mistake_in_an_exchange_is_found(monkeypatch, said, instead):
    from septran.targets.cuda.text import atomics

    text = atomics._EXTREME
    assert text.count(said) == 1
    monkeypatch.setattr(atomics, "_EXTREME", text.replace(said, instead))
    kernel = compiled(columns, "nvidia-a100", {"M": 22, "N": 70}, function="max")
    x, y = np.ones((22, 70), "float32"), np.zeros(70, "float32")
    y[7] = np.nan
    exact = np.maximum(y, 4.0)
    kernel(x, out=y)
    assert not np.array_equal(y, exact, equal_nan=True)


def test_two_ways_to_join_parts_to_one_tensor_have_an_order():
    @task.define
    def both(Y: task.InOut["N"], X: task.In["M", "N"]):
        for i in task.parallel_range(X.shape[0]):
            task.reduce_into(Y, X[i], "sum")
            task.reduce_into(Y, X[i], "max")

    with pytest.raises(RaceError):
        compiled(both, "cpu-x86", {"M": 22, "N": 70}, "int32")


def test_another_word_is_refused():
    with pytest.raises(TunableError, match="reduction is 'tree', not ordered or atomic"):
        septran.explain(
            columns, "cpu-x86", shapes={"M": 22, "N": 70}, tunables={"reduction": "tree"}
        )
