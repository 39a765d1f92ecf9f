"""Primitives that go step by step as loops of tensor expressions, which any machine computes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from septran.dtypes import is_float
from septran.ir import expressions as ex
from septran.ir.index import Index, Var, maximum
from septran.tile.nodes import Compute, For, Node, Region, Role, TileProgram, nodes
from septran.tile.passes.layout.part_buffers import PartBuffers, unused

SORTS = ("sort", "argsort")
FEW = 8
"""How many vectors of elements are compared in the time that it takes to find the next of a row.

Measured on a CPU with AVX-512, for 8 to 64 elements; on the simulated DSAs it is about 2.
"""
VECTOR = 16


def expand_steps(program: TileProgram) -> TileProgram:
    """Replace triangular solves and sorted rows by loops.

    A system's X begins as B. Row after row is divided by its element of the diagonal, kept apart,
    and its multiples are subtracted from all rows below: the order of sums by columns (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd edition, section 8.1).

    Of sorted rows the rank of each element is counted first, by comparing all with each of them
    (Knuth, The Art of Computer Programming 3, 2nd edition, algorithm 5.2C). Then, for each place,
    the one element of that rank is found. Both are work for vectors, and no element moves, but as
    long rows have as many comparisons as the square of their length, they are for short ones.

    Where few places are wanted of many elements, the greatest of those that are left is found and
    taken away, place after place (there, algorithm 5.2.3S).
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
        self.others = {id(first): others for first, *others in _alike(self.program.body)}
        """For the first of neighbours that want the same places, the others."""
        self.first = {id(o): first for first, *others in _alike(self.program.body) for o in others}

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
        first = self.first.get(id(node))
        if _few(node):
            return self._selected(node) if first is None else ()
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

    def _selected(self, node: Compute) -> tuple[Node, ...]:
        """Return what finds the greatest of each row again and again, for all that want them."""
        source, top = node.operands[1], self.buffers[node.operands[0].buffer]
        rows, count = source.shape[:1], Index.of(source.shape[1])

        def made(shape: tuple[int, ...], dtype: str, why: str) -> Region:
            buffer = self.add(node, top, top.memory, shape, dtype, f"{why} {top.name} is sorted of")
            return Region.all_of(buffer, source.valid[: len(shape)])

        free = made(source.shape, "int32", "holds which elements are left of the rows that")
        best = made(
            rows, self.buffers[source.buffer].dtype, "holds the greatest that is left of what"
        )
        where = made(rows, "int32", "holds the place of the greatest in the rows that")
        own, column, taken = self._load(source), _along(free), _number(count)
        left = ex.select(ex.binary("less", self._load(free), taken), own, self._lowest(source))
        # The first of those that are equal; NaN is the greatest, and not equal to itself.
        greatest = ex.binary("equal", own, ex.expand(self._load(best), (1,)))
        if is_float(own.dtype):
            greatest = ex.binary("or", greatest, ex.binary("not_equal", own, own))
        first = ex.reduce("min", ex.select(greatest, self._load(free), taken), 1)
        chosen = ex.binary("equal", column, ex.expand(self._load(where), (1,)))
        rest = ex.select(chosen, taken, self._load(free))
        place = self._variable("place")
        steps = [_map(node, best, ex.reduce("max", left, 1)), _map(node, where, first)]
        for each in (node, *self.others[id(node)]):
            value = ex.reduce("max", ex.select(chosen, own, self._lowest(source)), 1)
            found = value if each.primitive == "sort" else self._load(where)
            steps.append(_map(each, each.operands[0].without(1, Index.of(place)), found))
        steps.append(_map(node, free, rest))
        loop = self._loop(node, place, node.operands[0].valid[1], steps)
        return _map(node, free, column), loop

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


def _alike(body: tuple[Node, ...]) -> Iterator[list[Compute]]:
    """Yield neighbours that sort the same rows in one way, as many places of them."""
    for wanted, same in itertools.groupby(body, _wanted):
        if wanted is not None:
            yield [node for node in same if isinstance(node, Compute)]
    for node in body:
        if isinstance(node, For | Role):
            yield from _alike(node.body)


def _wanted(node: Node) -> object:
    """Return what a sort sorts, how, and how much of it; None for other nodes."""
    if not isinstance(node, Compute) or node.primitive not in SORTS:
        return None
    target, source = node.operands
    return source, node.attributes, target.shape[1], target.valid[1]


def _few(node: Compute) -> bool:
    """Return whether it takes longer to compare all elements of a row than to find the greatest."""
    places, elements = (region.shape[1] for region in node.operands)
    compared = elements * math.ceil(elements / VECTOR)
    return bool(dict(node.attributes)["descending"]) and FEW * places <= compared


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
