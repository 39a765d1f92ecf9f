"""``gemm`` an element at a time: for each element of C one sum, in a plain loop."""

from __future__ import annotations

from collections.abc import Sequence

from septran.dtypes import accumulator_dtype
from septran.targets.cpu import simd
from septran.targets.cpu.arithmetic import wrapping
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.results import RegisterTile, Shape, first_step, update
from septran.targets.cpu.map.elements import read
from septran.targets.lower.values import cast
from septran.tile.nodes import Buffer, Compute


def emit_scalar(context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]) -> None:
    """Each of the nodes: ``C += A @ B`` for the extents that exist, or ``C = A @ B``."""
    del private  # a gemm's operands are held by others, too
    for node in nodes:
        _emit(context, node)


def _emit(context: Context, node: Compute) -> None:
    c, a, b = map(context.access, node.operands)
    writer, dtype = context.writer, accumulator_dtype(c.storage.dtype)
    shape, zero = Shape(1, 1, 1, dtype, registers=1), writer.index(0)
    high, wide = c.region.valid
    with context.loop("i", high) as i, context.loop("j", wide) as j:
        total = writer.allocate("acc", 1, dtype)
        simd.store(writer, total, zero, simd.constant(0, dtype, 1), 1)
        with context.loop("k", a.region.valid[1]) as k:
            x = writer.bind("a", cast(read(context, a, (i, k)), dtype))
            y = writer.bind("b", cast(read(context, b, (k, j)), dtype))
            added = wrapping.multiply_add(writer, x, y, simd.load(total, zero, 1))
            simd.store(writer, total, zero, added, 1)
        update(context, c, first_step(context, node), shape, RegisterTile(i, 1, j, None), [total])
