"""Expressions of several rows at once: the elements of a group side by side, column after column.

What products by groups multiply by is computed from rows that are interleaved as they are read. An
elementwise function of them is the same in any order, and two parts that are made from the same
rows, the two halves of bytes, share the interleaving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tvm import tirx

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.ir.index import Index, Var
from septran.ir.views import View
from septran.targets.cpu.map.values import VectorEvaluation
from septran.targets.lower.statements import Point
from septran.targets.lower.values import bits, broadcast, element_of, lanes_of
from septran.targets.lower.writer import Expr, Writer

GROUP = 4
"""Rows of a group."""
NUMBER = Var("@row of the group")
"""The number of a row in its group, in the points at which groups are evaluated."""
BLOCK = 16
"""Bytes of a register in which x86's interleaving instructions work."""


def joinable(value: ex.Expr) -> bool:
    """Whether an expression depends on its place by what it reads alone."""
    return not any(isinstance(node, ex.IndexValue | ex.Position) for node in ex.walk(value))


@dataclass
class JoinedEvaluation(VectorEvaluation):
    """Values of a quarter of the columns of a point, of all rows of the group."""

    lanes: int = field(kw_only=True)
    """Columns that are read at once, and elements of a group for a quarter of them."""
    quarter: int = field(kw_only=True)
    """Which quarter of the columns."""
    joined: dict[tuple[View, Point], list[Expr]] = field(kw_only=True)
    """What was read, by quarters; common to several evaluations."""

    def load(self, expr: ex.Load, place: Point) -> Expr:
        """From the rows that were read and interleaved once."""
        key = expr.view, place
        if key not in self.joined:
            self.joined[key] = self._join(expr, place)
        return self.joined[key][self.quarter]

    def _join(self, expr: ex.Load, place: Point) -> list[Expr]:
        differ = any(NUMBER in entry.variables() for entry in place.at)
        found = []
        for n in range(GROUP if differ else 1):
            at = tuple(entry.substitute({NUMBER: Index.of(n)}) for entry in place.at)
            found.append(super().load(expr, replace(place, at=at)))
        if not differ and place.along is None:
            return found * GROUP
        return interleaved(self.context.writer, [broadcast(v, self.lanes) for v in found])


def interleaved(writer: Writer, rows: Sequence[Expr]) -> list[Expr]:
    """The rows' elements column by column, in as many vectors; a single row stands for all."""
    rows = [writer.bind("row", row) for row in rows]
    four = list(rows) * (GROUP // len(rows))
    lanes, dtype = lanes_of(rows[0]), element_of(rows[0])
    if itemsize(dtype) == 1 and lanes in (2 * BLOCK, 4 * BLOCK):
        return [bits(v, dtype) for v in _by_blocks(writer, four)]
    found = []
    for first in range(0, lanes, lanes // GROUP):
        columns = range(first, first + lanes // GROUP)
        order = [n * lanes + column for column in columns for n in range(GROUP)]
        found.append(writer.bind("joined", tirx.Shuffle(four, order)))
    return found


def _by_blocks(writer: Writer, rows: Sequence[Expr]) -> list[Expr]:
    """Bytes, by two steps of ``vpunpck``, and what puts its blocks in order."""
    return in_order(writer, groups_by_blocks(writer, rows))


def groups_by_blocks(writer: Writer, rows: Sequence[Expr]) -> list[Expr]:
    """Bytes of four rows as groups, the words of 32 bits that two steps of ``vpunpck`` make.

    Of each block of 16 columns the first vector has the first four, the next one the next four, and
    so on.
    """
    bytes_ = [bits(row, "uint8") for row in rows]
    pairs = [_zipped(writer, bytes_[n], bytes_[n + 1]) for n in (0, 2)]
    both = zip(*([bits(v, "uint16") for v in pair] for pair in pairs), strict=True)
    return [bits(v, "uint32") for left, right in both for v in _zipped(writer, left, right)]


def in_order(writer: Writer, fours: Sequence[Expr]) -> list[Expr]:
    """Words of columns that lie as `groups_by_blocks` leaves them, column after column."""
    if lanes_of(fours[0]) * itemsize(element_of(fours[0])) == 2 * BLOCK:
        return _chosen(writer, fours, [(0, 2), (1, 3)], across=False)
    low = _chosen(writer, fours, [(0, 4, 1, 5), (2, 6, 3, 7)], across=False)
    return _chosen(writer, low, [(0, 1, 4, 5), (2, 3, 6, 7)], across=True)


def _chosen(
    writer: Writer, vectors: Sequence[Expr], blocks: Sequence[Sequence[int]], across: bool
) -> list[Expr]:
    """For each choice of blocks those of the first two vectors, and of the other two.

    Vectors that were chosen so before are in pairs already (`across`).
    """
    pairs = [(vectors[0], vectors[1]), (vectors[2], vectors[3])]
    choices = [(c, p) for p in pairs for c in blocks] if across else [
        (c, p) for c in blocks for p in pairs
    ]  # fmt: skip
    return [_blocks(writer, *pair, chosen) for chosen, pair in choices]


def _zipped(writer: Writer, left: Expr, right: Expr) -> list[Expr]:
    """Elements of both by turns, of the lower halves of all blocks and of the upper ones."""
    lanes = lanes_of(left)
    block = BLOCK // itemsize(element_of(left))
    found = []
    for half in (0, block // 2):
        starts = range(half, lanes, block)
        order = [side + at + n for at in starts for n in range(block // 2) for side in (0, lanes)]
        found.append(writer.bind("zipped", tirx.Shuffle([left, right], order)))
    return found


def _blocks(writer: Writer, left: Expr, right: Expr, chosen: Sequence[int]) -> Expr:
    """These blocks of two vectors, one after another."""
    block = BLOCK // itemsize(element_of(left))
    order = [number * block + n for number in chosen for n in range(block)]
    return writer.bind("joined", tirx.Shuffle([left, right], order))
