"""Copies through registers (`ld`, `st`), from any memory to any other."""

from __future__ import annotations

from septran.targets.cuda.context import Context
from septran.targets.cuda.maps import emit_statement
from septran.targets.cuda.reductions import emit_reduction
from septran.targets.cuda.statements import Split
from septran.tile.nodes import Compute, Copy


def emit_statements(context: Context, node: Compute | Copy) -> None:
    """The statements of a node, each in the layout that was inferred for it."""
    split: Split = context.state["splits"][id(node)]
    domains = context.state["domains"]
    for statement in split.statements:
        emit = emit_statement if statement.function is None else emit_reduction
        emit(context, statement, domains[id(statement)])
