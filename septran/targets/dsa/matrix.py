"""``gemm`` as one command of the matrix unit."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from septran.ir.index import Index, Var, axis
from septran.simulator.commands import DTYPES
from septran.targets.dsa.context import Access, Context, unsupported
from septran.targets.dsa.padding import HINT, leaves
from septran.tile.contracts import demanded_layout
from septran.tile.layouts import ROW
from septran.tile.nodes import Compute
from septran.tile.substitution import FIRST
from septran.tile.verify.bijection import asked_for


def emit_gemm(context: Context, node: Compute, queue: int) -> None:
    """``C += A @ B`` for the extents that exist, or ``C = A @ B`` in a first step."""
    c, a, b = map(context.access, node.operands)
    for name, operand in zip("CAB", (c, a, b), strict=True):
        if leaves(context, operand.region):
            message = f"{node.instruction} takes no zeros from outside of {operand.region.buffer}"
            raise unsupported(node.origin, message, HINT)
        _check_blocks(context, node, name, operand)
    c_stride, c_transposed = _stride(node, c)
    a_stride, a_transposed = _stride(node, a)
    b_stride, b_transposed = _stride(node, b)
    if c_transposed:
        raise unsupported(
            node.origin, f"{node.instruction} cannot write {node.operands[0]} transposed"
        )
    context.command(
        "mma",
        queue,
        c=c.at({}),
        c_stride=c_stride,
        a=a.at({}),
        a_stride=a_stride,
        a_transposed=int(a_transposed),
        b=b.at({}),
        b_stride=b_stride,
        b_transposed=int(b_transposed),
        m=c.region.valid[0],
        n=c.region.valid[1],
        k=a.region.valid[1],
        c_type=DTYPES.index(c.dtype),
        type=DTYPES.index(a.dtype),
        accumulate=_accumulate(context, node),
    )


def _accumulate(context: Context, node: Compute) -> Any:
    """Whether the command adds to what C holds: not in the iteration that comes first."""
    first = dict(node.attributes).get(FIRST)
    if first is None:
        return 1
    index = context.indices.simplify(Index.of(Var(str(first)))) if first else Index()
    # Without a name it always overwrites; a known index decides it at once; else C compares.
    if index.is_constant:
        return int(index.constant != 0)
    return tirx.Cast("int32", context.lower(index) > context.writer.index(0))


def _check_blocks(context: Context, node: Compute, name: str, operand: Access) -> None:
    """A unit takes either blocks of one size or rows, as its machine file says."""
    buffer = operand.storage.buffer
    instruction = context.machine.instruction(node.instruction)
    wanted = demanded_layout(instruction, name, operand.region, buffer) or ROW
    blocks = {layout for layout in (wanted, buffer.layout) if layout.kind == "fractal"}
    if blocks and buffer.layout != wanted:
        message = f"{node.instruction} takes {name} as {wanted}, and {buffer.name} is "
        message, hint = f"{message}{buffer.layout}", "leave its layout to the compiler"
        raise unsupported(node.origin, message, hint, **asked_for(node.origin, buffer))


def _stride(node: Compute, operand: Access) -> tuple[int | Index, bool]:
    """Bytes between rows (of blocks), and whether rows are the region's second axis."""
    region, item = operand.region, operand.storage.item
    buffer = operand.storage.buffer
    if buffer.layout.kind == "fractal":
        return _fractal(node, operand)
    slopes = [operand.slope(n) if operand.affine(n) else None for n in range(2)]
    extents = region.shape
    for rows, cols, transposed in ((0, 1, False), (1, 0, True)):
        row, col = slopes[rows], slopes[cols]
        # Where there is one row, or one column, its stride does not matter.
        if (col == 1 or extents[cols] == 1) and (row is not None or extents[rows] == 1):
            return (row or 0) * item, transposed
    raise unsupported(
        node.origin,
        f"{node.instruction} takes rows of contiguous elements, and {region} has none",
        "place the operand in a memory of the instruction's, so that it is copied together",
    )


def _fractal(node: Compute, operand: Access) -> tuple[int, bool]:
    region, buffer = operand.region, operand.storage.buffer
    high, wide = buffer.layout.parameters
    row, col = region.index[-2:]
    transposed = bool(row.coefficient(axis(1)))
    axes = (axis(1), axis(0)) if transposed else (axis(0), axis(1))
    for entry, variable, size in ((row, axes[0], high), (col, axes[1], wide)):
        if (entry - Index.of(variable)) % size != Index():
            raise unsupported(node.origin, f"{region} does not begin at a block of {buffer.layout}")
    pitch = -(-buffer.shape[-1] // wide) * high * wide * operand.storage.item
    return pitch, transposed
