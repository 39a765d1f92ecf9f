"""Positions in 32 bits on the CPU: where they are proven to fit, and nowhere else."""

from __future__ import annotations

import re

import numpy as np
import pytest

import septran
from septran import task
from septran.ir import expressions as ex
from septran.ir.index import Index, Var
from septran.ir.views import View
from septran.targets.cpu.map.narrowing import narrowed
from septran.targets.cpu.map.value_range import Spans, fits, limits
from septran.targets.lower.statements import Statement
from septran.tile.nodes import Buffer, Region

LOOP = Var("i")
RANGES = {LOOP: (0, 7)}
"""Of a loop of eight iterations."""
LARGEST = 2**31 - 1


def region(name, *shape):
    whole = View.whole(name, shape)
    return Region(name, whole.index, whole.shape, whole.valid)


def position(extent, start=0):
    """Where the elements of one of eight parts of a tensor lie."""
    entry = Index.of(Var("$0")) + Index.of(LOOP) * start
    return ex.Position(Region("X", (entry,), (extent,), (Index.of(extent),)), 0)


def number(value):
    return ex.Constant(value, "int64")


def load(name, dtype, *shape):
    return ex.Load(region(name, *shape), dtype)


def span(expr):
    return Spans(RANGES, {}).of(expr)


def short(expr, function=None):
    """The type that the value of a single statement gets."""
    shape = expr.shape[:-1] if function else expr.shape
    statement = Statement(region("Y", *shape), expr, function, len(expr.shape) - 1)
    (found,), _ = narrowed([statement], {}, RANGES)
    return found.value.dtype


P = position(512)
X = load("X", "float32", 512)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (P, (0, 511)),
        (position(512, start=512), (0, 8 * 512 - 1)),
        (ex.IndexValue(Index.of(LOOP) * 3 - 1), (-1, 20)),
        (ex.IndexValue(Index.of(Var("unknown"))), limits("int64")),
        (ex.binary("add", P, number(5)), (5, 516)),
        (ex.binary("subtract", number(5), P), (-506, 5)),
        (ex.binary("multiply", P, number(-3)), (-1533, 0)),
        (ex.binary("multiply", P, number(2**60)), limits("int64")),  # wraps
        (ex.binary("floor_divide", P, number(7)), (0, 73)),
        (ex.binary("floor_divide", P, number(-7)), limits("int64")),
        (ex.binary("floor_divide", ex.unary("neg", P), number(2)), (-256, 0)),
        (ex.binary("remainder", P, number(7)), (0, 6)),
        (ex.binary("remainder", ex.unary("neg", P), number(7)), (0, 6)),
        (ex.binary("remainder", P, number(1000)), (0, 511)),
        (ex.binary("minimum", P, number(7)), (0, 7)),
        (ex.binary("maximum", P, number(7)), (7, 511)),
        (ex.binary("left_shift", P, number(1)), limits("int64")),
        (ex.binary("and", P, number(15)), (0, 15)),
        (ex.binary("and", P, number(-2)), (0, 511)),
        (ex.binary("and", ex.unary("neg", P), number(-2)), limits("int64")),
        (ex.binary("or", P, number(512)), (0, 1023)),
        (ex.binary("xor", P, number(-1)), limits("int64")),
        (ex.binary("right_shift", P, number(4)), (0, 31)),
        (ex.binary("right_shift", ex.unary("neg", P), number(4)), (-32, 0)),
        (ex.binary("right_shift", P, number(100)), (0, 0)),
        (ex.binary("right_shift", P, number(-1)), limits("int64")),
        (ex.unary("neg", P), (-511, 0)),
        (ex.unary("abs", ex.binary("subtract", P, number(500))), (0, 500)),
        (ex.unary("invert", P), (-512, -1)),
        (ex.binary("less", P, number(3)), (0, 1)),
        (ex.select(ex.binary("less", X, X), P, number(-1)), (-1, 511)),
        (ex.Cast(P, "int8"), limits("int8")),
        (ex.Cast(X, "int64"), limits("int64")),
        (ex.Cast(ex.Constant(2.0, "float32"), "int64"), (2, 2)),
        (ex.Cast(ex.Constant(float("inf"), "float32"), "int64"), limits("int64")),
        (ex.Cast(load("B", "uint8", 512), "int64"), (0, 255)),
        (ex.expand(P, (0,)), (0, 511)),
        (load("N", "int64", 512), limits("int64")),
    ],
    ids=str,
)  # fmt: skip
def test_span(expr, expected):
    assert span(expr) == expected


def test_spans_hold_what_numpy_computes():
    """Each function at the corners of small spans, and in between."""
    small = [ex.binary("add", position(n), number(s)) for n, s in ((4, -2), (3, 1), (1, -3))]
    numbers = {id(e): np.arange(span(e)[0], span(e)[1] + 1) for e in small}
    operations = {
        "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
        "floor_divide": np.floor_divide, "remainder": np.remainder,
        "maximum": np.maximum, "minimum": np.minimum, "and": np.bitwise_and,
        "or": np.bitwise_or, "xor": np.bitwise_xor,
    }  # fmt: skip
    for function, operation in operations.items():
        for x in small:
            for y in small:
                a, b = numbers[id(x)][:, None], numbers[id(y)][None, :]
                with np.errstate(all="ignore"):
                    values = operation(a, b)
                low, high = span(ex.Binary(function, x, y, (), (), "int64"))
                assert low <= values.min(), function
                assert values.max() <= high, function


def test_constants_take_part():
    condition = ex.binary("less", X, ex.Constant(0.0, "float32"))
    assert short(ex.select(condition, P, number(LARGEST))) == "int32"
    assert short(ex.select(condition, P, number(-(2**31)))) == "int32"
    assert short(ex.select(condition, P, number(LARGEST + 1))) == "int64"
    assert short(ex.select(condition, P, number(-(2**31) - 1))) == "int64"


def test_long_extents_stay_wide():
    assert short(position(2**31)) == "int32"  # up to 2**31 - 1
    assert short(position(2**31 + 1)) == "int64"
    assert short(position(2**28, start=2**28)) == "int32"
    assert short(position(2**28, start=2**28 + 1)) == "int64"  # only the last of eight parts


def test_what_a_value_is_computed_from_must_fit():
    wide = number(2**40)
    assert span(ex.binary("minimum", P, wide)) == (0, 511)
    assert short(ex.binary("minimum", P, wide)) == "int64"
    assert short(ex.binary("remainder", ex.binary("multiply", P, wide), number(3))) == "int64"


def test_products_may_leave():
    assert short(ex.binary("multiply", P, P)) == "int32"
    assert short(ex.binary("multiply", position(2**16), position(2**16))) == "int64"


def test_tensors_of_the_caller_are_unknown():
    stored = load("N", "int64", 512)
    assert short(stored) == "int64"
    assert short(ex.binary("add", P, stored)) == "int64"
    assert short(ex.binary("add", P, load("N", "int32", 512))) == "int64"
    assert short(ex.binary("add", P, load("N", "int16", 512))) == "int32"
    assert short(ex.binary("add", P, load("N", "uint32", 512))) == "int64"


def test_a_wide_part_leaves_others_short():
    value = ex.binary("add", ex.binary("add", P, number(1)), load("N", "int64", 512))
    (found,), _ = narrowed([Statement(region("Y", 512), value)], {}, RANGES)
    assert (found.value.dtype, found.value.left.dtype) == ("int64", "int32")
    assert found.value.right == value.right


def test_nothing_changes_without_wide_integers():
    run = [Statement(region("Y", 512), ex.binary("add", X, X))]
    assert narrowed(run, {}, RANGES)[0][0] is run[0]


def test_parts_that_are_shared_stay_shared():
    once = ex.binary("add", P, number(1))
    value = ex.binary("multiply", once, once)
    (found,), _ = narrowed([Statement(region("Y", 512), value)], {}, RANGES)
    assert found.value.left is found.value.right


@pytest.mark.parametrize("function", ["sum", "max", "min"])
def test_reductions_fit(function):
    assert short(P, function) == "int32"


def test_sums_may_leave():
    """Bounded by the greatest position times their number: 46341 * 46340 < 2**31."""
    assert short(position(46341), "sum") == "int32"
    assert short(position(46342), "sum") == "int64"
    assert short(position(46342), "max") == "int32"


def test_sums_may_leave_on_the_way():
    """Up and down again, in any order."""
    value = ex.binary("subtract", position(2**17), number(2**16))
    assert span(value) == (-(2**16), 2**16 - 1)
    assert short(value, "sum") == "int64"


@pytest.mark.parametrize("function", ["max", "min"])
def test_nothing_may_be_there_to_reduce(function):
    """The least of nothing is the largest 64-bit integer."""
    for least, expected in ((1, "int32"), (0, "int64")):
        valid = Index.of(LOOP) + least
        view = Region("X", (Index.of(Var("$0")),), (8,), (valid,))
        assert short(ex.Position(view, 0), function) == expected


def private(name, dtype="int64"):
    return {name: Buffer(name, "L1", (512,), dtype, tensor=name)}


def test_buffers_follow_what_they_hold():
    where = region("where", 512)
    run = [
        Statement(where, P),
        Statement(where, ex.binary("add", ex.Load(where, "int64"), number(1))),
        Statement(region("Y", 512), ex.Load(where, "int64")),
    ]
    found, buffers = narrowed(run, private("where"), RANGES)
    assert buffers["where"].dtype == "int32"
    assert [s.value.dtype for s in found] == ["int32", "int32", "int32"]


@pytest.mark.parametrize(
    "value", [number(2**31), load("N", "int64", 512), X, ex.Constant(1e10, "float64")], ids=str
)
def test_one_wide_value_widens_a_buffer(value):
    where = region("where", 512)
    run = [Statement(where, P), Statement(where, value)]
    _, buffers = narrowed(run, private("where"), RANGES)
    assert buffers["where"].dtype == "int64"


def test_growth_is_followed():
    """Doubled until it does not fit: each step is a statement of its own."""
    where = region("where", 512)
    twice = Statement(where, ex.binary("multiply", ex.Load(where, "int64"), number(2)))
    for steps, expected in ((22, "int32"), (23, "int64")):
        run = [Statement(where, P), *[twice] * steps]
        assert narrowed(run, private("where"), RANGES)[1]["where"].dtype == expected
        assert fits((0, 511 * 2**steps), "int32") == (expected == "int32")


def test_fills_are_numbers():
    """A fill says its number as float64, or as a truth value."""
    where = region("where", 512)
    run = [
        Statement(where, ex.Constant(-1, "float64")),
        Statement(region("Y", 512), ex.binary("maximum", ex.Load(where, "int64"), P)),
    ]
    found, buffers = narrowed(run, private("where"), RANGES)
    assert (buffers["where"].dtype, found[1].value.dtype) == ("int32", "int32")


# kernels


def entry(leaf):
    @task.define
    def positions(Y: task.Tensor["M", "N", task.int64], X: task.Tensor["M", "N"]):
        Yp = task.partition(Y, shape=(16, Y.shape[1]))
        Xp = task.partition(X, shape=(16, X.shape[1]))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(leaf, Yp[i, 0], Xp[i, 0])

    return positions


@task.define(leaf=True)
def places(Y, X):
    """Sums, products and quotients of positions."""
    i, j = task.index(Y, 0)[:, None], task.index(Y, 1)[None, :]
    Y[:, :] = task.where(X > 0, (i * 1000 - j) * 3 // 7, (j - i) % 5)


@task.define(leaf=True)
def sentinels(Y, X):
    """Numbers that no position is, short and long."""
    j = task.index(Y, 1)[None, :]
    first = task.empty(X.shape[:1], task.int64, name="first")
    last = task.empty(X.shape[:1], task.int64, name="last")
    none = task.empty(X.shape[:1], task.int64, name="none")
    first[:] = task.min(task.where(X > 0.5, j, 2**31 - 1), axis=1)
    last[:] = task.max(task.where(X > 0.5, j, -1), axis=1)
    none[:] = task.min(task.where(X > 9.0, j, 2**62), axis=1)
    Y[:, :] = task.where(j < first[:, None], first[:, None] + last[:, None], none[:, None])


@task.define(leaf=True)
def far(Y, X):
    """Positions beside numbers that no index is."""
    i, j = task.index(Y, 0)[:, None], task.index(Y, 1)[None, :]
    Y[:, :] = task.where(j < 2**40, i + 2**31, -1) + task.where(j - 2**33 > -(2**33), 1, X.shape[1])


@task.define(leaf=True)
def sums(Y, X):
    """Sums of positions, of which one does not fit."""
    j = task.index(Y, 1)[None, :]
    short = task.empty(X.shape[:1], task.int64, name="short")
    wide = task.empty(X.shape[:1], task.int64, name="wide")
    short[:] = task.sum(task.where(X > 0, j, -j), axis=1)
    wide[:] = task.sum(task.where(X > 0, j * 2**24, 2**30), axis=1)
    Y[:, :] = short[:, None] - wide[:, None] * j


@task.define(leaf=True)
def counts(Y, X):
    """What is read back from a tensor of the caller is wide."""
    Y[:, :] = task.index(Y, 1)[None, :] * 2**20
    Y[:, :] = Y * Y - task.max(Y, axis=1)[:, None]


@pytest.mark.one_in(9)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (33, 40), (20, 131)], ids=str)
@pytest.mark.parametrize("leaf", [places, sentinels, far, sums, counts], ids=lambda t: t.name)
def test_leaf_is_exact(leaf, shape):
    m, n = shape
    kernel = septran.compile(entry(leaf), "cpu-x86")
    x = np.random.default_rng(0).standard_normal((m, n)).astype("float32")
    np.testing.assert_array_equal(kernel(x), kernel.reference(x, dtype=None))


def rows_with_ties_and_nan(m, n):
    """Few different numbers; some rows with NaN, with infinities only, or all the same."""
    rng = np.random.default_rng(1)
    x = rng.integers(-2, 3, (m, n)).astype("float32")
    x[1, n // 2] = x[2, 0] = x[2, n - 1] = np.nan
    x[3], x[4], x[5] = -np.inf, np.inf, 1.0
    x[6, :-1] = -np.inf
    return x


@pytest.mark.parametrize("shape", [(64, 512), (40, 70), (9, 501)], ids=str)
@pytest.mark.one_in(2)
def test_topk_with_ties_and_nan(shape):
    kernel = septran.compile("topk", "cpu-x86", static={"k": 6})
    x = rows_with_ties_and_nan(*shape)
    for found, expected in zip(kernel(x), kernel.reference(x, dtype=None), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_positions_of_topk_are_32_bits_long():
    """In all vectors; the results alone are 64 bits long, one by one."""
    kernel = septran.compile("topk", "cpu-x86", shapes={"M": 64, "N": 512})
    text = str(kernel.stages.tensor_ir)
    assert "int32x32" in text
    assert "int64x" not in text
    assert not re.search(r'alloc_buffer\(.*"int64"', text)
    assert len(re.findall(r'indices_flat\[.*\] = T.Cast\("int64"', text)) == 4


@task.define(leaf=True)
def greatest_of_rows(indices, X):
    """Where the greatest is, straight into the caller's tensor."""
    column = task.index(X, 1)[None, :]
    first = task.where(task.max(X, axis=1)[:, None] == X, column, X.shape[1])
    indices[:] = task.min(first, axis=1)


@task.define
def argmax(indices: task.Tensor["M", task.int64], X: task.Tensor["M", "N"]):
    """Rows in blocks."""
    Ip, Xp = task.partition(indices, shape=(16,)), task.partition(X, shape=(16, X.shape[1]))
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(greatest_of_rows, Ip[i], Xp[i, 0])


def test_a_reduction_widens_its_result_alone():
    kernel = septran.compile(argmax, "cpu-x86")
    x = rows_with_ties_and_nan(40, 70)
    np.testing.assert_array_equal(kernel(x), kernel.reference(x, dtype=None))
    text = str(kernel.stages.tensor_ir)
    assert "int32x32" in text
    assert "int64x" not in text
