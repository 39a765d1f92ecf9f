"""Tensor expressions: every function on every dtype, by the reference and by compiled code."""

import numpy as np
import pytest

import septran
from septran import task
from septran.dtypes import compute_dtype, numpy_dtype, promote
from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.ir.views import View
from septran.task.frontend import functions

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "uint32")
SIZE = 37
"""Not a multiple of any vector."""

REAL = {
    "exp": np.exp, "exp2": np.exp2, "sqrt": lambda x: np.sqrt(np.abs(x)), "tanh": np.tanh,
    "log": lambda x: np.log(np.abs(x)), "log2": lambda x: np.log2(np.abs(x)), "sin": np.sin,
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "abs": np.abs, "cos": np.cos,
    "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x)), "erf": None,
    "gelu": None,
}  # fmt: skip
POSITIVE = ("sqrt", "log", "log2", "rsqrt")


def numbers(dtype, size=SIZE, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(size) < 0.5
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        found = rng.integers(max(info.min, -99), min(info.max, 99), size, endpoint=True)
        found.flat[:2] = info.min, info.max
        return found.astype(dtype)
    return (3 * rng.standard_normal(size)).astype(numpy_dtype(dtype))


def rows(*values):
    """A leaf whose row n of Y is the value of ``values[n]`` at X and Z."""

    @task.define(leaf=True)
    def leaf(Y, X, Z):
        for n, value in enumerate(values):
            Y[n, :] = value(X, Z)

    return leaf


def logic(dtype, *values):
    """The leaf on vectors of `dtype`."""
    leaf = rows(*values)

    @task.define
    def entry(Y: task.Out[len(values), "N", dtype], X: task.In["N"], Z: task.In["N"]):
        task.launch(leaf, Y, X, Z)

    return entry


def test_the_list_is_all_of_the_language():
    named = {n for n in functions.__all__ if n not in ("max", "min", "sum", "where")}
    assert named - set(REAL) == {"equal", "floor_divide", "maximum", "minimum", "power"}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.one_in(2, first=1)
def test_functions_of_a_real(dtype, on_cpu):
    def call(name):
        f = getattr(task, name)
        return lambda x, z: f(task.abs(x)) if name in POSITIVE else f(x)

    x = numbers(dtype)
    found = on_cpu(logic(dtype, *map(call, REAL)), x, x)
    wide = x.astype("float64")
    for row, (name, plain) in zip(found, REAL.items(), strict=True):
        if plain is not None:
            wanted = plain(wide)
            gap = np.abs(row.astype("float64") - wanted)
            step = 2.0 ** {"float64": -50, "float32": -21, "float16": -10, "bfloat16": -7}[dtype]
            assert (gap <= step * np.maximum(np.abs(wanted), 1)).all(), name


def test_error_function_and_gelu_are_torchs():
    torch = pytest.importorskip("torch")
    x = numbers("float64")
    run = task.run(logic("float64", lambda x, z: task.erf(x), lambda x, z: task.gelu(x)), x, x)
    t = torch.from_numpy(x)
    assert np.allclose(run[0], torch.erf(t), rtol=0, atol=2.0**-50)
    assert np.allclose(run[1], torch.nn.functional.gelu(t), rtol=0, atol=2.0**-48)


ARITHMETIC = {
    "+": lambda x, z: x + z, "-": lambda x, z: x - z, "*": lambda x, z: x * z,
    "//": lambda x, z: x // z, "%": lambda x, z: x % z, "max": np.maximum, "min": np.minimum,
    "<": lambda x, z: x < z, "<=": lambda x, z: x <= z, ">": lambda x, z: x > z,
    ">=": lambda x, z: x >= z, "==": lambda x, z: x == z, "!=": lambda x, z: x != z,
    "-x": lambda x, z: -x, "x + 1": lambda x, z: x + 1, "2 - x": lambda x, z: 2 - x,
    "3 * x": lambda x, z: 3 * x, "7 // z": lambda x, z: 7 // z, "7 % z": lambda x, z: 7 % z,
    "abs": lambda x, z: abs(x),
}  # fmt: skip
BITS = {
    "&": lambda x, z: x & z, "|": lambda x, z: x | z, "^": lambda x, z: x ^ z,
    "<<": lambda x, z: x << (z & 3), ">>": lambda x, z: x >> (z & 3), "~": lambda x, z: ~x,
    "1 | x": lambda x, z: 1 | x, "x & 5": lambda x, z: x & 5, "64 >> z": lambda x, z: 64 >> (z & 7),
}  # fmt: skip


def as_task(name, value):
    named = {"max": task.maximum, "min": task.minimum}
    return named.get(name, value)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.one_in(5)
def test_integers_are_numpys(dtype, on_cpu):
    """Wrapping, rounding down and all, also where a divisor is zero."""
    x, z = numbers(dtype), numbers(dtype, seed=1)
    z[5:8] = 0
    every = ARITHMETIC | BITS
    if dtype.startswith("u"):
        del every["-x"]  # see below
    found = on_cpu(logic(dtype, *(as_task(*item) for item in every.items())), x, z)
    with np.errstate(all="ignore"):
        for row, (name, value) in zip(found, every.items(), strict=True):
            assert np.array_equal(row, value(x, z).astype(dtype)), name


def test_powers_of_integers(on_cpu):
    x, z = numbers("int32"), (numbers("int32", seed=1) % 5).astype("int32")
    found = on_cpu(logic("int32", lambda x, z: x**z, lambda x, z: task.power(x, 2)), x, z)
    assert np.array_equal(found, [x**z, x**2])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.one_in(3)
def test_reals_are_numpys_in_the_compute_dtype(dtype, on_cpu):
    x, z = numbers(dtype), numbers(dtype, seed=1)
    every = {n: v for n, v in ARITHMETIC.items()} | {
        "/": lambda x, z: x / z, "1 / x": lambda x, z: 1 / x, "**": lambda x, z: abs(x) ** 2,
    }  # fmt: skip
    found = on_cpu(logic(dtype, *(as_task(*item) for item in every.items())), x, z)
    a, b = (v.astype(compute_dtype(dtype)) for v in (x, z))
    for row, (name, value) in zip(found, every.items(), strict=True):
        if name in ("//", "7 // z", "%", "7 % z"):
            continue  # compared with the bound only: at a jump either side is right
        assert np.array_equal(row, value(a, b).astype(row.dtype)), name


def test_bools(on_cpu):
    x, z = numbers("bool"), numbers("bool", seed=1)
    values = (
        lambda x, z: x & z, lambda x, z: x | z, lambda x, z: x ^ z, lambda x, z: ~x,
        lambda x, z: task.where(x, z, False),
    )  # fmt: skip
    found = on_cpu(logic("bool", *values), x, z)
    assert np.array_equal(found, [x & z, x | z, x ^ z, ~x, x & z])


def test_bools_are_compared(on_cpu):
    x, z = numbers("bool"), numbers("bool", seed=1)
    values = [lambda x, z: x == z, lambda x, z: x < z, lambda x, z: x != z]
    assert np.array_equal(on_cpu(logic("bool", *values), x, z), [x == z, x < z, x != z])


def test_unsigned_integers_are_negated(on_cpu):
    x = numbers("uint8")
    assert np.array_equal(on_cpu(logic("uint8", lambda x, z: -x), x, x)[0], -x)


def test_a_real_divided_by_zero_and_rounded_down_is_infinite(on_cpu):
    x, z = np.array([1, -1], "float32"), np.zeros(2, "float32")
    kernel = septran.compile(logic("float32", lambda x, z: x // z))
    assert np.array_equal(kernel(x, z)[0], [np.inf, -np.inf])


def test_a_number_makes_a_bool_a_number(on_cpu):
    """As in NumPy ``True + 1`` is 2."""
    x = numbers("int32")
    values = [lambda x, z: (x > 0) + 1, lambda x, z: (x > 0) * 5, lambda x, z: 3 - (x > z)]
    found = on_cpu(logic("int32", *values), x, np.zeros_like(x))
    assert np.array_equal(found, [(x > 0) + 1, (x > 0) * 5, 3 - (x > 0)])


def test_where_masks_broadcasting_and_python_scalars(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, X, b):
        seen = task.index(X, 0)[:, None] >= task.index(X, 1)[None, :]
        Y[:, :] = task.where(seen & (X != 0.5), X * b[None, :] + 2, -task.inf)

    @task.define
    def entry(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], b: task.Tensor["N"]):
        Yp, Xp = task.partition(Y, shape=(4, 3)), task.partition(X, shape=(4, 3))
        bp = task.partition(b, shape=3)
        for i, j in task.parallel_range(Yp.shape):
            task.launch(leaf, Yp[i, j], Xp[i, j], bp[j])

    x = np.random.default_rng(0).standard_normal((10, 8)).astype("float32")
    b = np.arange(8, dtype="float32")
    found = on_cpu(entry, x, b)
    assert np.array_equal(found == -np.inf, ~np.tri(10, 8, dtype=bool))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "bool"])
@pytest.mark.one_in(2)
def test_reductions(dtype, on_cpu):
    @task.define(leaf=True)
    def leaf(S, A, B, X):
        S[:] = task.sum(X, axis=1)
        A[:] = task.max(X, axis=-1)
        B[:, :] = task.min(X, axis=0, keepdims=True)

    wide = task.accumulator_dtype(dtype)

    @task.define
    def entry(
        S: task.Out["M", wide], A: task.Out["M", dtype], B: task.Out[1, "N", dtype],
        X: task.In["M", "N", dtype],
    ):  # fmt: skip
        task.launch(leaf, S, A, B, X)

    x = numbers(dtype, (5, 33))
    s, a, b = on_cpu(entry, x)
    assert np.array_equal(a, x.max(1))
    assert np.array_equal(b, x.min(0, keepdims=True))
    if dtype in INTEGERS:
        assert np.array_equal(s, x.sum(1, dtype=wide))


def test_all_elements_are_reduced_without_an_axis_and_nan_is_kept(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, X):
        Y[0:1] = task.max(X)[None]
        Y[1:2] = task.sum(X)[None]

    @task.define
    def entry(Y: task.Tensor[2], X: task.Tensor["M", "N"]):
        task.launch(leaf, Y, X)

    x = numbers("float32", (4, 9))
    assert on_cpu(entry, x)[0] == x.max()
    x[2, 5] = np.nan
    assert np.isnan(on_cpu(entry, x)).all()


def test_empty_reductions_have_a_value():
    @task.define(leaf=True)
    def leaf(S, A, B, X):
        S[:] = task.sum(X, axis=1)
        A[:] = task.max(X, axis=1)
        B[:] = task.min(X, axis=1)

    @task.define
    def entry(S: task.Out["M"], A: task.Out["M"], B: task.Out["M"], X: task.In["M", "N"]):
        task.launch(leaf, S, A, B, X)

    for kind, least, most in (("float32", -np.inf, np.inf), ("int32", -(2**31), 2**31 - 1)):
        s, a, b = task.run(entry, np.zeros((3, 0), kind))
        assert (s.tolist(), a.tolist(), b.tolist()) == ([0] * 3, [least] * 3, [most] * 3)


def test_casts_round_once(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, Z, X):
        Y[:] = X.astype("float16").astype("float32") * 3
        Z[:] = task.round(X).astype("int32") << 1

    @task.define
    def entry(Y: task.Tensor["N"], Z: task.Tensor["N", task.int32], X: task.Tensor["N"]):
        task.launch(leaf, Y, Z, X)

    x = numbers("float32")
    y, i = on_cpu(entry, x)
    assert np.array_equal(y, x.astype("float16").astype("float32") * 3)
    assert np.array_equal(i, np.rint(x).astype("int32") << 1)


def load(name, *shape, dtype="float32"):
    return ex.Load(View.whole(name, shape), dtype)


def test_results_have_numpys_types():
    kinds = ("int8", "int32", "uint8", "float32", "float64", "bool")
    for a in kinds:
        for b in kinds:
            found = ex.binary("add", load("A", 3, dtype=a), load("B", 3, dtype=b)).dtype
            if "float32" in (a, b) and "int32" in (a, b):
                assert found == "float32"  # as torch
            else:
                assert found == np.result_type(a, b).name
    integers = load("A", 3, dtype="int32")
    assert ex.binary("divide", integers, ex.Constant(2, "int32")).dtype == "float32"
    assert ex.unary("exp", load("A", 3, dtype="int32")).dtype == "float32"
    assert ex.reduce("sum", load("A", 3, dtype="int8"), 0).dtype == "int32"
    assert promote("float16", "bfloat16") == "float32"


def test_trees_are_walked_and_rebuilt():
    a, b = load("A", 4, 3), load("B", 3)
    whole = ex.reduce("max", ex.select(ex.binary("less", a, b), ex.Cast(a, "float64"), b), 1)
    assert ex.loads(whole) == (a.view, b.view)
    assert [type(n).__name__ for n in ex.walk(whole)][-1] == "Reduce"
    swapped = ex.map_leaves(whole, lambda n: b if n == a else a)
    assert ex.loads(swapped) == (b.view, a.view)
    assert ex.map_leaves(whole, lambda n: n) == whole
    assert ex.expand(b, (0, 2)).shape == (1, 3, 1)
    assert ex.broadcast(a, b) == ((4, 3), (Index.of(4), Index.of(3)))
    with pytest.raises(ex.ShapeMismatchError, match=r"\(4, 3\) and \(4\) do not broadcast"):
        ex.broadcast(a, load("C", 4))
    with pytest.raises(IndexError, match="axis 2 of an expression with 2 axes"):
        ex.reduce("sum", a, 2)
