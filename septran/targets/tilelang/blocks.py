"""What the blocks of one kernel are: their grid, their threads, and what is in fragments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.cuda.kernels import threads
from septran.tile.nodes import (
    Buffer,
    Compute,
    For,
    Node,
    Region,
    Role,
    TileProgram,
    nodes,
    regions,
    views,
)
from septran.tile.substitution import substitute

PLAIN = "simt"
"""The instruction that multiplies and adds one element at a time."""
WARPGROUPS = "wgmma"
"""What the instructions of whole warpgroups are called; others are of single warps."""
WARP = {"cuda": 32, "rocm": 64}
MMA_ROWS, MMA_COLUMNS = 16, 8
"""The least part of a product that TileLang gives a warp."""


@dataclass(frozen=True)
class KernelBlocks:
    """A statement of the program's body as a kernel."""

    grid: tuple[For, ...]
    body: tuple[Node, ...]
    threads: int
    fragments: bool
    """Whether what the mapping puts into registers is in fragments; otherwise it is shared."""
    whole_rows: bool
    """Whether each warp has whole rows of products, as a later one multiplies by what it holds."""

    @staticmethod
    def of(node: Node, program: TileProgram, final: TileProgram, number: int) -> KernelBlocks:
        """The blocks of a statement; `final` has the roles and threads of the mapping."""
        grid, body = _grid(node)
        count = _threads(program, final, number)
        rows = any(
            program.buffer(n.operands[1].buffer).memory == "REGISTER" for n in _products(body)
        )
        count = _divided(body, count, WARP[final.machine.backend], whole_rows=rows)
        held = _registers(body, program)
        fits = all(_divides(b.shape, count) for b in held.values())
        plain = all(_at_own_place(n, held) for n in nodes(body) if isinstance(n, Compute))
        return KernelBlocks(grid, body, count, fits and plain, rows)


def _grid(node: Node) -> tuple[tuple[For, ...], tuple[Node, ...]]:
    """The parallel loops around a kernel, each turned by blocks, and what is inside of them."""
    grid: list[For] = []
    body: tuple[Node, ...] = (node,)
    while len(body) == 1 and isinstance(body[0], For) and body[0].kind == "parallel":
        loop = body[0]
        if not loop.extent.is_constant:
            break
        body = loop.body
        if loop.extent == Index.of(1):
            body = tuple(substitute(inner, {loop.variable: 0}) for inner in body)
        else:
            grid.append(loop)
    return tuple(grid), body


def _threads(program: TileProgram, final: TileProgram, number: int) -> int:
    """The threads of a block that compute; a group that loads TileLang adds by itself."""
    body = (final.body[number],) if len(final.body) == len(program.body) else final.body
    group = 4 * WARP["cuda"] if final.machine.backend == "cuda" else WARP["rocm"]
    consumers = [
        n.count for n in nodes(body) if isinstance(n, Role) and n.name.startswith("consumer")
    ]
    return sum(consumers) * group or threads(final, body, group)


def _products(body: tuple[Node, ...]) -> tuple[Compute, ...]:
    """The products by instructions that take a whole tile."""
    return tuple(
        n for n in nodes(body)
        if isinstance(n, Compute) and n.primitive == "gemm" and n.instruction != PLAIN
    )  # fmt: skip


def _divided(body: tuple[Node, ...], count: int, warp: int, *, whole_rows: bool) -> int:
    """The most threads whose warps can have equal parts of every product."""
    products = _products(body)
    while count > warp and not all(_shared_out(n, count // warp, whole_rows) for n in products):
        count //= 2
    return count


def _shared_out(node: Compute, warps: int, whole_rows: bool) -> bool:
    """Whether so many warps can have equal parts of a product."""
    if node.instruction.startswith(WARPGROUPS) and warps % 4 == 0:
        return True
    rows, columns = node.operands[0].shape
    return any(
        warps % down == 0
        and rows % (MMA_ROWS * down) == 0
        and columns % (MMA_COLUMNS * (warps // down)) == 0
        and (down == warps or not whole_rows)
        for down in range(1, warps + 1)
    )


def _registers(body: tuple[Node, ...], program: TileProgram) -> dict[str, Buffer]:
    names = {r.buffer for n in nodes(body) for r in regions(n)}
    return {
        b.name: b for b in program.buffers if b.name in names and b.memory == "REGISTER"
    }  # fmt: skip


def _divides(shape: tuple[int, ...], count: int) -> bool:
    """Whether TileLang shares out a fragment: evenly, or as one element for some threads."""
    size = math.prod(shape)
    return size % count == 0 or size < count


def _at_own_place(node: Compute, held: dict[str, Buffer]) -> bool:
    """Whether a node has each fragment's elements at one place of its loop, and all of them.

    A fragment is shared out over threads by the loop that fills it: a loop that takes it at two
    places, shifted or transposed, would need elements that other threads have.
    """
    if node.primitive == "gemm":
        # Its own operands may be transposed or a part, which T.gemm takes apart itself.
        return all(_whole(r, held) for r in node.operands[:1])
    return all(_whole(view, held) for view in _read(node))


def _read(node: Compute) -> Iterator[Region]:
    for view in views(node):
        if isinstance(view, Region):
            yield view
    for expr in ex.walk(node.expression) if node.expression is not None else ():
        if isinstance(expr, ex.Load):
            assert isinstance(expr.view, Region)
            yield expr.view


def _whole(region: Region, held: dict[str, Buffer]) -> bool:
    """Whether a region is all of a fragment, in order; that of another memory does not matter."""
    buffer = held.get(region.buffer)
    return buffer is None or (region.is_plain and region.shape == buffer.shape)


def placed(program: TileProgram, blocks: KernelBlocks) -> TileProgram:
    """The program with buffers in shared memory where its blocks have no fragments."""
    if blocks.fragments:
        return program
    moved = tuple(
        replace(b, memory="SHARED") if b.memory == "REGISTER" else b for b in program.buffers
    )
    return replace(program, buffers=moved)
