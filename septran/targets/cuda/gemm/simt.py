"""gemm by multiply and add of single elements: any dtype, operands in shared memory.

Each thread accumulates a tile of rows and columns in registers; its rows are the same for
every gemm with as many rows, so that row vectors stay where they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from septran.dtypes import accumulator_dtype, itemsize
from septran.ir.index import Index, Var, maximum, minimum
from septran.targets.cuda.addresses import Access
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.fragment.conversions import stage
from septran.targets.cuda.fragment.fragments import Digit, Fragment, power_of_two, register, thread
from septran.targets.cuda.fragment.registers import RegisterLoop, register_digits
from septran.targets.cuda.gemm.masks import clear_accumulator
from septran.targets.lower.indices import divisor
from septran.tile.nodes import Compute

MOST_STEPS = 4
"""Steps of the reduction whose operands a thread holds at one time."""


def demand_simt(context: Context, node: Compute) -> Mapping[str, Fragment]:
    """The accumulator as tiles of threads, if it is a whole buffer in registers."""
    target = node.operands[0]
    if context.buffer(target.buffer).memory != "REGISTER":
        return {}
    return {target.buffer: thread_tiles(context.buffer(target.buffer).shape, context.threads.count)}


def thread_tiles(shape: tuple[int, ...], threads: int) -> Fragment:
    """Rows go round the threads, columns in vectors of up to four."""
    rows, columns = shape[-2:]
    usable = 1 << threads.bit_length() - 1
    # From rows and threads alone: products with as many rows have them in the same threads.
    down = min(power_of_two(rows), 1 << usable.bit_length() // 2)
    across = usable // down
    inner = min(4, power_of_two(-(-columns // across)))
    outer = -(-columns // (across * inner))
    below = -(-rows // down)
    axes = [[] for _ in shape[:-2]]  # type: list[list[Any]]
    axes.append([register(below, outer * inner), thread(down, across)])
    axes.append([register(outer, inner), thread(across, 1), register(inner, 1)])
    return Fragment.of(axes, threads)


@dataclass
class _Gemm:
    """One gemm's accumulator and operands where the loops are."""

    context: Context
    target: Storage
    walk: RegisterLoop
    valid: tuple[Index, Index, Index]
    """Rows, columns and steps that exist."""
    dtype: str
    """In which it multiplies and adds."""

    def digits(self, axis: int) -> list[Digit]:
        """The registers along rows or columns."""
        return register_digits(self.walk.fragment, [axis])

    def ordinal(self, axis: int) -> Index:
        """The number of this thread's row or column that the loops are at."""
        total, count = Index(), 1
        for digit in reversed(self.digits(axis)):
            total, count = total + self.walk.steps.get(digit, Index()) * count, count * digit.extent
        return total

    def coordinate(self, axis: int) -> Index:
        """The row or column that the loops are at, but none beyond those that exist."""
        at, limit = self.walk.coordinate(axis), self.valid[axis]
        if self.context.indices.surely_below(at, limit):
            return at
        # Threads beyond the edge do the last one once more, and nobody stores that: no condition
        # around loads. Where there may be none at all, the first place is read.
        last = minimum(at, limit - 1)
        return last if self.context.indices.bounds(limit)[0] > 0 else maximum(0, last)

    def register(self) -> Index:
        """Return where the accumulator of the current row and column is."""
        total = Index()
        for axis in (0, 1):
            for digit in self.digits(axis):
                total = total + self.walk.steps.get(digit, Index()) * digit.stride
        return total


def emit_simt(context: Context, node: Compute) -> None:
    """``C += A @ B``, or ``C = A @ B`` where the node says that it is the first."""
    target = context.storages[node.operands[0].buffer]
    assert target.fragment is not None
    a, b = _operands(context, node)
    rows, columns = node.operands[0].valid
    steps = minimum(node.operands[1].valid[1], node.operands[2].valid[0])
    gemm = _Gemm(
        context, target, RegisterLoop(context, target.fragment), (rows, columns, steps),
        accumulator_dtype(target.dtype),
    )  # fmt: skip
    clear_accumulator(context, node)
    size = max(itemsize(a.storage.dtype), itemsize(b.storage.dtype))
    # It divides the number of steps, so that none are left over.
    chunk = math.gcd(divisor(steps), min(MOST_STEPS, 16 // size))
    with context.loop("step", context.indices.simplify(steps // chunk)) as trip:
        left = _load(gemm, a, 0, trip * chunk, chunk)
        right = _load(gemm, b, 1, trip * chunk, chunk)
        _multiply(gemm, left, right, chunk)


def _operands(context: Context, node: Compute) -> tuple[Access, Access]:
    """A and B in memory; fragments are put into shared memory first."""
    regions = node.operands[1:3]
    held = [context.storages[r.buffer] for r in regions]
    needed = {s.name: s for s in held if s.memory == "REGISTER"}
    staged = stage(context, needed.values()) if needed else {}
    places = [staged.get(s.name, s) for s in held]
    first, second = (Access(context, s, r) for s, r in zip(places, regions, strict=True))
    return first, second


def _load(gemm: _Gemm, access: Access, axis: int, step: Index, count: int) -> Any:
    """An operand's elements for this thread's rows or columns, `count` steps of each."""
    digits = gemm.digits(axis)
    held = math.prod(d.extent for d in digits)
    array = gemm.context.writer.allocate("ab"[axis], held * count, gemm.dtype)
    lane = digits[-1] if digits and digits[-1].stride == 1 else None
    # Vectors along the steps where memory lets them, else along neighbouring rows or columns.
    if lane is None or _width(gemm, access, axis, step, count, None) > 1:
        with gemm.walk.over(digits):
            _vectors(gemm, access, axis, (step, count), array, None)
        return array
    with gemm.walk.over(digits[:-1]):
        for number in range(count):
            gemm.walk.steps[lane] = Index()
            _vectors(gemm, access, axis, (step + number, count), array, (lane, number))
    return array


def _places(gemm: _Gemm, axis: int, step: Index) -> tuple[Index, Index]:
    """An operand's element: of A row and step, of B step and column."""
    at = gemm.coordinate(axis)
    return (at, step) if axis == 0 else (step, at)


def _width(
    gemm: _Gemm, access: Access, axis: int, step: Index, count: int, lane: Digit | None
) -> int:
    """Elements that one load brings, along the steps or along a digit."""
    variable = Var("@vector")
    extent = count if lane is None else lane.extent
    gemm.context.indices.bind(variable, None, 0, max(1, extent - 1))
    if lane is None:
        return access.width(_places(gemm, axis, step + variable), variable, extent)
    gemm.walk.steps[lane] = Index.of(variable)
    return access.width(_places(gemm, axis, step), variable, extent)


def _vectors(
    gemm: _Gemm,
    access: Access,
    axis: int,
    steps: tuple[Index, int],
    array: Any,
    along: tuple[Digit, int] | None,
) -> None:
    """Load the steps of one row or column; or one step of neighbours (`along`: digit, step)."""
    writer, (step, count) = gemm.context.writer, steps
    lane = along[0] if along is not None else None
    width = _width(gemm, access, axis, step, count, lane)
    extent = count if lane is None else lane.extent
    for start in range(0, extent, width):
        if lane is not None:
            gemm.walk.steps[lane] = Index.of(start)
        place = _places(gemm, axis, step + (0 if lane else start))
        loaded = writer.load(access.storage.flat, access.lower(place, width), width)
        values = [loaded]
        if width > 1:
            # A vector is taken apart in an array of its own type, before its elements are widened.
            held = writer.allocate("v", width, access.storage.dtype)
            writer.store(held, 0, loaded, width)
            values = [writer.load(held, n) for n in range(width)]
        for n, value in enumerate(values):
            if along is not None:
                gemm.walk.steps[along[0]] = Index.of(start + n)
            spot = gemm.ordinal(axis) * count + (along[1] if along else start + n)
            value = gemm.context.arithmetic.convert(value, gemm.dtype)
            writer.store(array, gemm.context.lower(spot), value)


def _multiply(gemm: _Gemm, left: Any, right: Any, count: int) -> None:
    """Multiply and add what was loaded for `count` steps."""
    context, writer, flat = gemm.context, gemm.context.writer, gemm.target.flat
    arithmetic = context.arithmetic
    # Each accumulator is loaded and stored once for all steps of the chunk.
    with gemm.walk.over([*gemm.digits(0), *gemm.digits(1)]):
        spot = context.lower(gemm.register())
        row, column = gemm.ordinal(0) * count, gemm.ordinal(1) * count
        total = arithmetic.convert(writer.load(flat, spot), gemm.dtype)
        for n in range(count):
            a = writer.load(left, context.lower(row + n))
            b = writer.load(right, context.lower(column + n))
            total = arithmetic.wrapped("add", total, arithmetic.wrapped("multiply", a, b))
        writer.store(flat, spot, arithmetic.convert(total, gemm.target.dtype))
