"""``gemm`` on a tile: a register-tiled microkernel under loops over panels and strips.

For each panel of B (in L1) and each strip of A's rows, the tile of C stays in vector
registers over the whole k loop: one broadcast of A and one FMA a register and step.
Operands may lie anywhere and in any layout; packed ones are fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from septran.dtypes import accumulator_dtype, itemsize
from septran.ir.index import Index, ceil_div
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.arithmetic import wrapping
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.dots import emit_dots, lie_along
from septran.targets.cpu.gemm.k_loop import KLoopNest, panels, stream, strips, walk
from septran.targets.cpu.gemm.prefetch import (
    MAX_INTERVAL,
    MIN_INTERVAL,
    MIN_PRODUCTS,
    NextColumnPanel,
    NextPack,
    NextRowStrip,
    Prefetch,
    far,
    panel_ahead,
)
from septran.targets.cpu.gemm.results import (
    RegisterTile,
    Shape,
    accumulators,
    add_products,
    column_major,
    first_step,
    left,
    prefetch,
    prefetch_row,
    tile_lines,
    update,
)
from septran.targets.cpu.simd import CACHE_LINE
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Buffer, Compute

# 2**24 / 128**2, and the power of two below 2**24 / 255**2: partial sums stay within 24 bits.
EXACT_STEPS = {"int8": 1024, "uint8": 256}
"""Products of these types that sum exactly in float32's 24 bits."""
MOST_PANELS = 2
"""Of B that a block of A is read in place for with its next rows prefetched in each."""
UNROLLED = 4
"""Steps of k in one iteration of a loop that only computes, where the machine file says nothing:
a core whose front end another thread shares then keeps its two multipliers busy."""
PREFETCHING = 2
"""The same of a loop that prefetches, which is cut into groups of steps anyway: 5 % of a product of
1024 x 1024 x 1024 (Cascade Lake, AVX-512), where four gain half of that."""
LINES_IN_FLIGHT = 10
"""That a core of these days waits for together: 10 to 24 (Intel's line fill buffers, AMD's missing
address buffers). More of C at once, and B waits behind it: of 2048 x 2048 x 1024 bytes a tenth of
the time, of 512 steps a quarter (Cascade Lake)."""
STEPS_FOR_A_ROW = 16
"""Between one row of C and the next that is asked for: loops of 8 take half as long again."""
MOST_COUNTED = 2**31 - 1
"""Lines times rows that are counted in the kernel's integers."""


@dataclass(frozen=True)
class Operands:
    """C, A and B of one gemm, and how far it sums."""

    c: Access
    a: Access
    b: Access
    steps: Index
    """Steps of the summed axis that exist."""
    first: Index | None
    """C is overwritten where this is 0 and summed into elsewhere; None: always summed."""
    walk: KLoopNest
    """How the steps are counted."""
    next_pack: NextPack | None
    """The next source of a packed operand, prefetched meanwhile; None where there is none."""
    sums: str
    """The type that products are summed in."""
    elements: int = 1
    """Elements of the summed axis in one step."""


def emit_multiply_adds(
    context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]
) -> None:
    """Each of the nodes, summed in the type of C's arithmetic."""
    del private  # a gemm's operands are held by others, too
    for node in nodes:
        _emit(context, node, accumulator_dtype(context.storages[node.operands[0].buffer].dtype))


def emit_exact_sums(context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]) -> None:
    """Each of the nodes, by float32's FMAs where these are exact, else as others are summed."""
    for node in nodes:
        a, b = (context.storages[operand.buffer].dtype for operand in node.operands[1:])
        limit = min(EXACT_STEPS.get(a, 0), EXACT_STEPS.get(b, 0))
        if node.operands[1].shape[1] <= limit:
            _emit(context, node, "float32")
        else:
            emit_multiply_adds(context, [node], private)


def _emit(context: Context, node: Compute, sums: str) -> None:
    """``C += A @ B`` for the extents that exist, or ``C = A @ B`` in a first step."""
    c, a, b = _oriented(context, node)
    steps = context.variable("steps", node.operands[1].valid[1])
    way = walk(context, ((a, 1), (b, 0)), steps)
    first, next_pack = first_step(context, node), take_next_pack(context, a, b)
    operands = Operands(c, a, b, steps, first, way, next_pack, sums)
    # Dot products along k are written with FMAs, which integers have not.
    if sums[0] == "f" and lie_along(a, b):
        emit_dots(context, operands)
        return
    shape = register_tile(context, node, operands.sums)

    def tile(shape: Shape, tile: RegisterTile) -> None:
        _microkernel(context, operands, shape, tile)

    tiles(context, c, shape, tile)


def tiles(
    context: Context, c: Access, shape: Shape, body: Callable[[Shape, RegisterTile], None]
) -> None:
    """Run `body` on each register tile of C: strip after strip of each panel."""
    high, wide = (context.variable(s, v) for s, v in zip("mn", c.region.valid, strict=True))
    tiles_of(context, high, wide, shape, body)


def tiles_of(
    context: Context,
    high: Index,
    wide: Index,
    shape: Shape,
    body: Callable[[Shape, RegisterTile], None],
) -> None:
    """Run `body` on each register tile of so many rows and columns."""

    def panel(column: Index, columns: Index | None) -> None:
        for narrow, fits in _narrowed(context, shape, wide, columns):

            def strip(row: Index, rows: int, narrow: Shape = narrow) -> None:
                body(narrow, RegisterTile(row, rows, column, columns))

            with context.writer.when(fits):
                strips(context, high, narrow, strip)

    panels(context, wide, shape.columns, panel, shape.columns // shape.registers)


def take_next_pack(context: Context, a: Access, b: Access) -> NextPack | None:
    """Return what the next iteration packs; another gemm need not prefetch it again."""
    found = [context.next_packs.pop(o.region.buffer, None) for o in (a, b)]
    return next((next_pack for next_pack in found if next_pack), None)


def _oriented(context: Context, node: Compute) -> tuple[Access, Access, Access]:
    """C, A and B; or all three transposed, where vectors can be had of A and not of B.

    The transposed product is the same sums: elements of B are then what is broadcast.
    """
    c, a, b = map(context.access, node.operands)
    if b.run(1) > 1 or a.run(0) <= 1:
        return c, a, b
    transposed = [context.access(r.transposed((1, 0))) for r in node.operands]
    return transposed[0], transposed[2], transposed[1]


def register_tile(context: Context, node: Compute, dtype: str) -> Shape:
    """From the instruction's tile, scaled to the type that products are summed in."""
    instruction = context.machine.instruction(node.instruction)
    rows, columns = instruction.tile[:2] or context.unit.tile
    register = context.unit.lanes(dtype)
    # Half as many columns of float64 take as many registers.
    columns = max(register, columns * 4 // itemsize(dtype) // register * register)
    lanes = register
    # LLVM splits longer vectors into registers; fewer statements pass through TVM faster.
    while columns % (lanes * 2) == 0:
        lanes *= 2
    unroll = int(instruction.options.get("unroll", 0))
    return Shape(rows, columns, lanes, dtype, unroll, columns // register)


def _narrowed(
    context: Context, shape: Shape, extent: Index, columns: Index | None
) -> list[tuple[Shape, Expr | bool]]:
    """The register tiles for what is left of the columns, each with when it is the one.

    None has a register without any of the columns: behind the last panel of an operand
    there may be nothing that can be read. Fewer columns leave registers for more rows.
    """
    if columns is None:
        return [(shape, True)]
    register = context.unit.lanes(shape.dtype)
    if columns.is_constant:
        narrow = _of_registers(shape, -(-columns.constant // register), register)
        return [(replace(narrow, rows=shape.rows * shape.columns // narrow.columns), True)]
    values = context.values(extent)
    rests = range(1, shape.columns) if values is None else {v % shape.columns for v in values}
    counts = sorted({-(-rest // register) for rest in rests} - {0})
    found: list[tuple[Shape, Expr | bool]] = []
    for count in counts:
        number = context.lower(ceil_div(columns, register))
        fits = counts == [count] or number == context.writer.index(count)
        found.append((_of_registers(shape, count, register), fits))
    return found


def _of_registers(shape: Shape, count: int, register: int) -> Shape:
    """The register tile with that many registers in a row."""
    width = count * register
    return replace(shape, columns=width, lanes=min(shape.lanes, width & -width), registers=count)


def _microkernel(context: Context, operands: Operands, shape: Shape, tile: RegisterTile) -> None:
    writer = context.writer
    rows = accumulators(writer, shape, tile.rows)
    sum_up(context, operands, shape, tile, _steps(context, operands, shape, tile, rows))
    update(context, operands.c, operands.first, shape, tile, rows)


def sum_up(
    context: Context,
    operands: Operands,
    shape: Shape,
    tile: RegisterTile,
    step: Callable[[Index], None],
) -> None:
    """All steps of k, between which something is prefetched: at least the tile of C."""
    beside = _prefetch(context, operands, shape, tile)
    every = beside.every if beside else 1
    # A loop that prefetches is cut into groups of steps anyway.
    unroll = shape.unroll or (PREFETCHING if beside else UNROLLED)
    parts = max(1, every // unroll)
    at_once = parts * unroll
    each = _groups_for_a_row(operands, shape, tile, at_once)
    if not each:
        prefetch(context, operands.c, shape, tile)
    if operands.walk.extents:
        with operands.walk.loops(context, beside) as steps:
            for k in steps:
                step(k)
        return

    ahead = panel_ahead(context, operands.b, operands.elements, shape.columns, tile.column)

    def group(k: Index) -> None:
        if beside:
            beside.issue(context, k)
        with context.loop("k", parts) as part, context.loop("u", unroll, unrolled=True) as u:
            at = k * at_once + part * unroll + u
            if ahead:
                ahead.issue(context, at)
            step(at)

    whole, done = context.variable("whole", operands.steps // at_once), each * tile.rows
    if each:
        with context.loop("row", tile.rows) as row:
            prefetch_row(context, operands.c, shape, tile, row)
            with context.loop("k", each) as k:
                group(row * each + k)
    if whole != Index.of(done):
        with context.loop("k", whole - done) as k:
            group(k + done)
    if at_once > 1:
        with context.loop("k", operands.steps - whole * at_once) as k:
            step(whole * at_once + k)


def _groups_for_a_row(operands: Operands, shape: Shape, tile: RegisterTile, size: int) -> int:
    """Return between how many groups of steps a row of C's tile is asked for.

    0 where all of the tile is asked for at once, as it is no more than a core waits for together,
    or is in a cache of the core's own.
    """
    if operands.c.storage.owned:
        return 0
    if operands.walk.extents or not operands.steps.is_constant or tile.columns is not None:
        return 0
    if column_major(operands.c) or tile_lines(operands.c, shape, tile) <= LINES_IN_FLIGHT:
        return 0
    groups = operands.steps.constant // (size * tile.rows)
    return groups if groups * size >= STEPS_FOR_A_ROW else 0


def _prefetch(
    context: Context, operands: Operands, shape: Shape, tile: RegisterTile
) -> Prefetch | None:
    """So often that all tiles together prefetch every line, or as many as there is time for."""
    next_pack = operands.next_pack
    if next_pack is None:
        columns = _next_columns(context, operands, shape, tile)
        return columns or _next_rows(context, operands, shape, tile)
    high, wide = _usual_rows(context, operands.c), operands.c.region.shape[1]
    panels = -(-wide // shape.columns)
    total = next_pack.runs * panels * high
    steps = operands.a.region.shape[1] // operands.elements * total // shape.rows
    least = max(PREFETCHING, MIN_PRODUCTS // (shape.rows * shape.registers))
    # Where computing takes less time than memory, as many of the first lines as there is time for.
    apart = steps // next_pack.lines
    every = max(least, _rounded(max(1, apart)))
    lines = min(next_pack.lines, steps // every)
    if not lines or apart > MAX_INTERVAL or total * lines > MOST_COUNTED:
        return None
    done = (next_pack.run * panels + tile.column // shape.columns) * high + tile.row
    return Prefetch(next_pack, context.variable("line", done * lines // total), every)


def _usual_rows(context: Context, c: Access) -> int:
    """The rows of a product; of one that data decides, as many as sections of one length have."""
    rows, valid = c.region.shape[0], c.region.valid[0]
    tables = {context.storages[element.tensor].shape for element in valid.elements()}
    sections = max((math.prod(extent - 1 for extent in shape) for shape in tables), default=1)
    return max(1, rows // max(1, sections))


def _next_columns(
    context: Context, operands: Operands, shape: Shape, tile: RegisterTile
) -> Prefetch | None:
    """The next panel of B, where it is read in place and far away."""
    b, (high, wide) = operands.b, operands.c.region.shape
    if wide <= shape.columns:  # there is none
        return None
    # The next panel has as many lines as a strip has steps, and all strips of this one share them.
    every = high // shape.rows
    if tile.columns is not None or not MIN_INTERVAL <= every <= MAX_INTERVAL or not far(context, b):
        return None
    beside = NextColumnPanel(b, tile.column + shape.columns)
    first = context.variable("line", tile.row * beside.lines // high)
    return Prefetch(beside, first, _rounded(every))


def _next_rows(
    context: Context, operands: Operands, shape: Shape, tile: RegisterTile
) -> Prefetch | None:
    """The next strip of A, where it is read in place and far away, by the first panels."""
    a, panels = operands.a, -(-operands.c.region.shape[1] // shape.columns)
    if panels > MOST_PANELS or not far(context, a):
        return None
    line = CACHE_LINE // itemsize(a.storage.held) // operands.elements
    return Prefetch(NextRowStrip(a, tile.row + tile.rows, tile.rows), Index(), line)


def _rounded(every: int) -> int:
    """A power of two, which divides most numbers of steps."""
    return 1 << (every.bit_length() - 1)


def _steps(
    context: Context, operands: Operands, shape: Shape, tile: RegisterTile, rows: list[Any]
) -> Callable[[Index], None]:
    """Return what one step of k does: a column of A times a row of B."""
    writer = context.writer
    walk = operands.walk
    column_of_a = stream(context, operands.a, (tile.row, Index()), 1, range(tile.rows), walk)
    row_of_b = stream(context, operands.b, (Index(), tile.column), 0, shape.chunks, walk)

    def step(k: Index) -> None:
        at = k if walk.extents else context.variable("k", k)
        vectors = {}
        for c in shape.chunks:
            count = left(context, shape, tile, c)
            vectors[c] = writer.bind("b", row_of_b(at, c, shape.lanes, shape.dtype, count))
        add_products(
            writer, shape, rows, vectors, lambda i: column_of_a(at, i, 1, shape.dtype, None),
            partial(wrapping.multiply_add, writer),
        )  # fmt: skip

    return step
