"""Contracts of the primitives that a leaf can call: shapes, dtypes, privileges, cost.

A primitive is data: its shape rule as named axes, its dtype rule, its NumPy reference
and its FLOP count. Instructions of a machine name the primitive they implement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.dtypes import accumulator_dtype, is_float, promote
from septran.ir.numerics import BINARY, convert
from septran.ir.scans import JOINS, scanned
from septran.ir.sorting import first_in_order, order

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Contract:
    """The rules and the meaning of a primitive. Operand 0 is written."""

    name: str
    operands: tuple[str, ...]
    """The operands' names, for messages: ``("C", "A", "B")``."""
    axes: tuple[str, ...]
    """A string of axis letters for each operand; equal letters have equal extents."""
    accumulates: bool
    """Whether operand 0 is also read: ``C += ...``."""
    reference: Callable[..., Array]
    """``reference(*operands, **attributes)`` returns operand 0's new value, in NumPy."""
    flops: Callable[[Mapping[str, int]], int]
    """The number of floating-point (or integer) operations, from the axes' extents."""
    attributes: Mapping[str, object] | None = None
    """The attributes that it takes, with their defaults."""
    called: bool = True
    """Whether a leaf calls it by its name; another one has expressions that stand for it."""
    joins: bool = False
    """Whether parallel iterations may do it with the same elements, as no order is wrong."""
    instead: str = ""
    """What to write where a machine has no instruction for it."""
    result: Callable[[Sequence[str]], str] = lambda dtypes: promote(*dtypes)
    """The dtype of operand 0, if it is not declared, from the others' dtypes."""

    @property
    def reduction(self) -> str:
        """The axes that are summed over: those of the inputs that the result lacks."""
        inputs = "".join(self.axes[1:])
        return "".join(dict.fromkeys(a for a in inputs if a not in self.axes[0]))


def _gemm(c: Array, a: Array, b: Array) -> Array:
    # Short integers are multiplied and summed in 32 bits, and only the result wraps around to C's
    # type.
    wide = np.result_type(c.dtype, np.int32) if c.dtype.kind in "iu" else c.dtype
    result: Array = (c + np.matmul(a.astype(wide), b.astype(wide))).astype(c.dtype)
    return result


def solved(lower: Array, right: Array, *, unit: bool) -> Array:
    """Return X with ``lower @ X = right`` by forward substitution, in the arrays' own type."""
    found = np.array(right)
    with np.errstate(all="ignore"):
        for row in range(len(found)):
            if not unit:
                found[row] /= lower[row, row]
            found[row + 1 :] -= lower[row + 1 :, row, None] * found[row]
    return found


def _gemm_dtype(dtypes: Sequence[str]) -> str:
    common = promote(*dtypes)
    return common if is_float(common) else accumulator_dtype(common)


GEMM = Contract(
    "gemm", ("C", "A", "B"), ("mn", "mk", "kn"), accumulates=True, reference=_gemm,
    flops=lambda n: 2 * n["m"] * n["n"] * n["k"], result=_gemm_dtype,
)  # fmt: skip
"""The matrix product C += A @ B; transposed operands are transposed views."""

FILL = Contract(
    "fill", ("X",), ("*",), accumulates=False, attributes={"value": 0},
    reference=lambda x, value=0: np.full_like(x, value), flops=lambda n: 0,
)  # fmt: skip
"""Sets every element of X to `value`."""

COPY = Contract(
    "copy", ("Y", "X"), ("*", "*"), accumulates=False,
    reference=lambda y, x: convert(x, y.dtype), flops=lambda n: 0,
)  # fmt: skip
"""Y = X, converted to Y's dtype."""

SCAN = Contract(
    "scan", ("Y", "X"), ("*", "*"), accumulates=False, called=False,
    reference=lambda y, x, **attributes: scanned(convert(x, y.dtype), **attributes),
    flops=lambda n: n["*"],
    attributes={"axis": -1, "exclusive": False, "function": "sum", "reverse": False},
)  # fmt: skip
"""Y is what comes of X's elements up to each one along an axis, joined in Y's type."""

SOLVE = Contract(
    "solve_triangular", ("X", "L", "B"), ("nm", "nn", "nm"), accumulates=False,
    reference=lambda x, a, b, unit=False: solved(a.astype(x.dtype), b.astype(x.dtype), unit=unit),
    flops=lambda n: n["n"] * n["n"] * n["m"], attributes={"unit": False},
)  # fmt: skip
"""X with L X = B, of L's lower triangle alone; `unit` takes its diagonal for ones."""

SORT = Contract(
    "sort", ("Y", "X"), ("mk", "mn"), accumulates=False,
    reference=lambda y, x, descending=False: convert(
        first_in_order(x, y.shape[1], descending=descending), y.dtype
    ),
    flops=lambda n: n["m"] * n["n"], attributes={"descending": False},
)  # fmt: skip
"""Y are the least of each row of X in order, or the greatest; equal ones stay in their order."""

ARGSORT = Contract(
    "argsort", ("I", "X"), ("mk", "mn"), accumulates=False,
    reference=lambda i, x, descending=False: convert(
        order(x, descending=descending)[:, : i.shape[1]], i.dtype
    ),
    flops=lambda n: n["m"] * n["n"], attributes={"descending": False},
    result=lambda dtypes: "int64",
)  # fmt: skip
"""I are the places in X's rows of what `sort` gives."""

ACCUMULATE = Contract(
    "accumulate", ("Y", "X"), ("*", "*"), accumulates=True, called=False, joins=True,
    reference=lambda y, x, function="sum": BINARY[JOINS[function]](
        y, convert(x, y.dtype)
    ).astype(y.dtype),
    flops=lambda n: n["*"], attributes={"function": "sum"},
    instead="`tunables: {reduction: ordered}` joins parts in a workspace, one after another",
)  # fmt: skip
"""Y += X, or the greater or less of both, each element at once: iterations come in any order."""

PRIMITIVES: Mapping[str, Contract] = {
    **{c.name: c for c in (GEMM, FILL, COPY, SCAN, SOLVE, SORT, ARGSORT, ACCUMULATE)}, "cast": COPY
}  # fmt: skip
"""The primitives by the name that `task.call_primitive` takes; ``cast`` is ``copy``."""
IN_STEPS = ("solve_triangular", "sort", "argsort")
"""The primitives that a pass makes loops of tensor expressions of (`expand_steps`)."""
BY_MAP_UNITS = ("fill", "copy", "scan", *IN_STEPS)
"""The primitives that any unit of tensor expressions computes, too."""


def joined_by(name: str, attributes: Sequence[tuple[str, object]]) -> str:
    """Return the function by which a primitive joins parts in any order; "" for no such one."""
    return str(dict(attributes)["function"]) if PRIMITIVES[name].joins else ""


def extents(contract: Contract, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return extents by axis letter; ``*`` stands for all axes together (their product)."""
    sizes: dict[str, int] = {}
    for letters, shape in zip(contract.axes, shapes, strict=True):
        if letters == "*":
            sizes["*"] = math.prod(shape)
        else:
            sizes.update(zip(letters, shape, strict=True))
    return sizes
