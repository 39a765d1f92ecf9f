"""The order in which tiles of a grid are taken, so that neighbours in time share operands."""

from __future__ import annotations

from dataclasses import replace

from septran.task.index import Index, Var
from septran.tile.nodes import For, Node, Remark, Role, TileProgram
from septran.tile.substitution import Names, substitute

NAME = "rasterise"


def rasterise(program: TileProgram) -> TileProgram:
    """Where the mapping says `raster`, take tiles in groups of so many rows, column by column.

    Iterations next to each other then read few rows of one operand and few columns of the
    other, which stay in the cache that all units share.
    """
    work = _Rasters(program, Names.of_loops(program.body))
    body = tuple(work.node(node) for node in program.body)
    return replace(program, body=body).remark(*work.remarks) if work.remarks else program


class _Rasters:
    def __init__(self, program: TileProgram, names: Names) -> None:
        self.program, self.names = program, names
        self.remarks: list[Remark] = []

    def node(self, node: Node) -> Node:
        if isinstance(node, For):
            asked = self.program.request(node.origin.task).raster
            if asked > 1 and node.processor is not None and node.kind == "parallel":
                return self.grid(node, asked)
        if isinstance(node, For | Role):
            return replace(node, body=tuple(map(self.node, node.body)))
        return node

    def grid(self, rows: For, asked: int) -> For:
        """Two loops around a tile as one."""
        columns = rows.body[0]
        if (
            len(rows.body) != 1
            or not isinstance(columns, For)
            or columns.kind != "parallel"
            or columns.processor != rows.processor
            or not (columns.extent.is_constant and rows.extent.is_constant)
        ):
            self.remark("missed", rows, "`raster` is for grids of two loops of constant extent")
            return rows
        down, across = rows.extent.as_int(), columns.extent.as_int()
        group = max(n for n in range(1, min(asked, down) + 1) if down % n == 0)
        tile = Var(self.names.fresh("tile"))
        at = Index.of(tile)
        row = at // (group * across) * group + at % group
        column = at % (group * across) // group
        body = tuple(substitute(n, {rows.variable: row, columns.variable: column})
                     for n in columns.body)  # fmt: skip
        rule = f"tiles are taken in groups of {group} rows, column by column (raster: {asked})"
        self.remark("decision", rows, rule)
        origin = replace(rows.origin, rule=rule)
        return replace(
            columns, variable=tile, extent=Index.of(down * across), body=body, origin=origin
        )

    def remark(self, kind: str, loop: For, message: str) -> None:
        where = loop.origin.mapping
        self.remarks.append(Remark(kind, loop.origin.task, message, None, where, NAME))
