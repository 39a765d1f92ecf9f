"""Nodes with other indices, regions or names, for passes that repeat or move a body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

from septran.ir import expressions as ex
from septran.ir.index import Index, IndexLike, Range, Var
from septran.ir.views import View
from septran.task.tree import Allocate, Assign, Loop, Primitive, Statement, TaskNode
from septran.tile.nodes import (
    Acquire,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Region,
    Release,
    Role,
    Wait,
    nodes,
)

FIRST = "first"
"""The attribute of a gemm with the loop index at whose 0 it overwrites; empty when always."""


@dataclass
class FreshNames:
    """Returns names that nothing uses yet: ``k``, ``k_1``, ``k_2``."""

    taken: set[str] = field(default_factory=set)

    @staticmethod
    def of_loops(body: Iterable[Node]) -> FreshNames:
        """Return a set of names that contains every loop index in `body`."""
        return FreshNames({n.variable.name for n in nodes(tuple(body)) if isinstance(n, For)})

    def fresh(self, wish: str) -> str:
        """Return `wish`, with a number appended where it is taken."""
        name, number = wish, 0
        while name in self.taken:
            number += 1
            name = f"{wish}_{number}"
        self.taken.add(name)
        return name


def substitute(node: Node, values: Mapping[Var, IndexLike]) -> Node:
    """Return a node with loop indices replaced everywhere.

    A gemm that overwrites in the first step of a replaced index always does where the new index is
    0, and never where it is not a single variable: the caller knows that it is not 0 then.
    """
    changed = change_indices(node, cache(lambda index: index.substitute(values)))
    if isinstance(changed, Compute):
        return replace(changed, attributes=_attributes(changed, values))
    if isinstance(changed, For | Role):
        # `change_indices` has been in the body already, but an attribute names its index as a word.
        return replace(changed, body=tuple(_restart(n, values) for n in changed.body))
    return changed


def _restart(node: Node, values: Mapping[Var, IndexLike]) -> Node:
    if isinstance(node, For | Role):
        return replace(node, body=tuple(_restart(n, values) for n in node.body))
    if isinstance(node, Compute):
        return replace(node, attributes=_attributes(node, values))
    return node


def _attributes(
    node: Compute, values: Mapping[Var, IndexLike]
) -> tuple[tuple[str, int | str | float | bool], ...]:
    first = dict(node.attributes).get(FIRST)
    if not first or Var(str(first)) not in values:
        return node.attributes
    rest = tuple(a for a in node.attributes if a[0] != FIRST)
    index = Index.of(values[Var(str(first))])
    if index == Index():
        return (*rest, (FIRST, ""))
    renamed = [v for v in index.variables() if index == Index.of(v)]
    return (*rest, (FIRST, renamed[0].name)) if renamed else rest


def simplified(body: tuple[Node, ...], known: Mapping[Var, Range]) -> tuple[Node, ...]:
    """Return a body without the minima, divisions and remainders that loop ranges decide."""
    simplify = cache(lambda index: index.simplify(known))  # views share most of their indices
    return tuple(change_indices(n, simplify) for n in body)


def change_indices(node: Node, change: Callable[[Index], Index]) -> Node:
    """Apply `change` to every index in a node: maps, extents, stages, fill numbers."""

    def region(of: Region) -> Region:
        return _view(of, change)

    match node:
        case Copy():
            return replace(node, target=region(node.target), source=region(node.source))
        case Compute():
            return replace(
                node,
                operands=tuple(map(region, node.operands)),
                expression=node.expression and _expression(node.expression, change),
                meaning=node.meaning and _leaf(node.meaning, change),
            )
        case Acquire() | Commit() | Wait() | Release():
            return replace(node, index=change(node.index))
        case For():
            body = tuple(change_indices(n, change) for n in node.body)
            return replace(node, extent=change(node.extent), body=body)
        case Role():
            return replace(node, body=tuple(change_indices(n, change) for n in node.body))
        case _:
            return node


def _leaf(task: TaskNode, change: Callable[[Index], Index]) -> TaskNode:
    """Return a leaf whose meaning counts by other indices of the loops around it."""
    params = tuple(replace(p, valid=tuple(map(change, p.valid))) for p in task.params)
    return replace(task, params=params, body=tuple(_statement(s, change) for s in task.body))


def _statement(statement: Statement, change: Callable[[Index], Index]) -> Statement:
    match statement:
        case Allocate():
            return replace(statement, valid=tuple(map(change, statement.valid)))
        case Primitive():
            return replace(statement, operands=tuple(_view(v, change) for v in statement.operands))
        case Assign():
            value = _expression(statement.value, change)
            return replace(statement, target=_view(statement.target, change), value=value)
        case Loop():
            extents = tuple(map(change, statement.extents))
            body = tuple(_statement(s, change) for s in statement.body)
            return replace(statement, extents=extents, body=body)
        case _:
            return statement


V = TypeVar("V", bound=View)


def _view(view: V, change: Callable[[Index], Index]) -> V:
    index, valid = tuple(map(change, view.index)), tuple(map(change, view.valid))
    same = index == view.index and valid == view.valid
    if isinstance(view, Region):
        stage = change(view.stage)
        if same and stage == view.stage:
            return view
        return replace(view, index=index, valid=valid, stage=stage)
    return view if same else replace(view, index=index, valid=valid)


def _expression(expr: ex.Expr, change: Callable[[Index], Index]) -> ex.Expr:
    match expr:
        case ex.Load() | ex.Position():
            return replace(expr, view=_view(expr.view, change))
        case ex.IndexValue():
            return replace(expr, index=change(expr.index))
        case ex.Cast():
            return replace(expr, operand=_expression(expr.operand, change))
        case ex.Unary() | ex.Expand() | ex.Reduce():
            operand = _expression(expr.operand, change)
            return replace(expr, operand=operand, valid=tuple(map(change, expr.valid)))
        case ex.Binary():
            left, right = _expression(expr.left, change), _expression(expr.right, change)
            return replace(expr, left=left, right=right, valid=tuple(map(change, expr.valid)))
        case ex.Select():
            parts = (_expression(e, change) for e in (expr.condition, expr.yes, expr.no))
            condition, yes, no = parts
            valid = tuple(map(change, expr.valid))
            return replace(expr, condition=condition, yes=yes, no=no, valid=valid)
        case _:
            return expr


def change_regions(node: Node, change: Callable[[Region], Region]) -> Node:
    """Apply `change` to every region that a node touches, those in its expression too."""
    match node:
        case Copy():
            return replace(node, target=change(node.target), source=change(node.source))
        case Compute():

            def leaf(expr: ex.Expr) -> ex.Expr:
                if isinstance(expr, ex.Load) and isinstance(expr.view, Region):
                    return replace(expr, view=change(expr.view))
                return expr

            return replace(
                node,
                operands=tuple(map(change, node.operands)),
                expression=node.expression and ex.map_leaves(node.expression, leaf),
            )
        case For() | Role():
            return replace(node, body=tuple(change_regions(n, change) for n in node.body))
        case _:
            return node


def with_stage(node: Node, buffers: frozenset[str], stage: Index) -> Node:
    """Address one stage of `buffers` wherever a node touches them."""
    return change_regions(
        node, lambda region: replace(region, stage=stage) if region.buffer in buffers else region
    )


def repeated(body: tuple[Node, ...], names: FreshNames) -> tuple[Node, ...]:
    """Return a second copy of a body, whose loops have fresh indices."""
    result: list[Node] = []
    for node in body:
        if isinstance(node, For):
            variable = Var(names.fresh(node.variable.name))
            inside = tuple(substitute(n, {node.variable: variable}) for n in node.body)
            node = replace(node, variable=variable, body=repeated(inside, names))
        elif isinstance(node, Role):
            node = replace(node, body=repeated(node.body, names))
        result.append(node)
    return tuple(result)


def on_channels(node: Node, renamed: Mapping[str, str]) -> Node:
    """Return a node with its copies on other channels."""
    match node:
        case Copy(channel=str(name)) if name in renamed:
            return replace(node, channel=renamed[name])
        case For() | Role():
            return replace(node, body=tuple(on_channels(n, renamed) for n in node.body))
        case _:
            return node
