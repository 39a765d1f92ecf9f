"""Rows in order, on every machine: values, places, equal elements, NaN."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import septran
from septran import task
from septran.dtypes import numpy_dtype
from septran.runtime import rounding
from septran.task.errors import DtypeError, LaunchArgumentsError, ShapeError
from tests.tiers import slow_but

torch = pytest.importorskip("torch")
GPUS = ("nvidia-a100", "nvidia-h200")
MACHINES = slow_but(
    ["cpu-x86", "dsa-sim", "npu-cube", GPUS[1]], ["cpu-x86", "dsa-sim", "npu-cube", *GPUS]
)


@task.define(leaf=True)
def some_rows(V, P, X, *, descending: bool):
    """Some rows, whole."""
    task.sort(V, P, X, descending=descending)


@task.define
def ordered(
    V: task.Out["M", "K"], P: task.Out["M", "K", task.int64], X: task.In["M", "N"],
    *, K: task.static = 0, descending: bool = False,
):  # fmt: skip
    """Blocks of rows, each on its own."""
    rows = task.tunable("block_rows", 4)
    Vp, Pp, Xp = (task.partition(t, shape=(rows, t.shape[1])) for t in (V, P, X))
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(some_rows, Vp[i, 0], Pp[i, 0], Xp[i, 0], descending=descending)


def rows_with_equals(m, n, dtype="float32"):
    """Few different values, so that many are equal; of floats NaN, infinities and both zeros."""
    rng = np.random.default_rng(0)
    x = rng.integers(0 if dtype.startswith("u") else -3, 4, (m, n)).astype(numpy_dtype(dtype))
    if "float" in dtype:
        odd = np.array([np.nan, np.inf, -np.inf, -0.0, np.nan], x.dtype)
        x[0, :5], x[-1, -5:] = odd, odd
    return x


def by_torch(x, count, descending):
    values, places = torch.sort(torch.from_numpy(x), dim=1, descending=descending, stable=True)
    return values.numpy()[:, :count], places.numpy()[:, :count]


def compiled(machine, m, n, k, dtype="float32", *, descending=False):
    return septran.compile(
        ordered, machine, shapes={"M": m, "N": n}, dtypes=dtype, emulate=machine in GPUS,
        static={"K": k, "descending": descending},
    )  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("elements", "count", "descending"), [(13, 13, False), (13, 4, True), (37, 3, True)]
)
@pytest.mark.one_in(3)
def test_rows_are_in_torchs_stable_order(machine, elements, count, descending):
    kernel = compiled(machine, 6, elements, count, descending=descending)
    x = rows_with_equals(6, elements)
    values, places = kernel(x)
    wanted = by_torch(x, count, descending)
    np.testing.assert_array_equal(places, wanted[1])
    np.testing.assert_array_equal(values, wanted[0])
    check = kernel.check(x)
    assert check.right, str(check)
    for found, of_reference in zip((values, places), kernel.reference(x), strict=True):
        np.testing.assert_array_equal(found, of_reference)


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim", "nvidia-h200"])
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32", "int64", "uint8"])
def test_rows_of_other_types_and_lengths(machine, dtype):
    for (m, n, k), descending in itertools.product(
        [(1, 1, 1), (5, 70, 70), (5, 70, 3)], (False, True)
    ):
        kernel = compiled(machine, m, n, k, dtype, descending=descending)
        x = rows_with_equals(m, max(n, 5), dtype)[:, :n]
        values, places = kernel(np.ascontiguousarray(x))
        wanted = by_torch(np.ascontiguousarray(x), k, descending)
        np.testing.assert_array_equal(values, wanted[0])
        np.testing.assert_array_equal(places, wanted[1])


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(("elements", "count"), [(6, 6), (40, 3)])
def test_the_least_numbers_are_found_among_themselves(dtype, elements, count):
    x = np.full((4, elements), -np.inf if dtype == "float32" else np.iinfo(dtype).min, dtype)
    values, places = compiled("cpu-x86", 4, elements, count, dtype, descending=elements > count)(x)
    np.testing.assert_array_equal(values, x[:, :count])
    np.testing.assert_array_equal(places, np.tile(np.arange(count), (4, 1)))


def test_nothing_but_nan_is_found_in_order():
    x = np.full((4, 40), np.nan, np.float32)
    values, places = compiled("cpu-x86", 4, 40, 3, descending=True)(x)
    assert np.isnan(values).all()
    np.testing.assert_array_equal(places, np.tile(np.arange(3), (4, 1)))


@pytest.mark.parametrize(("error", "unknown"), [(0.75, False), (1.0, True), (1.5, True)])
def test_inexact_rows_have_values_as_inexact_and_the_places_that_none_can_take(error, unknown):
    x = rounding.Bounded(np.array([[3.0, 1.0, 2.0]]), np.array([[0.0, error, 0.0]]), "float32")
    values = rounding.sort(x, 2, descending=True)
    np.testing.assert_array_equal(values.value, [[3, 2]])
    np.testing.assert_array_equal(values.error, [[error, error]])
    places = rounding.argsort(x, 2, descending=True)
    np.testing.assert_array_equal(places.value, [[0, 2]])
    np.testing.assert_array_equal(np.isinf(places.error), [[False, unknown]])
    sure = rounding.argsort(rounding.exact(x.value), 2, descending=True)
    np.testing.assert_array_equal(sure.value, [[0, 2]])
    assert not sure.error.any()


def test_values_and_places_share_the_comparisons():
    program = compiled("cpu-x86", 6, 13, 13).stages.tile_program
    assert str(program).count("in range(13)") == 3  # ranks, values, places


def test_the_greatest_few_of_many_are_found_one_after_another():
    """Comparing all with each took a CPU thirteen times as long for 2 of 64."""
    program = str(compiled("cpu-x86", 6, 64, 2, descending=True).stages.tile_program)
    assert "in range(64)" not in program
    assert program.count("in range(2)") == 1
    many = str(compiled("cpu-x86", 6, 64, 40, descending=True).stages.tile_program)
    assert "in range(64)" in many


def traced(function, types=("float32", "int64", "float32"), shapes=((4, 8), (4, 8), (4, 8))):
    @task.define(leaf=True)
    def tile(V, P, X):
        function(V, P, X)

    names = ("V", "P", "X")
    return task.trace(
        tile, dict(zip(names, shapes, strict=True)), dict(zip(names, types, strict=True))
    )


@pytest.mark.parametrize(
    ("types", "words"),
    [
        (("float16", "int64", "float32"), "sort: Y float16, X float32"),
        (("float32", "float32", "float32"), "argsort: I float32"),
    ],
)
def test_results_of_other_types_are_refused(types, words):
    with pytest.raises(DtypeError, match=words):
        traced(task.sort, types)


def test_results_longer_than_rows_are_refused():
    with pytest.raises(ShapeError, match="longer than X"):
        traced(task.topk, shapes=((4, 9), (4, 9), (4, 8)))


def test_sorting_in_place_is_refused():
    with pytest.raises(LaunchArgumentsError, match="sort writes X while it reads it"):
        traced(lambda V, P, X: (task.copy(V, X), task.sort(X, P, X)))
