"""Functions of elements at the corners of their types, on everything that computes a logic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from septran import task
from septran.runtime.rounding import UNITS
from tests.numerics.corner_values import corners

BINARY = {
    "add": lambda x, z: x + z, "subtract": lambda x, z: x - z, "multiply": lambda x, z: x * z,
    "floor_divide": lambda x, z: x // z, "remainder": lambda x, z: x % z,
    "maximum": lambda x, z: task.maximum(x, z), "minimum": lambda x, z: task.minimum(x, z),
}  # fmt: skip
OF_INTEGERS = {
    **BINARY, "power": lambda x, z: x**z, "left_shift": lambda x, z: x << z,
    "right_shift": lambda x, z: x >> z, "bitwise_and": lambda x, z: x & z,
    "bitwise_xor": lambda x, z: x ^ z, "bitwise_or": lambda x, z: x | z,
}  # fmt: skip
OF_FLOATS = {**BINARY, "divide": lambda x, z: x / z}
COMPARISONS = {
    "less": lambda x, z: x < z, "less_equal": lambda x, z: x <= z, "greater": lambda x, z: x > z,
    "greater_equal": lambda x, z: x >= z, "equal": lambda x, z: x == z,
    "not_equal": lambda x, z: x != z,
}  # fmt: skip
EXACT = {
    "negative": lambda x: -x, "abs": task.abs, "floor": task.floor, "ceil": task.ceil,
    "rint": task.round,
}  # fmt: skip
ROUNDED = {
    "sqrt": task.sqrt, "rsqrt": task.rsqrt, "exp": task.exp, "exp2": task.exp2, "log": task.log,
    "log2": task.log2, "tanh": task.tanh, "sigmoid": task.sigmoid, "erf": task.erf,
    "sin": task.sin, "cos": task.cos,
}  # fmt: skip
"""Functions that are right but for some units in the last place."""
OF_NUMBERS = {
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, otypes=[float]),
}  # fmt: skip
WIDE = 256


def pairs(dtype):
    """Each corner with each, but for few of the many."""
    found = corners(dtype)
    x, z = (a.ravel() for a in np.meshgrid(found, found))
    if dtype.startswith(("int", "uint")):
        counts = np.array([0, 1, 2, 3, 31, 63, 64, 65, 100, -1, -2]).astype(dtype)
        more = tuple(a.ravel() for a in np.meshgrid(found, counts))
        x, z = np.concatenate([x, more[0]]), np.concatenate([z, more[1]])
    return x, z


def program(functions, dtype, singles):
    """A task with a row for each function: Y of numbers, T of comparisons, U of one operand."""

    @task.define(leaf=True)
    def tile(Y, T, U, X, Z):
        for row, function in enumerate(functions.values()):
            Y[row, :] = function(X, Z)
        for row, function in enumerate(COMPARISONS.values()):
            T[row, :] = function(X, Z)
        for row, function in enumerate(singles.values()):
            U[row, :] = function(X)

    def corner_cases(Y, T, U, X, Z):
        high = [task.partition(t, shape=(t.shape[0], WIDE)) for t in (Y, T, U)]
        flat = [task.partition(t, shape=(WIDE,)) for t in (X, Z)]
        for i in task.parallel_range(flat[0].shape[0]):
            task.launch(tile, *(t[0, i] for t in high), *(t[i] for t in flat))

    corner_cases.__annotations__ = {
        "Y": task.Tensor[len(functions), "N", dtype],
        "T": task.Tensor[len(COMPARISONS), "N", "bool"],
        "U": task.Tensor[len(singles), "N", dtype],
        "X": task.Tensor["N", dtype],
        "Z": task.Tensor["N", dtype],
    }
    return task.define(corner_cases)


def integer_power(x, z):
    """By Python's integers."""
    bits, low = np.iinfo(x.dtype).bits, int(np.iinfo(x.dtype).min)
    found = []
    for base, exponent in zip(x.tolist(), z.tolist(), strict=True):
        if exponent >= 0:
            value = pow(base, exponent, 2**bits)
        else:
            value = {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
        found.append((value - low) % 2**bits + low)
    return np.array(found, x.dtype)


def numpy_s(name, *values):
    """What NumPy gives, and Python where NumPy refuses."""
    with np.errstate(all="ignore"):
        if name in ("floor", "ceil", "rint") and values[0].dtype.kind in "iu":
            return values[0]
        if name == "power":
            return integer_power(*values)
        if name in ROUNDED:
            function = OF_NUMBERS.get(name) or getattr(np, name)
            return function(*(v.astype(np.float64) for v in values))
        return getattr(np, name)(*values)


def differ(found, wanted, name):
    """Where two arrays are not equal: zeros have signs, but those of equal operands' choice."""
    same = (found == wanted) | ((found != found) & (wanted != wanted))
    if found.dtype.kind == "f" and name not in ("maximum", "minimum"):
        same &= (np.signbit(found) == np.signbit(wanted)) | (wanted != wanted)
    return ~same


def near(found, wanted, name):
    """Whether what is special is NumPy's, and else within the units that every target promises."""
    with np.errstate(all="ignore"):
        rounded = wanted.astype(found.dtype)
        special = ~np.isfinite(rounded) | (rounded == 0)
        limit = UNITS[name] * np.finfo(found.dtype).eps / 2
        size = np.ones(()) if name in ("sin", "cos") else np.abs(wanted)
        # Hardware may flush subnormals to zero, as the bounds of results allow, too.
        close = np.abs(found - wanted) <= limit * size + np.finfo(found.dtype).smallest_normal
    same = (found == rounded) | ((found != found) & (rounded != rounded))
    return np.where(special, same | (close & np.isfinite(rounded)), close)


def wrong_of(run, dtype, functions, singles):
    """Lines about all that is not as NumPy's."""
    x, z = pairs(dtype)
    y, t, u = run(program(functions, dtype, singles), x, z)
    lines = []
    rows = [(n, r, numpy_s(n, x, z)) for n, r in zip(functions, y, strict=True)]
    rows += [(n, r, numpy_s(n, x, z)) for n, r in zip(COMPARISONS, t, strict=True)]
    rows += [(n, r, numpy_s(n, x)) for n, r in zip(singles, u, strict=True)]
    for name, found, wanted in rows:
        bad = ~near(found, wanted, name) if name in ROUNDED else differ(found, wanted, name)
        for n in np.flatnonzero(bad)[:8]:
            lines.append(f"{name}({x[n]!r}, {z[n]!r}) is {found[n]!r}, not {wanted[n]!r}")
    return lines


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.one_in(3)
def test_integers_are_numpy_s(run, dtype):
    lines = wrong_of(run, dtype, OF_INTEGERS, EXACT)
    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "uint64"])
def test_other_integers_are_numpy_s(run, dtype):
    lines = wrong_of(run, dtype, OF_INTEGERS, EXACT)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.one_in(2)
def test_floats_are_numpy_s(run, dtype):
    lines = wrong_of(run, dtype, OF_FLOATS, {**EXACT, **ROUNDED})
    assert not lines, "\n".join(lines)
