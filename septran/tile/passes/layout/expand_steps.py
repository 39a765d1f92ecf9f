"""Primitives that go step by step as loops of tensor expressions, which any machine computes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from septran.dtypes import is_float
from septran.ir import expressions as ex
from septran.ir.index import Index, Var, maximum
from septran.tile.nodes import Compute, For, Node, Region, Role, TileProgram, nodes
from septran.tile.passes.layout.part_buffers import PartBuffers, unused

SORTS = ("sort", "argsort")


def expand_steps(program: TileProgram) -> TileProgram:
    """Replace triangular solves and sorted rows by loops.

    A system's X begins as B. Row after row is divided by its element of the diagonal, kept apart,
    and its multiples are subtracted from all rows below: the order of sums by columns (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd edition, section 8.1).

    Of sorted rows the rank of each element is counted first, by comparing all with each of them
    (Knuth, The Art of Computer Programming 3, 2nd edition, algorithm 5.2C). Then, for each place,
    the one element of that rank is found. Both are work for vectors, and no element moves, but as
    long rows have as many comparisons as the square of their length, they are for short ones.
    """
    return _ExpandSteps(program).run()


class _ExpandSteps(PartBuffers):
    NAME = "expand_steps"

    def __post_init__(self) -> None:
        super().__post_init__()
        loops = (n for n in nodes(self.program.body) if isinstance(n, For))
        self.variables = {loop.variable.name for loop in loops}
        self.ranks: dict[int, Region] = {}
        """The ranks that a node has counted, by its identity."""
        self.before = dict(_pairs(self.program.body))
        """For the second of two nodes that want the same ranks, the first."""

    def change(self, node: Node) -> tuple[Node, ...]:
        """Return the steps of such a primitive, any other node as it is."""
        if isinstance(node, Compute) and node.primitive == "solve_triangular":
            return self._solve(node)
        if isinstance(node, Compute) and node.primitive in SORTS:
            return self._sort(node)
        return (node,)

    def _solve(self, node: Compute) -> tuple[Node, ...]:
        target, factor, source = node.operands
        unit = bool(dict(node.attributes)["unit"])
        begin = () if target == source else (_map(node, target, self._load(source)),)
        held, row = self._held(node), self._variable("row")
        at, this_row = Index.of(row), target.without(0, Index.of(row))
        found: ex.Expr = self._load(this_row)
        if not unit:
            diagonal = factor.without(0, at).without(0, at)
            found = ex.binary("divide", found, self._load(diagonal))
        body = [_map(node, held, found)]
        if not unit:
            body.append(_map(node, this_row, self._load(held)))
        if target.shape[0] > 1:
            body.append(self._below(node, held, at))
        # Of ones on the diagonal nothing is left to do for the last row.
        count = target.valid[0]
        steps = maximum(0, count - 1) if unit and count.is_constant else count
        return (*begin, self._loop(node, row, steps, body))

    def _below(self, node: Compute, held: Region, at: Index) -> Compute:
        """Return what subtracts a row's multiples from those below it."""
        target, factor, _ = node.operands
        rest, exist = target.shape[0] - 1, target.valid[0] - 1 - at
        below = replace(
            target.block((at + 1, 0), (rest, target.shape[1])), valid=(exist, target.valid[1])
        )
        column = replace(factor.without(1, at).block((at + 1,), (rest,)), valid=(exist,))
        row = ex.expand(self._load(held), (0,))
        off = ex.binary("multiply", ex.expand(self._load(column), (1,)), row)
        return _map(node, below, ex.binary("subtract", self._load(below), off))

    def _held(self, node: Compute) -> Region:
        """Return a new buffer for one row of what is solved for."""
        target = node.operands[0]
        buffer = self.buffers[target.buffer]
        why = f"holds the row of {buffer.name} that has been solved for"
        made = self.add(node, buffer, buffer.memory, target.shape[1:], buffer.dtype, why)
        return Region.all_of(made, target.valid[1:])

    def _sort(self, node: Compute) -> tuple[Node, ...]:
        target, source = node.operands
        begin: tuple[Node, ...] = ()
        first = self.before.get(id(node))
        if first is None:
            ranks, begin = self._ranked(node)
        else:
            ranks = self.ranks[id(first)]
        self.ranks[id(node)] = ranks
        place = self._variable("place")
        chosen = ex.binary("equal", self._load(ranks), _number(Index.of(place)))
        value: ex.Expr = self._load(source)
        other = self._lowest(source)
        if node.primitive == "argsort":
            value, other = _along(ranks), ex.Constant(0, "int32")
        found = ex.reduce("max", ex.select(chosen, value, other), 1)
        step = _map(node, target.without(1, Index.of(place)), found)
        return (*begin, self._loop(node, place, target.valid[1], [step]))

    def _ranked(self, node: Compute) -> tuple[Region, tuple[Node, ...]]:
        """Return a new buffer for how many elements come before each one, and what fills it."""
        target, source = node.operands
        buffer = self.buffers[target.buffer]
        why = f"holds the rank of each element that {buffer.name} is sorted of"
        made = self.add(node, buffer, buffer.memory, source.shape, "int32", why)
        ranks, one = Region.all_of(made, source.valid), self._variable("one")
        value = (("value", 0),)
        fill = replace(node, primitive="fill", operands=(ranks,), attributes=value)
        other = ex.expand(self._load(source.without(1, Index.of(one))), (1,))
        goes = self._goes_before(node, other, self._load(source))
        earlier = ex.binary("less", _number(Index.of(one)), _along(ranks))
        ahead = ex.binary("or", goes[0], ex.binary("and", goes[1], earlier))
        counted = ex.select(ahead, ex.Constant(1, "int32"), ex.Constant(0, "int32"))
        step = _map(node, ranks, ex.binary("add", self._load(ranks), counted))
        return ranks, (fill, self._loop(node, one, source.valid[1], [step]))

    def _goes_before(self, node: Compute, other: ex.Expr, own: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        """Return where one element is certainly before each, and where the two are equal."""
        descending = bool(dict(node.attributes)["descending"])
        before = ex.binary("greater" if descending else "less", other, own)
        equal = ex.binary("equal", other, own)
        if not is_float(own.dtype):
            return before, equal
        # NaN is the greatest; it is not equal to itself.
        greater, smaller = (other, own) if descending else (own, other)
        nan, number = ex.binary("not_equal", greater, greater), ex.binary("equal", smaller, smaller)
        before = ex.binary("or", before, ex.binary("and", nan, number))
        both = ex.binary("and", nan, ex.binary("not_equal", smaller, smaller))
        return before, ex.binary("or", equal, both)

    def _lowest(self, region: Region) -> ex.Constant:
        """Return what no element of a region is less than."""
        dtype = self.buffers[region.buffer].dtype
        if is_float(dtype):
            return ex.Constant(-math.inf, "float64")
        return ex.Constant(int(np.iinfo(dtype).min), dtype)

    def _variable(self, name: str) -> Var:
        """Return a loop index that the program does not have yet."""
        found = unused(name, self.variables)
        self.variables.add(found)
        return Var(found)

    def _loop(self, node: Compute, variable: Var, extent: Index, body: list[Compute]) -> For:
        return For(variable, extent, "sequential", None, tuple(body), node.origin)

    def _load(self, region: Region) -> ex.Load:
        return ex.Load(region, self.buffers[region.buffer].dtype)


def _pairs(body: tuple[Node, ...]) -> Iterator[tuple[int, Compute]]:
    """Yield the second of neighbours that sort the same rows in one way, with the first."""
    for first, second in itertools.pairwise(body):
        if _sorts(first) and _sorts(second) and _alike(first, second):
            yield id(second), first
    for node in body:
        if isinstance(node, For | Role):
            yield from _pairs(node.body)


def _sorts(node: Node) -> TypeGuard[Compute]:
    return isinstance(node, Compute) and node.primitive in SORTS


def _alike(first: Compute, second: Compute) -> bool:
    return (first.operands[1], first.attributes) == (second.operands[1], second.attributes)


def _number(index: Index) -> ex.Expr:
    """Return a loop index as a number as short as ranks are."""
    return ex.Cast(ex.IndexValue(index), "int32")


def _along(ranks: Region) -> ex.Expr:
    """Return 0, 1, 2, ... along the rows of a whole buffer."""
    return ex.expand(ex.Cast(ex.Position(ranks, 1), "int32"), (0,))


def _map(node: Compute, target: Region, value: ex.Expr) -> Compute:
    """Return one step of `node`."""
    loaded = tuple(v for v in ex.loads(value) if isinstance(v, Region))
    return replace(
        node, primitive="map", operands=(target, *loaded), attributes=(), expression=value
    )
