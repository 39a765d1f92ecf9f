"""The oracle: right kernels are within the bound, wrong ones are not."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.dtypes import numpy_dtype
from septran.ir.views import View
from septran.runtime.accuracy import NoBoundError, _Tensor, compare, error_bounds
from septran.runtime.rounding import Bounded, exact
from septran.task.trace.chooser import DefaultChooser


@task.define(leaf=True)
def gemm_tile(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def gemm(C, A, B):
    block_k = task.tunable("block_K")
    Ap = task.partition(A, shape=(A.shape[0], block_k))
    Bp = task.partition(B, shape=(block_k, B.shape[1]))
    task.fill(C, 0)
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(gemm_tile, C, Ap[0, k], Bp[k, 0])


@task.define(leaf=True)
def softmax_rows(Y, X):
    shifted = task.exp(X - task.max(X, axis=1)[:, None])
    Y[:, :] = shifted / task.sum(shifted, axis=1)[:, None]


def traced(logic, dtypes=None, tunables=None, **shapes):
    return task.trace(logic, shapes, dtypes, DefaultChooser(tunables or {}))


def gemm_case(k=100, dtype="float32", seed=0, m=13, n=17):
    tree = traced(gemm, dict.fromkeys("CAB", dtype), {"block_K": 16}, C=(m, n), A=(m, k), B=(k, n))
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal(s).astype(numpy_dtype(dtype)) for s in ((m, k), (k, n)))
    return tree, {"A": a, "B": b}


def elementwise(function, dtype="float32", **arrays):
    """A tree that computes `function` of the arrays, and those as `dtype`."""
    names = list(arrays)

    if len(names) == 1:

        @task.define(leaf=True)
        def logic(Y, X):
            Y[:] = function(X)
    else:

        @task.define(leaf=True)
        def logic(Y, X, Z):
            Y[:] = function(X, Z)

    held = {
        n: np.asarray(x, numpy_dtype(dtype)) for n, x in zip("XZ", arrays.values(), strict=False)
    }
    shapes = {name: x.shape for name, x in held.items()}
    tree = traced(logic, dict.fromkeys(["Y", *held], dtype), Y=held["X"].shape, **shapes)
    return tree, held


def checked(tree, arrays, found=None):
    """Compare the tree's run in its own dtypes (or `found`) with the exact result."""
    found = task.run_tree(tree, arrays) if found is None else found
    return [compare(name, found[name], bound) for name, bound in error_bounds(tree, arrays).items()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 16, 100, 1000])
def test_gemm_is_within_the_bound_and_the_bound_is_gamma(k, dtype):
    tree, arrays = gemm_case(k, dtype)
    (accuracy,) = checked(tree, arrays)
    assert accuracy.right, accuracy
    assert accuracy.unknown == 0
    a, b = (np.abs(x.astype("f8")) for x in arrays.values())
    u = 2.0**-24 if dtype == "float32" else 2.0**-53
    wanted = (k + 1) * u / (1 - (k + 1) * u) * (a @ b)
    bound = error_bounds(tree, arrays)["C"].error
    assert (bound >= wanted * (1 - 1e-9)).all()
    assert (bound <= wanted * 1.001 + k * 1e-37).all()


def test_sums_in_another_order_are_within_the_bound():
    tree, arrays = gemm_case(512)
    a, b = arrays["A"], arrays["B"]
    total = np.zeros((13, 17), np.float32)
    for k in reversed(range(512)):
        total += a[:, k : k + 1] * b[k : k + 1]
    (accuracy,) = checked(tree, arrays, {"C": total})
    assert accuracy.right
    assert accuracy.worst > 0.001  # the bound is not meaninglessly wide


@pytest.mark.parametrize("k", [16, 100, 1000])
def test_a_missing_term_is_found(k):
    tree, arrays = gemm_case(k)
    a, b = arrays["A"].astype("f8"), arrays["B"].astype("f8")
    found = (a @ b - a[:, :1] @ b[:1]).astype("f4")
    (accuracy,) = checked(tree, arrays, {"C": found})
    assert accuracy.wrong > 0.8 * accuracy.elements


def test_a_result_of_lower_precision_is_found():
    tree, arrays = gemm_case(64)
    low = (arrays["A"].astype("f2") @ arrays["B"].astype("f2")).astype("f4")
    (accuracy,) = checked(tree, arrays, {"C": low})
    assert accuracy.wrong > 0.5 * accuracy.elements


def test_one_wrong_element_is_named():
    tree, arrays = gemm_case()
    found = task.run_tree(tree, arrays)["C"]
    found[3, 4] += 1
    (accuracy,) = checked(tree, arrays, {"C": found})
    assert accuracy.wrong == 1
    assert accuracy.where == (3, 4)
    assert "1 of 221 elements are wrong; C[3, 4] is" in str(accuracy)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_wrong_where_the_result_is_finite(bad):
    tree, arrays = gemm_case()
    found = task.run_tree(tree, arrays)["C"]
    found[0, 0] = bad
    assert checked(tree, arrays, {"C": found})[0].wrong == 1


def test_nan_and_infinity_must_be_where_the_reference_has_them():
    tree, arrays = gemm_case()
    arrays["A"][2, 3], arrays["A"][4, 0] = np.nan, np.inf
    found = task.run_tree(tree, arrays)["C"]
    (accuracy,) = checked(tree, arrays, {"C": found})
    assert accuracy.right
    assert accuracy.unknown == 0
    found[4] = 0
    found[2] = 0
    assert checked(tree, arrays, {"C": found})[0].wrong == 34


def test_integers_are_exact():
    shapes = {"C": (5, 6), "A": (5, 40), "B": (40, 6)}
    tree = traced(gemm, {"C": "int32", "A": "int8", "B": "int8"}, **shapes)
    random = np.random.default_rng(0)
    arrays = {n: random.integers(-128, 128, shapes[n]).astype("i1") for n in "AB"}
    (accuracy,) = checked(tree, arrays)
    assert accuracy.right
    assert error_bounds(tree, arrays)["C"].error.max() == 0
    found = task.run_tree(tree, arrays)["C"]
    found[0, 0] += 1
    assert checked(tree, arrays, {"C": found})[0].wrong == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_results_may_be_rounded_at_each_store(dtype):
    tree, arrays = gemm_case(100, dtype)
    for found in (
        task.run_tree(tree, arrays)["C"],
        (arrays["A"].astype("f4") @ arrays["B"].astype("f4")).astype(numpy_dtype(dtype)),
    ):
        assert checked(tree, arrays, {"C": found})[0].right


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_softmax(dtype, scale):
    random = np.random.default_rng(1)
    x = (scale * random.standard_normal((7, 50))).astype(numpy_dtype(dtype))
    tree = traced(softmax_rows, {"Y": dtype, "X": dtype}, Y=x.shape, X=x.shape)
    (accuracy,) = checked(tree, {"X": x})
    assert accuracy.right, accuracy
    assert accuracy.unknown == 0
    found = task.run_tree(tree, {"X": x})["Y"]
    off = (found.astype("f8") * (1 + 2.0 ** (-5 if "16" in dtype else -15))).astype(found.dtype)
    assert not checked(tree, {"X": x}, {"Y": off})[0].right


def test_masked_rows_follow_the_reference():
    x = np.zeros((3, 4), np.float32)
    x[0, 2:] = -np.inf
    x[1] = -np.inf  # a row with nothing left is NaN, and must be
    tree = traced(softmax_rows, Y=x.shape, X=x.shape)
    with np.errstate(all="ignore"):
        found = task.run_tree(tree, {"X": x})["Y"]
    (accuracy,) = checked(tree, {"X": x}, {"Y": found})
    assert accuracy.right
    assert checked(tree, {"X": x}, {"Y": np.nan_to_num(found)})[0].wrong == 4


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.one_in(3)
def test_attention_has_a_finite_bound_that_finds_mistakes(causal, dtype):
    from septran import operators

    shape = (1, 2, 40, 16)
    random = np.random.default_rng(0)
    arrays = {n: random.standard_normal(shape).astype(dtype) for n in "QKV"}
    chooser = DefaultChooser({"block_M": 16, "block_N": 12})
    logic = operators.load("attention")
    kinds = dict.fromkeys("OQKV", dtype)
    tree = task.trace(logic, dict.fromkeys("OQKV", shape), kinds, chooser, {"causal": causal})
    found = task.run_tree(tree, arrays)["O"]
    (accuracy,) = checked(tree, arrays, {"O": found})
    assert accuracy.right, accuracy
    assert accuracy.unknown == 0
    assert np.isfinite(error_bounds(tree, arrays)["O"].error).all()
    late = found.copy()
    late[:, :, 1:] += (0.03 * found[:, :, :-1]).astype(dtype)
    assert checked(tree, arrays, {"O": late})[0].wrong > 0.5 * late.size


VALUES = np.array([0.0, 1e-30, 1e-3, 0.3, 0.5, 1.0, 1.5, 2.0, 3.7, 10.0, 50.0, 87.0])
UNARY = {
    "exp": task.exp, "exp2": task.exp2, "sqrt": lambda x: task.sqrt(abs(x)), "tanh": task.tanh,
    "log": lambda x: task.log(abs(x) + 1e-20), "sigmoid": task.sigmoid, "erf": task.erf,
    "rsqrt": lambda x: task.rsqrt(abs(x) + 1), "sin": task.sin, "cos": task.cos,
    "log2": lambda x: task.log2(abs(x) + 1e-20), "gelu": task.gelu, "silu": task.silu,
    "floor": task.floor, "relu": task.relu, "round": task.round, "negative": lambda x: -x,
    "chain": lambda x: task.tanh(task.exp(-x * x) * 3 - task.log(x * x + 1)) / (x * x + 2),
    "where": lambda x: task.where(x > 1, x * 2, x - 1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_numpy_are_within_the_bound(name, dtype):
    values = np.concatenate([VALUES, -VALUES, np.random.default_rng(0).standard_normal(200)])
    tree, arrays = elementwise(UNARY[name], dtype, X=values)
    with np.errstate(all="ignore"):
        (accuracy,) = checked(tree, arrays)
    assert accuracy.right, accuracy
    # Off by a thousandth of the result is never rounding in 24 bits or more.
    if dtype in ("float32", "float64") and name not in ("floor", "round", "sin", "cos"):
        found = task.run_tree(tree, arrays)["Y"] * np.asarray(1.001, numpy_dtype(dtype))
        assert not checked(tree, arrays, {"Y": found})[0].right


BINARY = {
    "add": lambda x, z: x + z, "subtract": lambda x, z: (x + z) - z, "multiply": lambda x, z: x * z,
    "divide": lambda x, z: x / z, "maximum": task.maximum, "minimum": task.minimum,
    "power": lambda x, z: task.power(abs(x), z), "less": lambda x, z: task.where(x < z, x, z),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", BINARY)
def test_operations_of_numpy_are_within_the_bound(name, dtype):
    random = np.random.default_rng(2)
    tree, arrays = elementwise(
        BINARY[name], dtype, X=random.standard_normal(300) * 10, Z=random.standard_normal(300) * 3
    )
    with np.errstate(all="ignore"):
        (accuracy,) = checked(tree, arrays)
    assert accuracy.right, accuracy


def test_a_jump_within_the_error_is_unknown_not_wrong():
    tree, arrays = elementwise(lambda x: task.floor(x * 10.0), X=np.array([0.3, 0.1, 0.25]))
    bound = error_bounds(tree, arrays)["Y"]
    assert bound.error[0] >= 1  # 3.0000001 or 2.9999999
    assert bound.error[2] == 0


def test_integers_that_were_rounded_at_a_tie_may_be_off_by_one():
    """63.5 of 127: the row's sum may be off by the weights of that element, the others' not."""
    random = np.random.default_rng(0)
    shapes = {"M": 2, "N": 5, "K": 64}
    a = random.integers(-100, 100, (2, 64)).astype("f4")
    a[:, 0], a[1, 7] = 127, 63.5
    w = random.integers(0, 256, (32, 5), dtype="u1")
    inputs = {"A": a, "W": w, "scale": np.ones((1, 5), "f4")}
    kernel = septran.compile("w4a8_gemm", "cpu-x86", shapes=shapes)
    bound = error_bounds(kernel.stages.task_tree, inputs)["C"]
    off = np.abs((w[7] & 15).astype(float) - 8)
    assert (bound.error[0] < 0.1).all()
    assert np.allclose(bound.error[1], off, atol=0.1)
    assert kernel.check(*inputs.values()).right


def test_overflow_is_unknown_near_the_limit_and_infinite_beyond():
    tree, arrays = elementwise(lambda x: x * 2.0, X=np.array([1.7014118e38, 2e38, 1e38]))
    bound = error_bounds(tree, arrays)["Y"]
    assert np.isinf(bound.error[0])
    assert np.isinf(bound.value[1])
    assert bound.error[1] == 0
    assert np.isfinite(bound.value[2])


@task.define(leaf=True)
def sum_rows(Y, X):
    Y[:] = task.sum(X, axis=1)


OVERFLOWING = (
    ([np.inf, -3e38, -3e38], False),  # -inf, and then NaN, where the finite terms come first
    ([3e38, 3e38, -3e38], False),  # infinite, or 3e38
    ([3e38, 3e38, -3e38, -3e38], False),
    ([3e38, 3e38], True),  # infinite in any order
    ([-np.inf, -1e38, 1e38], True),
    ([np.inf, -np.inf, 3e38, 3e38], True),  # NaN
    ([3e38, -3e38, 1.0], True),
)


@pytest.mark.parametrize(("terms", "known"), OVERFLOWING)
def test_sums_that_may_overflow_on_the_way_are_unknown(terms, known):
    """What a finite term of the other sign makes of an infinity depends on the order."""
    row = np.array([terms], np.float32)
    tree = traced(sum_rows, Y=(1,), X=row.shape)
    assert np.isfinite(error_bounds(tree, {"X": row})["Y"].error[0]) == known
    factors = {"A": np.sign(row) * np.sqrt(np.abs(row)), "B": np.sqrt(np.abs(row)).T}
    tree = traced(gemm, C=(1, 1), A=row.shape, B=row.T.shape, tunables={"block_K": 2})
    bound = error_bounds(tree, factors)["C"]
    assert np.isfinite(bound.error[0, 0]) == known
    if known:
        assert all(result.right for result in checked(tree, factors))


def test_outputs_that_are_read_start_from_what_is_given():
    shapes = {"C": (2, 2), "A": (2, 3), "B": (3, 2)}
    tree = traced(gemm_tile, **shapes)
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    assert (error_bounds(tree, arrays)["C"].value == 4).all()
    del arrays["C"]
    assert (error_bounds(tree, arrays)["C"].value == 3).all()


def test_an_unknown_primitive_is_an_error():
    from dataclasses import replace

    tree = traced(gemm_tile, C=(2, 2), A=(2, 2), B=(2, 2))
    strange = replace(tree.root.body[0], name="strange")
    tree = replace(tree, root=replace(tree.root, body=(strange,)))
    with pytest.raises(NoBoundError, match="'strange'"):
        error_bounds(tree, {"A": np.ones((2, 2)), "B": np.ones((2, 2))})


def test_empty_outputs_are_right():
    accuracy = compare("C", np.zeros((0, 3)), exact(np.zeros((0, 3))))
    assert accuracy.right


@pytest.mark.parametrize(
    ("function", "value", "known"),
    [
        (lambda x: x * 2.0, np.inf, True),
        (lambda x: x - 1.0, -np.inf, True),
        (lambda x: 1.0 / x, 0.0, True),
        (lambda x: task.exp(x) * x, -np.inf, True),
        (lambda x: task.log(x), 0.0, True),
        (lambda x: task.log(x * 0.1 - 0.03), 0.3, False),
        (lambda x: (1.0 / (x * 0.1 - 0.03)) * (x * 0.1 - 0.03), 0.3, False),
        (lambda x: task.maximum(x, 0.0) + task.exp(x), -np.inf, True),
    ],
)
def test_infinities_are_certain_unless_rounding_decides(function, value, known):
    tree, arrays = elementwise(function, X=np.array([value], np.float32))
    bound = error_bounds(tree, arrays)["Y"]
    assert np.isfinite(bound.error).all() == known


def test_large_integers_are_compared_exactly():
    value = np.array([2**53 + 1])
    assert compare("C", value, Bounded(value, np.zeros(1), "int64")).right
    assert not compare("C", value - 1, Bounded(value, np.zeros(1), "int64")).right


@task.define(leaf=True)
def two_products(C, D, T, A, B):
    task.fill(T, 0)
    task.call_primitive("gemm", T, A, B)
    task.fill(C, 0)
    task.call_primitive("gemm", C, A, T)
    task.fill(D, 0)
    task.call_primitive("gemm", D, T, B)


def test_errors_of_factors_go_through_a_product():
    tree = traced(two_products, None, None, **dict.fromkeys("CDTAB", (8, 8)))
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((8, 8)).astype("f4") for _ in "AB")
    bounds = error_bounds(tree, {"A": a, "B": b})
    inner = bounds["T"].error
    for name, through in (("C", lambda e: np.abs(a) @ e), ("D", lambda e: e @ np.abs(b))):
        own = 9.001 * 2.0**-24 * through(bounds["T"].reach) + 1e-36
        assert (bounds[name].error >= through(inner) + 0.99 * own - 1e-36).all()
        assert (bounds[name].error <= through(inner) + 1.01 * own).all()


@pytest.mark.parametrize(
    ("factors", "others"),
    [
        ([1.0, 0.0], [[np.inf, 0.0], [1e38, np.inf]]),  # 0 times what is unknown
        ([1e-8, 1.0], [[np.inf, 0.0], [0.0, 0.0]]),  # infinity times what may have either sign
    ],
)
def test_what_is_unknown_makes_an_infinite_sum_unknown(factors, others):
    """A kernel may find NaN where the float64 sum is infinite."""
    row = Bounded(np.array([factors]), np.array([[1e-7, 0.0]]), "float32")
    column = Bounded(*(np.array([part]).T for part in zip(*others, strict=True)), "float32")
    turned = [Bounded(b.value.T, b.error.T, "float32") for b in (column, row)]
    for left, right in ((row, column), turned):
        sums = _Tensor("float32", exact(np.zeros((1, 1), "f4")))
        with np.errstate(invalid="ignore"):  # as `error_bounds` has it
            sums.accumulate(View.whole("", (1, 1)), {}, left, right, 2)
        assert np.isinf(sums.bounded().error).all()


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e-20), ("float16", 1e-3)])
def test_products_that_underflow_may_be_lost_and_nothing_larger(dtype, size):
    tree = traced(gemm_tile, dict.fromkeys("CAB", dtype), C=(1, 1), A=(1, 1), B=(1, 1))
    arrays = {n: np.full((1, 1), size, numpy_dtype(dtype)) for n in "AB"}
    least = float(np.finfo(dtype).smallest_normal)
    assert checked(tree, arrays, {"C": np.zeros((1, 1), dtype)})[0].right
    assert not checked(tree, arrays, {"C": np.full((1, 1), 8 * least, dtype)})[0].right


def test_a_narrow_result_off_by_a_tenth_is_found():
    tree, arrays = gemm_case(100, "float16")
    found = task.run_tree(tree, arrays)["C"].astype("f8")
    a, b = (np.abs(x.astype("f8")) for x in arrays.values())
    off = (found + 0.1 * (a @ b)).astype("f2")
    assert checked(tree, arrays, {"C": off})[0].wrong == off.size


def test_what_is_unknown_of_integers_stays_unknown():
    start = Bounded(np.array([1, 2]), np.array([np.inf, 0.0]), "int32")
    assert _Tensor("int32", start).bounded().error.tolist() == [np.inf, 0.0]


@task.define(leaf=True)
def row_sums(Y, X):
    Y[:, :] = task.sum(X, axis=1)[:, None] + X * 0


def test_an_expanded_value_keeps_its_error():
    x = np.ones((2, 1001), np.float32)
    tree = traced(row_sums, Y=x.shape, X=x.shape)
    error = error_bounds(tree, {"X": x})["Y"].error
    assert error == pytest.approx(np.full(x.shape, 1002 * 1001 * 2.0**-24), rel=0.01)
