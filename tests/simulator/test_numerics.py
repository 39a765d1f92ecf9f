"""Every command against NumPy in float64, within what rounding explains."""

import ml_dtypes
import numpy as np
import pytest

from septran.dtypes import unit_roundoff
from septran.ir.expressions import BINARY as ALL_BINARY
from septran.ir.expressions import COMPARISONS
from septran.ir.expressions import UNARY as ALL_UNARY
from septran.simulator import simulate
from septran.simulator.commands import DTYPES, memory_address, parameter_address
from septran.simulator.units.numerics import BINARY, TYPES, UNARY, erf, to_single

SPM, ACC = memory_address(1), memory_address(2)
IN, OUT, MMA, VEC = range(4)
KIND = dict(zip(DTYPES, TYPES, strict=True))
FLOATS = ("float16", "bfloat16", "float32", "float64")
ROWS, COLS = 5, 37
X, Y, C, DST = 0, 8192, 16384, 24576
"""Bytes of operands in the scratchpad."""


def vector(machine, script, name, inputs, out, **arguments):
    """One vector command on dense tiles in the scratchpad; gives its result."""
    given = dict(arguments)
    parameters = []
    for number, (operand, values, place) in enumerate(inputs):
        values = np.ascontiguousarray(values)
        parameters.append(values)
        width = values.shape[1] * values.itemsize
        script.load(place, number, values.shape[0], width)
        given[operand] = SPM + place
        given[f"{operand}_row"], given[f"{operand}_col"] = width, values.itemsize
    result = np.zeros(out[0], out[1])
    parameters.append(result)
    script.flag(IN, VEC)
    given |= {"queue": VEC, "dst": SPM + DST, "dst_row": result.strides[0]}
    if result.ndim == 2:
        given["dst_col"] = result.itemsize
    script.add(name, **given)
    script.flag(VEC, OUT)
    rows = result.shape[0]
    script.store(len(parameters) - 1, SPM + DST, rows, result.nbytes // rows)
    simulate(machine, script.stream(), parameters)
    return result


def numbers(random, kind, low=-3.0, high=3.0):
    if KIND[kind].kind in "iu":
        info = np.iinfo(KIND[kind])
        return random.integers(max(info.min, -100), min(info.max, 100), (ROWS, COLS)).astype(kind)
    if kind == "bool":
        return random.integers(0, 2, (ROWS, COLS)).astype(bool)
    return random.uniform(low, high, (ROWS, COLS)).astype(KIND[kind])


def close(result, wanted, kind, slack=4.0):
    """Within `slack` roundings of the result's type (and a few of float32's for functions)."""
    eps = max(unit_roundoff(kind), 2.0**-24 if kind != "float64" else 0)
    result, wanted = result.astype(np.float64), np.asarray(wanted, np.float64)
    smallest = {"float16": 2.0**-24, "float64": 1e-300}.get(kind, 1e-38)
    error = np.abs(result - wanted)
    assert (error <= slack * eps * np.abs(wanted) + smallest).all(), error.max()


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("function", [f for f in ALL_UNARY if f not in ("not", "invert")])
def test_functions_of_floats(toy, script, random, function, kind):
    positive = function in ("log", "log2", "sqrt", "rsqrt")
    x = numbers(random, kind, 0.1 if positive else -3.0)
    shape = ((ROWS, COLS), KIND[kind])
    inputs, extents = [("x", x, X)], {"rows": ROWS, "cols": COLS, "type": kind}
    result = vector(toy, script, f"vec_{function}", inputs, shape, **extents)
    wide = x.astype(np.float64)
    # erf by the standard library, so that nothing of ours is its own witness
    import math

    wanted = np.vectorize(math.erf)(wide) if function == "erf" else UNARY[function](wide)
    # log and sine near their zeros: bounded by the error of the argument, not of the result
    close(result, wanted, kind, slack=8.0 if function in ("log", "log2", "sin", "cos") else 4.0)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64", "bool"])
@pytest.mark.parametrize("function", ["not", "invert", "abs", "neg"])
def test_functions_of_integers(toy, script, random, function, kind):
    if kind == "bool" and function in ("neg", "abs"):
        pytest.skip("not a function of bools")
    x = numbers(random, kind)
    out = np.dtype(bool) if function == "not" else KIND[kind]
    inputs, extents = [("x", x, X)], {"rows": ROWS, "cols": COLS, "type": kind}
    result = vector(toy, script, f"vec_{function}", inputs, ((ROWS, COLS), out), **extents)
    assert (result == UNARY[function](x)).all()


def operand_pair(random, function, kind):
    x, y = numbers(random, kind), numbers(random, kind)
    if function == "power":
        x, y = np.abs(x), np.abs(y) if KIND[kind].kind != "i" else np.full_like(y, 2)
    if function in ("divide", "floor_divide", "remainder"):
        y = np.where(y == 0, np.ones_like(y), y)
    if function in ("left_shift", "right_shift"):
        y = np.abs(y) % 7
    x[0, 0] = y[0, 0]
    return x, y


FLOAT_BINARY = [f for f in ALL_BINARY if f not in ("and", "or", "xor", "left_shift", "right_shift")]


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("function", FLOAT_BINARY)
@pytest.mark.parametrize("form", ["tiles", "value", "reversed"])
def test_functions_of_two_floats(toy, script, random, function, kind, form):
    x, y = operand_pair(random, function, kind)
    value = float(np.asarray(1.25, KIND[kind]))
    out = np.dtype(bool) if function in COMPARISONS else KIND[kind]
    extents = {"rows": ROWS, "cols": COLS, "type": kind}
    if form == "tiles":
        inputs = [("x", x, X), ("y", y, Y)]
        result = vector(toy, script, f"vec_{function}", inputs, ((ROWS, COLS), out), **extents)
        left, right = x, y
    else:
        x, y = (y, y) if form == "reversed" else (x, x)
        turned = int(form == "reversed")
        result = vector(
            toy, script, f"vec_{function}_imm", [("x", x, X)], ((ROWS, COLS), out), value=value,
            reversed=turned, **extents,
        )  # fmt: skip
        other = np.full_like(x, value)
        left, right = (other, x) if turned else (x, other)
    with np.errstate(all="ignore"):
        wanted = BINARY[function](left.astype(np.float64), right.astype(np.float64))
    if function in COMPARISONS:
        assert (result == wanted).all()
    elif function in ("floor_divide", "remainder"):
        # A quotient that rounding takes to the next integer moves the result by a whole step.
        wide = np.float32 if kind != "float64" else np.float64
        exact = BINARY[function](left.astype(wide), right.astype(wide)).astype(KIND[kind])
        assert (result == exact).all()
    else:
        close(result, wanted, kind)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("function", [f for f in ALL_BINARY if f != "divide"])
def test_functions_of_two_integers(toy, script, random, function, kind):
    x, y = operand_pair(random, function, kind)
    out = np.dtype(bool) if function in COMPARISONS else KIND[kind]
    inputs, extents = [("x", x, X), ("y", y, Y)], {"rows": ROWS, "cols": COLS, "type": kind}
    result = vector(toy, script, f"vec_{function}", inputs, ((ROWS, COLS), out), **extents)
    with np.errstate(all="ignore"):
        assert (result == BINARY[function](x, y)).all()


@pytest.mark.parametrize("function", ["and", "or", "xor"])
def test_functions_of_bools(toy, script, random, function):
    x, y = numbers(random, "bool"), numbers(random, "bool")
    shape, extents = ((ROWS, COLS), np.dtype(bool)), {"rows": ROWS, "cols": COLS, "type": "bool"}
    result = vector(toy, script, f"vec_{function}", [("x", x, X), ("y", y, Y)], shape, **extents)
    assert (result == BINARY[function](x, y)).all()


@pytest.mark.parametrize("function", ["maximum", "minimum"])
@pytest.mark.parametrize("kind", FLOATS)
def test_greatest_and_least_pass_nan_on(toy, script, random, function, kind):
    x, y = numbers(random, kind), numbers(random, kind)
    x[1, 2] = y[3, 4] = np.nan
    shape, extents = ((ROWS, COLS), KIND[kind]), {"rows": ROWS, "cols": COLS, "type": kind}
    inputs = [("x", x, X), ("y", y, Y)]
    result = vector(toy, script, f"vec_{function}", inputs, shape, **extents)
    found = np.argwhere(np.isnan(result.astype(np.float64))).tolist()
    assert found == [[1, 2], [3, 4]]


def test_tiles_with_strides_broadcast_and_turn(toy, script, random):
    """x is read transposed, y one row for all; dst has a gap behind each row."""
    x, y = random.standard_normal((7, 4)).astype("f4"), random.standard_normal((1, 7)).astype("f4")
    out = np.zeros((4, 7), np.float32)
    script.load(X, 0, 7, 16)
    script.load(Y, 1, 1, 28)
    script.flag(IN, VEC)
    script.add(
        "vec_add", queue=VEC, dst=SPM + DST, dst_row=32, dst_col=4, x=SPM + X, x_row=4, x_col=16,
        y=SPM + Y, y_row=0, y_col=4, rows=4, cols=7, type="float32",
    )  # fmt: skip
    script.flag(VEC, OUT)
    script.store(2, SPM + DST, 4, 28, src_stride=32)
    simulate(toy, script.stream(), [x, y, out])
    assert (out == x.T + y).all()


def test_select(toy, script, random):
    c, x, y = numbers(random, "bool"), numbers(random, "float32"), numbers(random, "float32")
    x[0, 0] = np.nan
    inputs = [("c", c, C), ("x", x, X), ("y", y, Y)]
    shape, extents = ((ROWS, COLS), np.float32), {"rows": ROWS, "cols": COLS, "type": "float32"}
    result = vector(toy, script, "vec_select", inputs, shape, **extents)
    assert np.array_equal(result, np.where(c, x, y), equal_nan=True)


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("target", [*FLOATS, "float8_e4m3fn", "float8_e5m2", "int8", "int32"])
def test_casts_round_once_to_even(toy, script, random, source, target):
    x = numbers(random, source)
    if source == "float64" and target == "bfloat16":
        # Halfway in bfloat16 but for a bit that float32 has no room for: rounds up, once.
        x[0, :3] = [1 + 2**-8, 1 + 2**-8 + 2**-40, -(1 + 3 * 2**-8 - 2**-40)]
    if source == "float32" and target == "float16":
        x[0, :4] = [1 + 2**-11, 1 + 3 * 2**-11, 70000, 2**-25]
    extents = {"rows": ROWS, "cols": COLS, "type": source, "dst_type": target}
    with np.errstate(all="ignore"):
        result = vector(
            toy, script, "vec_cast", [("x", x, X)], ((ROWS, COLS), KIND[target]), **extents
        )
    if source == "float64" and target == "bfloat16":
        assert result[0, :3].astype(float).tolist() == [1, 1 + 2**-7, -(1 + 2**-7)]
    if source == "float32" and target == "float16":
        assert result[0, :4].tolist() == [1, 1 + 2**-9, np.inf, 0]
    if target in FLOATS:
        near = np.abs(result.astype(np.float64) - x.astype(np.float64))
        with np.errstate(all="ignore"):
            bound = unit_roundoff(target) * np.abs(x.astype(np.float64)) + 2.0**-25
        assert (near[1:] <= bound[1:]).all()
    elif KIND[target].kind == "i":
        assert (result == x.astype(np.float64).astype(KIND[target])).all()
    else:
        assert (result == x.astype(np.float32).astype(KIND[target])).all()


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64", "int32", "int8"])
@pytest.mark.parametrize("function", ["sum", "max", "min"])
@pytest.mark.parametrize("accumulate", [0, 1])
def test_reductions(toy, script, random, function, kind, accumulate):
    x, start = numbers(random, kind), numbers(random, kind)[:, :1].copy()
    item = KIND[kind].itemsize
    out = np.zeros((ROWS, 1), KIND[kind])
    script.load(X, 0, ROWS, COLS * item)
    script.load(DST, 1, ROWS, item)
    script.flag(IN, VEC)
    script.add(
        f"vec_reduce_{function}", queue=VEC, dst=SPM + DST, dst_row=item, x=SPM + X,
        x_row=COLS * item, x_col=item, rows=ROWS, cols=COLS, accumulate=accumulate, type=kind,
    )  # fmt: skip
    script.flag(VEC, OUT)
    script.store(2, SPM + DST, ROWS, item)
    simulate(toy, script.stream(), [x, start, out])
    wide = np.int64 if KIND[kind].kind == "i" else np.float64
    values = np.concatenate([x, start], axis=1) if accumulate else x
    values = values.astype(wide)
    wanted = {"sum": np.sum, "max": np.max, "min": np.min}[function](values, axis=1, keepdims=True)
    if KIND[kind].kind == "i":
        assert (out == wanted.astype(KIND[kind])).all()
    elif function == "sum":
        size = np.abs(values).sum(axis=1, keepdims=True)
        eps = COLS * (2.0**-24 if kind != "float64" else 2.0**-53)
        bound = eps * size + unit_roundoff(kind) * np.abs(wanted) * 1.001
        assert (np.abs(out.astype(np.float64) - wanted) <= bound).all()
    else:
        assert (out.astype(np.float64) == wanted).all()


@pytest.mark.parametrize(("function", "wanted"), [("sum", 0), ("max", -np.inf), ("min", np.inf)])
def test_reductions_of_nothing(toy, script, function, wanted):
    out = np.ones(3, np.float32)
    script.add(
        f"vec_reduce_{function}", queue=VEC, dst=SPM, dst_row=4, x=SPM, x_row=0, x_col=4, rows=3,
        cols=0, accumulate=0, type="float32",
    )  # fmt: skip
    script.flag(VEC, OUT)
    script.store(0, SPM, 3, 4)
    simulate(toy, script.stream(), [out])
    assert out.tolist() == [wanted] * 3


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "int8", "bool", "int64"])
def test_fill_copy_and_iota(toy, script, kind):
    item = KIND[kind].itemsize
    out = np.zeros((3, 6), KIND[kind])
    script.fill(SPM, 1, 1, 6, kind=kind, item=item)
    script.add(
        "vec_copy", queue=VEC, dst=SPM + 6 * item, dst_row=6 * item, dst_col=item, x=SPM, x_row=0,
        x_col=item, rows=1, cols=6, type=kind,
    )  # fmt: skip
    script.add(
        "vec_iota", queue=VEC, dst=SPM + 12 * item, dst_row=6 * item, dst_col=item, start=-2,
        rows=1, cols=6, type=kind,
    )  # fmt: skip
    script.flag(VEC, OUT)
    script.store(0, SPM, 3, 6 * item)
    simulate(toy, script.stream(), [out])
    wanted = np.arange(-2, 4).astype(KIND[kind])
    assert (out == np.stack([np.ones(6, KIND[kind]), np.ones(6, KIND[kind]), wanted])).all()


# ----------------------------------------------------------------------------- matrices


def multiply(machine, script, a, b, c_kind, *, turned=(0, 0), accumulate=0):
    """C (+)= A @ B with A and B stored as `turned` says."""
    (m, k), n = a.shape, b.shape[1]
    stored = [np.ascontiguousarray(x.T if t else x) for x, t in zip((a, b), turned, strict=True)]
    out = np.zeros((m, n), KIND[c_kind])
    item = a.itemsize
    for number, (x, place) in enumerate(zip(stored, (X, Y), strict=True)):
        script.load(place, number, x.shape[0], x.shape[1] * item, dst_stride=x.shape[1] * item + 16)
    script.flag(IN, MMA)
    given = {"a_transposed": turned[0], "b_transposed": turned[1]}
    given |= {f"{w}_stride": x.shape[1] * item + 16 for w, x in zip("ab", stored, strict=True)}
    kind = next(name for name, known in KIND.items() if known == a.dtype)
    script.mma(m, n, k, a=X, b=Y, kind=kind, c_type=c_kind, accumulate=0, **given)
    if accumulate:
        script.mma(m, n, k, a=X, b=Y, kind=kind, c_type=c_kind, accumulate=1, **given)
    script.flag(MMA, OUT)
    script.store(2, ACC, m, n * out.itemsize)
    simulate(machine, script.stream(), [*stored, out])
    return out


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("accumulate", [0, 1])
@pytest.mark.parametrize("kind", FLOATS)
def test_products_of_floats(toy, script, random, kind, turned, accumulate):
    a = random.standard_normal((13, 21)).astype(KIND[kind])
    b = random.standard_normal((21, 18)).astype(KIND[kind])
    c_kind = "float64" if kind == "float64" else "float32"
    out = multiply(toy, script, a, b, c_kind, turned=turned, accumulate=accumulate)
    wide = [x.astype(np.float64) for x in (a, b)]
    wanted = (1 + accumulate) * (wide[0] @ wide[1])
    size = (1 + accumulate) * (np.abs(wide[0]) @ np.abs(wide[1]))
    eps = 2.0**-24 if c_kind == "float32" else 2.0**-53
    assert (np.abs(out - wanted) <= (21 + 2) * eps * size).all()


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("k", [21, 1040])
def test_products_of_integers_are_exact(toy, script, random, k, extreme):
    a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((3, k), (k, 2)))
    if extreme:
        a[:], b[:] = -128, -128
    out = multiply(toy, script, a, b, "int32", accumulate=1)
    assert (out == 2 * (a.astype(np.int64) @ b.astype(np.int64))).all()


def test_float16_specials_and_subnormals_survive(toy, script):
    a = np.array([[np.inf, 2.0**-24, np.nan], [65504, -(2.0**-14), -0.0]], np.float16)
    out = multiply(toy, script, a, np.eye(3, dtype=np.float16)[:, :2].copy(), "float32")
    assert np.isnan(out[0]).all()
    assert out[1].tolist() == [65504, -(2.0**-14)]


def test_every_float16_converts_as_numpy_does():
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    for part in (x, x[np.isfinite(x)]):
        assert np.array_equal(to_single(part), part.astype(np.float32), equal_nan=True)


def test_erf_of_float32_and_float64():
    import math

    x = np.concatenate([np.linspace(-7, 7, 20001), 10.0 ** -np.arange(1, 38), [np.inf, -np.inf]])
    x = x.astype(np.float32)
    exact = np.array([math.erf(v) for v in x.tolist()])
    assert (np.abs(erf(x) - exact) <= 2.0**-24 * 1.01 * np.abs(exact)).all()
    assert np.isnan(erf(np.array([np.nan], np.float32))).all()
    assert erf(np.array([0.5])).tolist() == [math.erf(0.5)]


def test_operands_stay_converted_until_they_are_overwritten(toy, script, random):
    """The second product uses new operands in the old place, the third the same again."""
    kinds = np.float16
    a, b = (random.standard_normal((2, 16, 16)).astype(kinds) for _ in range(2))
    out = np.zeros((3, 16, 16), np.float32)
    for n, source in enumerate((0, 1, 1)):
        if n < 2:
            script.load(X, 0, 16, 32, offset=source * 512)
            script.load(Y, 1, 16, 32, offset=source * 512)
            script.flag(IN, MMA)
        if n == 2:  # half of it is zeroed by the vector unit
            script.flag(MMA, VEC)
            script.fill(SPM + X, 0.0, 8, 16, kind="float16", item=2)
            script.flag(VEC, MMA)
        script.mma(16, 16, 16, a=X, b=Y, kind="float16")
        script.flag(MMA, OUT)
        script.store(2, ACC, 16, 64, offset=n * 1024)
        script.flag(OUT, MMA)
        script.flag(MMA, IN)
    simulate(toy, script.stream(), [a, b, out])
    changed = a[1].copy()
    changed[:8] = 0
    for got, (left, right) in zip(out, ((a[0], b[0]), (a[1], b[1]), (changed, b[1])), strict=True):
        wanted = left.astype(np.float64) @ right.astype(np.float64)
        assert np.abs(got - wanted).max() < 1e-4


# ------------------------------------------------------------------------------- copies


@pytest.mark.parametrize("item", [1, 2, 4])
@pytest.mark.parametrize("shape", [(32, 48), (30, 41)])
def test_blocks_and_back(toy, script, random, item, shape):
    """Through blocks of 16 x 16, the rest of edge blocks zero."""
    from dataclasses import replace

    rows, cols = shape
    x = random.integers(1, 120, (rows, cols * item)).astype(np.uint8)
    down, across = -(-rows // 16), -(-cols // 16)
    blocked, back = np.ones(down * across * 256 * item, np.uint8), np.zeros_like(x)
    given = {"rows": rows, "cols": cols, "item_bytes": item, "block_rows": 16, "block_cols": 16}
    script.add(
        "dma_block", queue=IN, dst=SPM, dst_stride=across * 256 * item, src=parameter_address(0),
        src_stride=cols * item, **given,
    )  # fmt: skip
    script.flag(IN, OUT)
    script.store(1, SPM, 1, blocked.size)
    script.add(
        "dma_unblock", queue=OUT, dst=parameter_address(2), dst_stride=cols * item, src=SPM,
        src_stride=across * 256 * item, **given,
    )  # fmt: skip
    simulate(replace(toy), script.stream(), [x, blocked, back])
    assert (back == x).all()
    grid = blocked.reshape(down, across, 16, 16, item)
    padded = np.zeros((down * 16, across * 16, item), np.uint8)
    padded[:rows, :cols] = x.reshape(rows, cols, item)
    assert (grid == padded.reshape(down, 16, across, 16, item).transpose(0, 2, 1, 3, 4)).all()


def test_zero(toy, script):
    out = np.ones((4, 16), np.uint8)
    script.fill(SPM, 1, 4, 16, kind="int8", item=1)
    script.flag(VEC, IN)
    script.add("dma_zero", queue=IN, dst=SPM, dst_stride=16, rows=4, row_bytes=5)
    script.flag(IN, OUT)
    script.store(0, SPM, 4, 16)
    simulate(toy, script.stream(), [out])
    assert (out[:, :5] == 0).all()
    assert (out[:, 5:] == 1).all()


@pytest.mark.parametrize("kind", ["float16", "float32", "int8"])
@pytest.mark.parametrize("accumulate", [0, 1])
@pytest.mark.parametrize("turned", [(0, 0), (1, 1)])
def test_products_of_blocked_operands(toy, script, random, kind, accumulate, turned):
    """All three operands in blocks of 16 x 16, extents that are no multiples."""
    from dataclasses import replace

    cube = replace(
        toy.instruction("mma"), layouts=dict.fromkeys("CAB", "fractal(16, 16)"), dtypes=()
    )
    machine = replace(toy, instructions=(cube, toy.instruction("vec")))
    m, n, k = 20, 35, 17
    a, b = (random.integers(-9, 9, shape).astype(KIND[kind]) for shape in ((m, k), (k, n)))
    item = a.itemsize
    stored = [np.ascontiguousarray(x.T if t else x) for x, t in zip((a, b), turned, strict=True)]
    out = np.zeros((m, n), np.int32 if kind == "int8" else np.float32)
    strides = []
    for number, (x, place) in enumerate(zip(stored, (X, Y), strict=True)):
        strides.append(-(-x.shape[1] // 16) * 256 * item)
        script.add(
            "dma_block", queue=IN, dst=SPM + place, dst_stride=strides[-1],
            src=parameter_address(number), src_stride=x.shape[1] * item, rows=x.shape[0],
            cols=x.shape[1], item_bytes=item, block_rows=16, block_cols=16,
        )  # fmt: skip
    script.flag(IN, MMA)
    for step in range(1 + accumulate):
        script.mma(
            m, n, k, a=X, b=Y, kind=kind, c_type="int32" if kind == "int8" else "float32",
            c_stride=3 * 1024, a_stride=strides[0], b_stride=strides[1], accumulate=step,
            a_transposed=turned[0], b_transposed=turned[1],
        )  # fmt: skip
    script.flag(MMA, OUT)
    script.add(
        "dma_unblock", queue=OUT, dst=parameter_address(2), dst_stride=n * 4, src=ACC,
        src_stride=3 * 1024, rows=m, cols=n, item_bytes=4, block_rows=16, block_cols=16,
    )  # fmt: skip
    simulate(machine, script.stream(), [*stored, out])
    assert (out == (1 + accumulate) * (a.astype(np.int64) @ b.astype(np.int64))).all()


def test_float8_is_a_type_of_ml_dtypes():
    assert KIND["float8_e5m2"] == ml_dtypes.float8_e5m2
