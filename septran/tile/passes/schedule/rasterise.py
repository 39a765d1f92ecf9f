"""Rasterisation: an order of the tiles of a grid in which neighbours share operands."""

from __future__ import annotations

import math
from dataclasses import replace

from septran.ir.index import Index, Var
from septran.mapping.keys import RASTER
from septran.tile.analyses.clusters import grid
from septran.tile.nodes import For, Node, Remark, Role, TileProgram
from septran.tile.substitution import FreshNames, substitute

NAME = "rasterise"


def rasterise(program: TileProgram) -> TileProgram:
    """Where the mapping says `raster`, take tiles in groups of so many rows, column by column.

    Iterations next to each other then read few rows of one operand and few columns of the
    other, which stay in the cache that all units share.
    """
    work = _Rasters(program, FreshNames.of_loops(program.body))
    body = tuple(work.node(node) for node in program.body)
    changed = replace(program, body=body, buffers=work.buffers).remark(*work.remarks)
    return changed if work.remarks else program


class _Rasters:
    def __init__(self, program: TileProgram, names: FreshNames) -> None:
        self.program, self.names = program, names
        self.buffers = program.buffers
        self.remarks: list[Remark] = []

    def node(self, node: Node) -> Node:
        if isinstance(node, For):
            asked = self.program.request(node.origin.task).get(RASTER)
            if asked > 1 and node.processor is not None and node.kind == "parallel":
                return self.grid(node, asked)
        if isinstance(node, For | Role):
            return replace(node, body=tuple(map(self.node, node.body)))
        return node

    def grid(self, rows: For, asked: int) -> For:
        """Return the two loops around a tile as one."""
        nest = grid(rows)
        if len(nest) > 2:  # the innermost two are the tiles of one operand by another
            inner = self.grid(nest[1], asked)
            return replace(rows, body=(inner,))
        if len(nest) < 2 or not all(n.extent.is_constant for n in nest):
            self.remark("missed", rows, "`raster` is for grids of two loops of constant extent")
            return rows
        first, second = nest
        units = self.program.machine.processor(str(rows.processor)).count
        count = math.prod(n.extent.as_int() for n in nest)
        if count <= units:
            rule = f"all {count} tiles run at one time, in any order (raster: {asked})"
            self.remark("decision", rows, rule)
            return rows
        # Where the rows make no groups, the columns may: the tiles are then taken row by row.
        if _group(first, asked) < 2 <= _group(second, asked):
            first, second = second, first
        group, across = _group(first, asked), second.extent.as_int()
        if group < 2:
            counts = " x ".join(str(n.extent.as_int()) for n in nest)
            message = f"`raster: {asked}` changes nothing: {counts} tiles are no groups of rows"
            self.remark("missed", rows, message)
            return rows
        tile = Var(self.names.fresh("tile"))
        at = Index.of(tile)
        # A group is `group` rows by all columns: in it a tile's row changes fastest, then its
        # column.
        values = {
            first.variable: at // (group * across) * group + at % group,
            second.variable: at % (group * across) // group,
        }
        self.buffers = tuple(b.renamed(values, tile) for b in self.buffers)
        body = tuple(substitute(n, values) for n in nest[1].body)
        what = ("rows, column by column", "columns, row by row")[first is nest[1]]
        rule = f"tiles are taken in groups of {group} {what} (raster: {asked})"
        self.remark("decision", rows, rule)
        extent = Index.of(first.extent.as_int() * across)
        origin = replace(rows.origin, rule=rule)
        return replace(nest[1], variable=tile, extent=extent, body=body, origin=origin)

    def remark(self, kind: str, loop: For, message: str) -> None:
        where = loop.origin.mapping
        self.remarks.append(Remark(kind, loop.origin.task, message, None, where, NAME))


def _group(loop: For, asked: int) -> int:
    """Return the divisor of the loop's extent nearest to the number of rows asked for."""
    extent = loop.extent.as_int()
    found = [n for n in range(1, min(2 * asked, extent) + 1) if extent % n == 0]
    return min(found, key=lambda n: (abs(n - asked), n))
