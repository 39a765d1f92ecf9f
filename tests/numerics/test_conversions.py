"""Each type to each other, at the corners of both, on everything that computes a logic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from septran import task
from septran.dtypes import ALL, is_float, numpy_dtype
from tests.numerics.corner_values import corners

FORMATS = {
    "float8_e4m3fn": (4, -6, 448.0), "float16": (11, -14, 65504.0),
    "bfloat16": (8, -126, (2 - 2.0**-7) * 2.0**127),
    "float32": (24, -126, (2 - 2.0**-23) * 2.0**127),
    "float64": (53, -1022, np.finfo(np.float64).max),
}  # fmt: skip
"""Digits, least exponent, largest number."""
SOURCES = tuple(f"x_{d}" for d in ALL)
TARGETS = tuple(f"y_{d}" for d in ALL)


def _make_task():
    """A task of one tensor each type in, and one out, of a row for each type of origin."""
    names = ", ".join((*TARGETS, *SOURCES))
    kinds = [f'y_{d}: task.Tensor[{len(ALL)}, "N", "{d}"]' for d in ALL]
    kinds += [f'x_{d}: task.Tensor["N", "{d}"]' for d in ALL]
    tiles = [f"{n}_p = task.partition({n}, shape=({len(ALL)}, 64))" for n in TARGETS]
    tiles += [f"{n}_p = task.partition({n}, shape=(64,))" for n in SOURCES]
    passed = [f"{n}_p[0, i]" for n in TARGETS] + [f"{n}_p[i]" for n in SOURCES]
    rows = [f"y_{to}[{n}, :] = x_{of}.astype('{to}')" for n, of in enumerate(ALL) for to in ALL]
    return "\n".join([
        "from septran import task",
        "@task.define(leaf=True)",
        f"def tile({names}):",
        *(f"    {row}" for row in rows),
        "@task.define",
        f"def conversions({', '.join(kinds)}):",
        *(f"    {tile}" for tile in tiles),
        "    for i in task.parallel_range(x_bool_p.shape[0]):",
        f"        task.launch(tile, {', '.join(passed)})",
    ])  # fmt: skip


def exact(value, dtype):
    """The rule, in arithmetic without rounding; a Python number."""
    real = float(value) if not isinstance(value, int) else value
    if dtype == "bool":
        return real != 0
    if not is_float(dtype):
        if not math.isfinite(real):
            return 0
        limit = np.iinfo(dtype)
        return (int(real) - limit.min) % 2**limit.bits + limit.min
    if isinstance(real, float) and (not math.isfinite(real) or real == 0):
        return math.nan if dtype == "float8_e4m3fn" and math.isinf(real) else real
    return nearest(Fraction(real), dtype)


def nearest(real, dtype):
    """The nearest number of a format, of two the even one."""
    digits, least, largest = FORMATS[dtype]
    if real == 0:
        return 0.0
    exponent = abs(real).numerator.bit_length() - abs(real).denominator.bit_length()
    exponent -= abs(real) < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    found = round(real / unit) * unit  # halves to even
    if abs(found) > Fraction(largest):
        return math.nan if dtype == "float8_e4m3fn" else math.copysign(math.inf, real)
    return math.copysign(float(found), real)


def plain(array):
    """Python's numbers: integers, floats, truth values."""
    return array.astype(np.float64).tolist() if array.dtype.kind not in "iub" else array.tolist()


def same(found, wanted):
    """Equal, of zeros the sign too; any NaN is like another."""
    if isinstance(wanted, float):
        alike = found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
        return alike or (math.isnan(found) and math.isnan(wanted))
    return found == wanted


@pytest.mark.one_in(2, first=1)
def test_every_type_becomes_every_other(run, tmp_path):
    (tmp_path / "conversions.py").write_text(_make_task(), encoding="utf-8")
    entry = task.load_entry(tmp_path / "conversions.py")
    size = max(len(corners(d)) for d in ALL)
    inputs = [np.resize(corners(d), size) for d in ALL]
    outputs = run(entry, *inputs)
    wrong = []
    for to, rows in zip(ALL, outputs, strict=True):
        assert rows.dtype == numpy_dtype(to)
        for of, x, row in zip(ALL, inputs, rows, strict=True):
            for value, found in zip(plain(x), plain(row), strict=True):
                wanted = exact(value, to)
                if not same(found, wanted):
                    wrong.append(f"{of} {value!r} as {to}: {found!r}, not {wanted!r}")
    assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(dict.fromkeys(wrong[:400]))
