"""``gemm`` whose B is computed where it is multiplied: of packed weights, say, no copy is made.

A temporary that only the next gemm multiplies by, and that few rows are multiplied by, would
take longer to write and to read again than to compute. So each vector of B is evaluated in the
register tile, from the statements that make B: one for all steps of the summed axis, or one
for each of several equal parts of them (the low and the high halves of bytes), which then
share a loop, so that what they are made from is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from septran.dtypes import accumulator_dtype, itemsize
from septran.ir import expressions as ex
from septran.ir.index import Index, axis
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.finish import Finish, finishing
from septran.targets.cpu.gemm.microkernel import register_tile
from septran.targets.cpu.gemm.prefetch import NextPack
from septran.targets.cpu.gemm.results import (
    RegisterTile,
    Shape,
    left,
    update,
)
from septran.targets.cpu.map.elements import held_dtype, narrow, widen
from septran.targets.cpu.map.widening import WideEvaluation, widened
from septran.targets.cpu.simd import CACHE_LINE
from septran.targets.lower.statements import Point, Statement, operand_point, statements
from septran.targets.lower.values import broadcast
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Compute, Node, Region, TileProgram

MOST_STRIPS = 3
"""Strips of A's rows for which B is computed anew; for more, a copy of it pays."""
SPARE = 6
"""Registers that a tile leaves for what B is computed from."""
PAGE = 4096
"""Bytes of a page of memory."""
LEAST_LOADED = 16
"""Bytes of which a vector of B is made at least where it is the only one of a tile's row."""


@dataclass(frozen=True)
class Part:
    """Some steps of the summed axis, and how B's rows are made there."""

    first: int
    """The first of the steps."""
    statement: Statement


@dataclass(frozen=True)
class Computed:
    """A gemm whose B is computed where it is multiplied."""

    gemm: Compute
    parts: tuple[Part, ...]
    """What computes B."""
    last: Statement | None
    """What takes its sums from registers; None where they are stored."""

    @property
    def temporary(self) -> list[str]:
        """The buffers that nothing is stored in."""
        stored = self.gemm.operands[2 if self.last is None else 0].buffer
        return list(dict.fromkeys((self.gemm.operands[2].buffer, stored)))


def computed(program: TileProgram, nodes: Sequence[Node]) -> Computed | None:
    """The only gemm among neighbours, with those before it, which make its B, and the one behind.

    None where they are anything else.
    """
    gemms = [n for n, node in enumerate(nodes) if _is_gemm(node)]
    if len(gemms) != 1:
        return None
    (place,) = gemms
    gemm, following = nodes[place], nodes[place + 1 :]
    assert isinstance(gemm, Compute)
    parts = computed_parts(program, nodes[: place + 1])
    last = finishing(gemm, following, lambda name: program.buffer(name).dtype)
    if not parts or (last is None) != (not following):
        return None
    sources = {v.tensor for p in parts for v in ex.loads(p.statement.value)}
    kept = last is None or last.target.buffer not in sources  # other tiles are made from them
    return Computed(gemm, parts, last) if kept else None


def _is_gemm(node: Node) -> bool:
    return isinstance(node, Compute) and node.primitive == "gemm"


def computed_parts(program: TileProgram, nodes: Sequence[Node]) -> tuple[Part, ...]:
    """Return the nodes that compute B of the gemm that ends `nodes`; none if B is stored.

    All of B is written by elementwise statements, a part of its rows each, and used by nobody else.
    """
    *makers, gemm = nodes
    if not isinstance(gemm, Compute) or gemm.primitive != "gemm" or not makers:
        return ()
    c, a, b = gemm.operands
    own = b.is_plain and b.buffer not in program.params and b.buffer not in (c.buffer, a.buffer)
    maps = [n for n in makers if isinstance(n, Compute) and n.operands[0].buffer == b.buffer]
    if not own or len(maps) < len(makers) or any(n.accumulates for n in maps):
        return ()
    found, made = statements(maps, lambda name: program.buffer(name).dtype)
    views = {v.tensor for s in found for v in ex.loads(s.value)}
    # B is computed anew for each strip, when parts of C are written already: it may not be made of
    # C.
    if made or any(s.function for s in found) or views & {b.buffer, c.buffer}:
        return ()
    parts = sorted((_part(s) for s in found), key=lambda part: part.first)
    height = found[0].target.shape[0]
    whole = [p.first for p in parts] == list(range(0, b.shape[0], height))
    same = all(p.statement.target.shape == (height, b.shape[1]) for p in parts)
    # `Rows.at` masks columns only, so all rows have to exist.
    certain = a.valid[1] == Index.of(b.shape[0]) == Index.of(len(parts) * height)
    return tuple(parts) if whole and same and certain else ()


def _part(statement: Statement) -> Part:
    """Return where a statement's rows lie in B; before its first one where they lie otherwise."""
    high, wide = statement.target.index
    start = high - Index.of(axis(0))
    plain = start.is_constant and wide == Index.of(axis(1))
    rows = statement.target.valid[0] == Index.of(statement.target.shape[0])
    return Part(start.constant if plain and rows else -1, statement)


def few_rows(context: Context, gemm: Compute) -> bool:
    """Whether so few rows are multiplied by B that computing it again beats keeping it."""
    shape = register_tile(context, gemm, accumulator_dtype(context.dtypes[gemm.operands[0].buffer]))
    return gemm.operands[0].shape[0] <= MOST_STRIPS * shape.rows


@dataclass(frozen=True)
class Rows:
    """B's rows, computed."""

    context: Context
    parts: Sequence[Part]
    accesses: Mapping[Region, Access]
    """What they are made from."""
    held: str
    """B's element type, which its values are rounded to."""
    next_pack: NextPack | None
    """What the next iteration of the loops around makes B from."""
    finish: Finish | None = None
    """What is made of the gemm's sums, where they are not stored."""

    @staticmethod
    def of(context: Context, computed: Computed) -> Rows:
        """Those of a gemm's B."""
        gemm, parts, last = computed.gemm, computed.parts, computed.last
        regions = dict.fromkeys(v for p in parts for v in ex.loads(p.statement.value))
        accesses = {r: context.access(r) for r in regions if isinstance(r, Region)}
        name = gemm.operands[2].buffer
        next_pack = context.next_packs.pop(name, None)
        finish = None if last is None else Finish.of(context, gemm, last)
        parts = tuple(replace(p, statement=_widened(p.statement)) for p in parts)
        return Rows(context, parts, accesses, context.dtypes[name], next_pack, finish)

    @property
    def count(self) -> int:
        """The steps of the summed axis in each part."""
        return self.parts[0].statement.target.shape[0]

    @property
    def followed(self) -> bool:
        """Whether rows of what B is made from are left to the processor's own prefetch.

        It follows rows from memory that are as long as a page, behind which it does not go on. What
        is asked for beforehand comes as fast, if it stays in L2 until then: this iteration's rows
        and those of the next one take less than half of it.
        """
        source, context = self.next_pack, self.context
        if source is None or source.along != 1 or not context.unit.follows:
            return False
        high, wide = source.access.region.shape
        row = wide * itemsize(source.access.storage.held)
        cache = context.cache_bytes(context.machine.processors[-1].name)
        return row >= PAGE and 2 * high * row >= cache // 2

    def tiled(self, shape: Shape, gemm: Compute, enough: int = 0) -> Shape:
        """The register tile in which B is best computed: one that has all rows, if any has.

        As wide as a cache line of what B is made from where the rows are few enough for it, else
        one register wide, so that each vector of B is computed once for up to 26 rows. That tile
        reads parts of lines, which does not pay for up to `enough` rows.
        """
        unit, rows = self.context.unit, gemm.operands[0].shape[0]
        register, room = unit.lanes(shape.dtype), unit.registers - SPARE
        size = min((itemsize(a.storage.held) for a in self.accesses.values()), default=CACHE_LINE)
        line = CACHE_LINE // size // register
        # Vectors of a register: LLVM widens bytes from memory then, and cuts up no longer vectors.
        shape = replace(shape, lanes=register)
        if rows * line <= room:
            count = max(line, shape.registers)
        else:
            narrow = enough < rows <= room and register * size >= LEAST_LOADED
            count = 1 if narrow else shape.registers
        if count == shape.registers:
            return shape
        return Shape(room // count, count * register, register, shape.dtype, registers=count)

    def at(
        self, part: Part, k: Index, shape: Shape, tile: RegisterTile, chunks: Iterable[int]
    ) -> list[Expr]:
        """Row `k` of a part in vectors, as far as the tile has columns, for some of its chunks."""
        found = []
        for chunk in chunks:
            short = left(self.context, shape, tile, chunk) is not None
            count = tile.columns - chunk if short and tile.columns is not None else None
            found.append(self.vector(part, k, tile.column + chunk, shape.lanes, count))
        return found

    def vector(self, part: Part, k: Index, column: Index, lanes: int, count: Index | None) -> Expr:
        """Elements of row `k` of a part, so many of which exist; None: all do."""
        target, value = part.statement.target, part.statement.value
        place = operand_point(Point((k, column), 1, lanes, count), value, target.shape)
        made = WideEvaluation(self.context, self.accesses).value(value, place)
        return broadcast(as_held(self.context, made, self.held), lanes)

    def prefetch(self, k: Index, column: Index, width: int) -> None:
        """Ask for a line that the next iteration makes B from, at step `k` of some columns.

        All columns together ask for every line, one row after another: lines of one page of memory
        are best asked for together, and rows of weights are often a page apart.
        """
        if self.next_pack is None or self.next_pack.along != 1:
            return
        access = self.next_pack.access
        line = CACHE_LINE // itemsize(access.storage.held)
        columns = self.parts[0].statement.target.shape[1]
        tiles, lines = -(-columns // width), -(-columns // line)
        each = -(-lines // tiles)
        step = column // width * self.count + k
        first = step * lines // tiles if lines < tiles else step * each
        for n in range(each):
            number = self.context.variable("line", first + n)
            at = self.context.lower(access.at((number // lines, number % lines * line)))
            simd.prefetch(self.context.writer, access.storage.flat, at, 2)

    def put(
        self, c: Access, first: Index | None, shape: Shape, tile: RegisterTile, sums: list[Any]
    ) -> None:
        """Put a tile's sums where they go."""
        if self.finish is None:
            update(self.context, c, first, shape, tile, sums)
        else:
            self.finish.put(shape, tile, sums)


def _widened(statement: Statement) -> Statement:
    return replace(statement, value=widened(statement.value))


def as_held(context: Context, value: Expr, dtype: str) -> Expr:
    """Return what would be read again had it been stored; of bfloat16 before it is rounded.

    That type has float32's range, so what is kept besides is within the rounding's bound.
    """
    if dtype == "bfloat16":
        return value
    held = held_dtype(dtype)
    return widen(context.writer.bind("s", narrow(context, value, dtype, held)), dtype)
