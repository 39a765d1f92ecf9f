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
from septran.targets.cuda.addresses import Access, divisor
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.conversions import stage
from septran.targets.cuda.fragments import Fragment, power_of_two, register, thread
from septran.targets.cuda.mathematics import cast
from septran.targets.cuda.registers import Walk, register_digits, zero
from septran.targets.cuda.writer import Expr
from septran.task.index import Index, Var, minimum
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
    down = min(power_of_two(rows), 1 << (threads.bit_length() // 2))
    across = threads // down
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
    walk: Walk
    a: Access
    b: Access
    valid: tuple[Index, Index, Index]
    """Rows, columns and steps that exist."""
    dtype: str

    def operand(
        self, access: Access, fixed: int, coordinate: Index, step: Index, count: int
    ) -> list[Expr]:
        """`count` elements of a row of A, or of a column of B, along the reduction."""
        writer = self.context.writer
        lane = Var("@step")
        self.context.indices.bind(lane, None, 0, max(1, count - 1))
        places = [coordinate, step + lane] if fixed == 0 else [step + lane, coordinate]
        width = access.width(places, lane, count)
        values: list[Expr] = []
        for start in range(0, count, width):
            at = [c.substitute({lane: start}) for c in places]
            loaded = writer.load(access.storage.flat, access.lower(at, width), width)
            if width == 1:
                values.append(writer.bind("v", cast(loaded, self.dtype)))
                continue
            array = writer.allocate("v", width, access.storage.dtype)
            writer.store(array, 0, loaded, width)
            values += [cast(writer.load(array, n), self.dtype) for n in range(width)]
        return values


def emit_simt(context: Context, node: Compute) -> None:
    """``C += A @ B``, or ``C = A @ B`` where the node says that it is the first."""
    target = context.storages[node.operands[0].buffer]
    fragment = target.fragment
    assert fragment is not None
    a, b = _operands(context, node)
    rows, columns = node.operands[0].valid
    steps = minimum(node.operands[1].valid[1], node.operands[2].valid[0])
    gemm = _Gemm(
        context, target, Walk(context, fragment), a, b, (rows, columns, steps),
        accumulator_dtype(target.dtype),
    )  # fmt: skip
    _clear(context, node, target)
    _accumulate(gemm)


def _operands(context: Context, node: Compute) -> tuple[Access, Access]:
    """A and B in memory; fragments are put into shared memory first."""
    regions = node.operands[1:3]
    held = [context.storages[r.buffer] for r in regions]
    needed = {s.name: s for s in held if s.memory == "REGISTER"}
    staged = stage(context, needed.values()) if needed else {}
    places = [staged.get(s.name, s) for s in held]
    first, second = (Access(context, s, r) for s, r in zip(places, regions, strict=True))
    return first, second


def _clear(context: Context, node: Compute, target: Storage) -> None:
    """Set the accumulator to 0 where nothing is to be added to."""
    first = context.first(dict(node.attributes))
    if first is False:
        return
    assert target.fragment is not None
    writer = context.writer
    with writer.when(first), context.loop("r", target.fragment.registers, unrolled=True) as number:
        writer.store(target.flat, context.lower(number), zero(target.dtype))


def _accumulate(gemm: _Gemm) -> None:
    """The loop over the reduction, a few steps at a time."""
    context, steps = gemm.context, gemm.valid[2]
    size = itemsize(gemm.a.storage.dtype)
    chunk = math.gcd(divisor(steps), min(MOST_STEPS, 16 // size))
    trips = context.indices.simplify(steps // chunk)
    rows = [_clamped(gemm, 0), _clamped(gemm, 1)]
    with context.loop("step", trips) as trip:
        _step(gemm, rows, trip * chunk, chunk)


def _clamped(gemm: _Gemm, axis: int) -> list[tuple[Index, Index]]:
    """Coordinates of this thread's rows or columns, none beyond those that exist."""
    context, walk = gemm.context, gemm.walk
    fragment = walk.fragment
    digits = register_digits(fragment, [axis])
    found = [(Index(), Index())]
    for digit in digits:
        weight = next(w for d, w in fragment.weighted(axis) if d == digit)
        found = [
            (at + n * weight, spot + n * digit.stride)
            for at, spot in found
            for n in range(digit.extent)
        ]
    part = context.part(fragment, axis)
    return [(_below(gemm, axis, part + at), spot) for at, spot in found]


def _below(gemm: _Gemm, axis: int, coordinate: Index) -> Index:
    indices, limit = gemm.context.indices, gemm.valid[axis]
    if indices.below(coordinate, limit) is None:
        return coordinate
    return indices.named("row" if axis == 0 else "column", minimum(coordinate, limit - 1))


def _step(gemm: _Gemm, places: list[list[tuple[Index, Index]]], step: Index, count: int) -> None:
    """Multiply and add for `count` steps: all rows of A, one column of B after the other."""
    context, writer, flat = gemm.context, gemm.context.writer, gemm.target.flat
    left = [gemm.operand(gemm.a, 0, at, step, count) for at, _ in places[0]]
    right = _columns(gemm, places[1], step, count)
    for (_, row), a in zip(places[0], left, strict=True):
        for (_, column), b in zip(places[1], right, strict=True):
            spot = context.lower(row + column)
            total = cast(writer.load(flat, spot), gemm.dtype)
            for n in range(count):
                total = total + a[n] * b[n]
            writer.store(flat, spot, cast(total, gemm.target.dtype))


def _columns(
    gemm: _Gemm, places: list[tuple[Index, Index]], step: Index, count: int
) -> list[list[Expr]]:
    """For each column, the elements of B for `count` steps."""
    return [gemm.operand(gemm.b, 1, at, step, count) for at, _ in places]

