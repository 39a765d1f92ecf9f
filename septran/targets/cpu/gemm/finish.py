"""What is made of a gemm's sums while they are in registers.

Sums of a group of steps that only the next statement reads, element by element, to scale them and
add them to a total, say, would be written and read again for every few steps. So the statement is
evaluated where the register tile would be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access, Storage
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.results import RegisterTile, Shape, left, summed
from septran.targets.cpu.map.elements import held_dtype, narrow, widen, write
from septran.targets.cpu.map.values import VectorEvaluation
from septran.targets.lower.statements import (
    Point,
    Statement,
    operand_point,
    regions_of,
    statements,
    touched,
)
from septran.targets.lower.values import broadcast
from septran.targets.lower.writer import Expr
from septran.tile.layouts import ROW
from septran.tile.nodes import Compute, Node, Region


def finishing(
    gemm: Compute, following: Sequence[Node], dtype: Callable[[str], str]
) -> Statement | None:
    """Return the statement that `following` is, if it may be evaluated on each tile of the gemm.

    It reads the sums at the element that it writes, all of their steps are in them, and it writes
    nothing that other tiles are computed from. Whether others use the sums is not asked here.
    """
    maps = [n for n in following if isinstance(n, Compute) and n.primitive == "map"]
    sums = gemm.operands[0]
    if len(maps) < len(following) or dict(gemm.attributes).get("first") != "" or not sums.is_plain:
        return None
    found, made = statements(maps, dtype)
    if len(found) != 1 or made or found[0].function is not None:
        return None
    statement = found[0]
    same = (statement.target.shape, statement.target.valid) == (sums.shape, sums.valid)
    multiplied = {operand.buffer for operand in gemm.operands}
    if not same or statement.target.buffer in multiplied:
        return None
    expected = _element(replace(statement, value=ex.Load(sums, dtype(sums.buffer))), sums.buffer)
    return statement if _element(statement, sums.buffer) == expected else None


def _element(statement: Statement, buffer: str) -> set[object]:
    """The elements of a buffer that a statement touches where it writes one."""
    return {at for region, at in touched(statement, -1) if region.buffer == buffer}


@dataclass(frozen=True)
class Finish:
    """The statement that takes a gemm's sums from registers."""

    context: Context
    statement: Statement
    sums: str
    """The buffer that the sums are read as, which is not stored."""
    accesses: Mapping[Region, Access]

    @staticmethod
    def of(context: Context, gemm: Compute, statement: Statement) -> Finish:
        """That of a gemm, whose result has no place in memory from here on."""
        c = gemm.operands[0]
        dtype = context.dtypes[c.buffer]
        context.storages[c.buffer] = Storage(c.buffer, c.shape, dtype, ROW, None, held_dtype(dtype))
        others = [r for r in dict.fromkeys(regions_of(statement)) if r.buffer != c.buffer]
        return Finish(context, statement, c.buffer, {r: context.access(r) for r in others})

    @property
    def target(self) -> Access:
        """What is written."""
        return self.accesses[self.statement.target]

    def prefetch(self, column: Index, width: int) -> None:
        """Ask for what the statement reads of the caller's tensors of one row, for some columns."""
        for access in self.accesses.values():
            storage = access.storage
            if storage.owned or access.region.shape[0] > 1 or access.stride(1) != 1:
                continue
            for first in range(0, width, simd.CACHE_LINE // itemsize(storage.held)):
                at = self.context.lower(access.at((Index(), column + first)))
                simd.prefetch(self.context.writer, storage.flat, at, 3)

    def put(self, shape: Shape, tile: RegisterTile, rows: Sequence[Any]) -> None:
        """The statement for each vector of a tile."""
        known = tile.columns.constant if tile.columns and tile.columns.is_constant else None
        for number, row in enumerate(rows):
            for chunk in shape.chunks:
                if known is None or chunk < known:
                    self._vector(shape, tile, number, chunk, row)

    def _vector(self, shape: Shape, tile: RegisterTile, number: int, chunk: int, row: Any) -> None:
        context, value = self.context, self.statement.value
        exist = left(context, shape, tile, chunk)
        count = None if exist is None or tile.columns is None else tile.columns - chunk
        at = (tile.row + number, tile.column + chunk)
        evaluation = VectorEvaluation(context, self.accesses)
        total = simd.load(row, context.writer.index(chunk), shape.lanes)
        evaluation.keep(self.sums, self._as_stored(total))
        point = operand_point(Point(at, 1, shape.lanes, count), value, self.statement.target.shape)
        made = broadcast(evaluation.value(value, point), shape.lanes)
        write(context, self.target, at, made, 1, exist)

    def _as_stored(self, total: Expr) -> Expr:
        """Return what would be read of a sum, had it been stored."""
        context, dtype = self.context, self.context.dtypes[self.sums]
        held = held_dtype(dtype)
        short = narrow(context, summed(total, dtype), dtype, held)
        return widen(context.writer.bind("s", short), dtype)
