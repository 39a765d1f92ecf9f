"""Primitives that go step by step as loops of tensor expressions, which any machine computes."""

from __future__ import annotations

from dataclasses import replace

from septran.ir import expressions as ex
from septran.ir.index import Index, Var, maximum
from septran.tile.nodes import Compute, For, Node, Region, TileProgram, nodes
from septran.tile.passes.layout.part_buffers import PartBuffers, unused, whole


def expand_steps(program: TileProgram) -> TileProgram:
    """Replace each triangular solve by a loop over its rows.

    X begins as B. Row after row is divided by its element of the diagonal, kept apart, and its
    multiples are subtracted from all rows below: the order of sums by columns (Higham, Accuracy
    and Stability of Numerical Algorithms, 2nd edition, section 8.1).
    """
    return _ExpandSteps(program).run()


class _ExpandSteps(PartBuffers):
    NAME = "expand_steps"

    def __post_init__(self) -> None:
        super().__post_init__()
        loops = (n for n in nodes(self.program.body) if isinstance(n, For))
        self.variables = {loop.variable.name for loop in loops}

    def change(self, node: Node) -> tuple[Node, ...]:
        """Return the steps of such a primitive, any other node as it is."""
        if isinstance(node, Compute) and node.primitive == "solve_triangular":
            return self._solve(node)
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
        return whole(made, target.valid[1:])

    def _variable(self, name: str) -> Var:
        """Return a loop index that the program does not have yet."""
        found = unused(name, self.variables)
        self.variables.add(found)
        return Var(found)

    def _loop(self, node: Compute, variable: Var, extent: Index, body: list[Compute]) -> For:
        return For(variable, extent, "sequential", None, tuple(body), node.origin)

    def _load(self, region: Region) -> ex.Load:
        return ex.Load(region, self.buffers[region.buffer].dtype)


def _map(node: Compute, target: Region, value: ex.Expr) -> Compute:
    """Return one step of `node`."""
    loaded = tuple(v for v in ex.loads(value) if isinstance(v, Region))
    return replace(
        node, primitive="map", operands=(target, *loaded), attributes=(), expression=value
    )
