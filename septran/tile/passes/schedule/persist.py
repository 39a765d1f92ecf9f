"""Persistent units: each unit of a level runs through its share of the parallel iterations."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from septran.ir.index import Index, Var
from septran.mapping.keys import PERSISTENT
from septran.tile.analyses.clusters import grid
from septran.tile.nodes import For, Node, Remark, Role, TileProgram
from septran.tile.substitution import FreshNames, substitute

NAME = "persist"


def persist(program: TileProgram) -> TileProgram:
    """Where the mapping says `persistent`, deal parallel iterations out to units that stay.

    A nest of parallel loops over a level of P units becomes a loop over the units and one
    over the turns of each, iteration ``turn * P + unit`` of the nest in each turn: the
    turns are one unit's own, so that copies can go ahead from one to the next.
    """
    work = _Persisting(program, FreshNames.of_loops(program.body))
    body = work.body(program.body)
    return replace(program, body=body, buffers=work.buffers).remark(*work.remarks)


class _Persisting:
    def __init__(self, program: TileProgram, names: FreshNames) -> None:
        self.program, self.names = program, names
        self.buffers = program.buffers
        self.remarks: list[Remark] = []

    def body(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(self.node(node) for node in body)

    def node(self, node: Node) -> Node:
        if isinstance(node, For) and self._asked(node):
            return self._deal(node)
        if isinstance(node, For | Role):
            return replace(node, body=self.body(node.body))
        return node

    def _asked(self, loop: For) -> bool:
        if loop.processor is None or not self.program.request(loop.origin.task).get(PERSISTENT):
            return False
        return self.program.machine.processor(loop.processor).count > 1

    def _deal(self, loop: For) -> For:
        """Return the nest as a loop over units, with a loop over each one's iterations."""
        assert loop.processor is not None
        nest = grid(loop)
        # The inner loops become digits of the iteration's number, so only the outermost may vary.
        nest = [loop, *itertools.takewhile(lambda n: n.extent.is_constant, nest[1:])]
        ranks = clusters(nest[-1])
        each = math.prod(r.extent.as_int() for r in ranks)
        # A cluster stays as a whole, so iterations are dealt to as many as fit the machine.
        units = self.program.machine.processor(loop.processor).count // each
        sizes = [n.extent.as_int() for n in nest[1:]]
        total = loop.extent * math.prod(sizes)
        if total.is_constant and total.as_int() <= units:
            rule = f"each of {total.as_int() * each} iterations has a {loop.processor} of its own"
            self._remark(loop, f"{rule}: none stays for a second one (persistent)")
            return loop
        unit = Var(self.names.fresh(loop.processor.lower()))
        turn = Var(self.names.fresh("turn"))
        # Unit u takes iterations u, u + units, ...: those that run at one time are neighbours in
        # the grid, and no unit has more than one iteration more than another.
        flat = Index.of(turn) * units + unit
        values: dict[Var, Index] = {}
        for inner, size in zip(reversed(nest[1:]), reversed(sizes), strict=True):
            values[inner.variable], flat = flat % size, flat // size
        values[loop.variable] = flat
        self.buffers = tuple(b.renamed(values, unit) for b in self.buffers)
        body = tuple(substitute(n, values) for n in (ranks or nest)[-1].body)
        who = f"{units} clusters of {each}" if ranks else str(units)
        rule = f"{who} {loop.processor} stay and take the iterations in turn (persistent)"
        origin = replace(loop.origin, rule=rule)
        # Rounded up: the first `total` mod `units` units have one iteration more than the others.
        extent = (total - unit + (units - 1)) // units
        turns = replace(nest[-1], variable=turn, extent=extent, processor=None, body=body)
        self._remark(loop, rule)
        inside: For = turns
        for rank in reversed(ranks):
            inside = replace(rank, body=(inside,))
        return For(unit, Index.of(units), "parallel", loop.processor, (inside,), origin)

    def _remark(self, loop: For, message: str) -> None:
        where = loop.origin.mapping
        self.remarks.append(Remark("decision", loop.origin.task, message, None, where, NAME))


def clusters(loop: For) -> list[For]:
    """Return the loops over the blocks of a cluster right inside of a loop."""
    found: list[For] = []
    while len(loop.body) == 1:
        inner = loop.body[0]
        if not (isinstance(inner, For) and inner.cluster):
            break
        found.append(inner)
        loop = inner
    return found
