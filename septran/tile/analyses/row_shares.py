"""Division of the rows of accumulators: the same work on a part of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from septran.ir import expressions as ex
from septran.ir.atoms import Min
from septran.ir.index import Index, IndexLike, axis, maximum, minimum
from septran.ir.primitives import PRIMITIVES
from septran.ir.views import View
from septran.machine.model import Machine
from septran.tile.nodes import Compute, Copy, For, Node, Region, nodes, regions, writes

Along = tuple[tuple[Region, int | None], ...]
"""The regions that a node touches, each with its axis along the rows, None where it has none."""


class IndivisibleError(ValueError):
    """The rows cannot be divided; the message is the reason, for a remark."""


@dataclass(frozen=True)
class RowShares:
    """For each buffer, the axis that counts the rows, and the number of parts."""

    axes: Mapping[str, int]
    parts: int

    @staticmethod
    def of(body: tuple[Node, ...], own: frozenset[str], parts: int, machine: Machine) -> RowShares:
        """Follow the rows of every gemm's result through all nodes; raises IndivisibleError.

        `own` are the buffers that only this body uses.
        """
        work = [n for n in nodes(body) if isinstance(n, Compute | Copy)]
        axes: dict[str, int] = {}
        for node in work:
            if isinstance(node, Compute) and node.primitive == "gemm":
                _note(node.operands[0], 0, own, axes)
        if not axes:
            raise IndivisibleError("nothing in it is the result of a gemm")
        # Rows reach other buffers through copies and computations, until nothing new is found.
        size = -1
        while size != len(axes):
            size = len(axes)
            for node in work:
                for region, at in _along(node, axes):
                    if at is not None:
                        _note(region, at, own, axes)
        rows = RowShares(axes, parts)
        for node in work:
            rows._check(node, machine)
        return rows

    def _check(self, node: Compute | Copy, machine: Machine) -> None:
        along = _along(node, self.axes)
        target = writes(node)[0]
        if not along or along[0][1] is None:
            raise IndivisibleError(f"{target.buffer} has no rows to share out")
        extent = target.shape[along[0][1]]
        if extent % self.parts:
            raise IndivisibleError(f"the {extent} rows of {target.buffer} are not a multiple of it")
        if isinstance(node, Compute) and node.primitive == "gemm":
            unit = _least_rows(node, machine)
            if extent // self.parts % unit:
                raise IndivisibleError(
                    f"{node.instruction} takes multiples of {unit} rows, and each would have "
                    f"{extent // self.parts} of {target.buffer}"
                )
        for region, at in along:
            if region.buffer in self.axes and (
                at is None or _buffer_axis(region, at) != self.axes[region.buffer]
            ):
                raise IndivisibleError(f"{target.buffer} needs all rows of {region.buffer}")

    def part(self, body: tuple[Node, ...], number: int) -> tuple[Node, ...]:
        """Return the body on part `number` of the rows."""
        return tuple(self._part(node, number) for node in body)

    def _part(self, node: Node, number: int) -> Node:
        match node:
            case For():
                return replace(node, body=self.part(node.body, number))
            case Copy():
                target, source = (self._cut(r, at, number) for r, at in _along(node, self.axes))
                return replace(node, target=target, source=source)
            case Compute():
                along = _along(node, self.axes)
                changed = [self._cut(r, at, number) for r, at in along[: len(node.operands)]]
                if node.expression is None:
                    return replace(node, operands=tuple(changed))
                at = along[0][1]
                assert at is not None
                size = node.operands[0].shape[at] // self.parts
                value = _cut_expression(node.expression, at, number * size, size)
                loads = tuple(v for v in ex.loads(value) if isinstance(v, Region))
                return replace(node, operands=(changed[0], *loads), expression=value)
            case _:
                return node

    def _cut(self, region: Region, at: int | None, number: int) -> Region:
        if at is None:
            return region
        size = region.shape[at] // self.parts
        return _block(region, at, number * size, size)


def _least_rows(node: Compute, machine: Machine) -> int:
    try:
        multiples = machine.instruction(node.instruction).multiple_of
    except KeyError:
        return 1
    return multiples[0] if multiples else 1


def _note(region: Region, at: int, own: frozenset[str], axes: dict[str, int]) -> None:
    if region.buffer not in own:
        return
    found = _buffer_axis(region, at)
    if found is None:
        raise IndivisibleError(f"the rows of {region} are not an axis of {region.buffer}")
    if axes.setdefault(region.buffer, found) != found:
        raise IndivisibleError(f"{region.buffer} is used by rows and by columns")


def _buffer_axis(region: Region, at: int) -> int | None:
    """Return the buffer's axis along which a view's axis runs with step 1."""
    for number, entry in enumerate(region.index):
        # Names with $ are axes; a loop index in the entry only shifts where the rows begin.
        others = {v for v in (entry - axis(at)).variables() if v.name.startswith("$")}
        if entry.coefficient(axis(at)) == 1 and not others:
            return number
    return None


def _along(node: Compute | Copy, axes: Mapping[str, int]) -> Along:
    """Return the node's regions with their axes along the rows; () where it touches none."""
    for choice in _choices(node):
        if any(
            at is not None
            and region.buffer in axes
            and _buffer_axis(region, at) == axes[region.buffer]
            for region, at in choice
        ):
            return choice
    return ()


def _choices(node: Compute | Copy) -> Iterator[Along]:
    """Yield, for each axis of the target, the axes of the other regions that run along it."""
    touched = regions(node)
    for at in range(touched[0].rank):
        if isinstance(node, Copy) or (node.expression is None and node.primitive not in PRIMITIVES):
            yield tuple((region, at) for region in touched)
        elif node.expression is not None:
            leaves = list(_leaves(node.expression, at - touched[0].rank))
            yield ((touched[0], at), *((r, n) for r, n in leaves))
        else:
            yield tuple(_primitive_axes(node, at))


def _primitive_axes(node: Compute, at: int) -> Iterator[tuple[Region, int | None]]:
    letters = PRIMITIVES[node.primitive].axes
    for region, names in zip(node.operands, letters, strict=True):
        if names == "*":
            yield region, at
        else:
            found = names.find(letters[0][at])
            yield region, found if found >= 0 else None


def _leaves(expr: ex.Expr, at: int) -> Iterator[tuple[Region, int | None]]:
    """Loads with their axis (None: broadcast) for axis `at` of `expr`, counted from its end."""
    rank = len(expr.shape)
    if isinstance(expr, ex.Load) and isinstance(expr.view, Region):
        wide = -at <= rank and (expr.shape[at] != 1)
        yield expr.view, rank + at if wide else None
    for child, inner in _inside(expr, at):
        yield from _leaves(child, inner)


def _inside(expr: ex.Expr, at: int) -> Iterator[tuple[ex.Expr, int]]:
    """The operands of `expr`, each with its axis (from its end) for axis `at` of the result."""
    rank = len(expr.shape)
    match expr:
        case ex.Expand():
            kept = [n for n in range(rank) if n not in expr.axes]
            position = rank + at
            # an axis that was inserted, or is not there, has no counterpart
            inner = kept.index(position) - len(kept) if position in kept else -rank - 1
            yield expr.operand, inner
        case ex.Reduce():
            # The operand has the reduced axis as well, so axes from there on are one further.
            position = rank + at
            yield expr.operand, (position + (position >= expr.axis)) - (rank + 1)
        case _:
            yield from ((child, at) for child in ex.children(expr))


def _cut_expression(expr: ex.Expr, position: int, offset: int, size: int) -> ex.Expr:
    return _cut_leaf(expr, position - len(expr.shape), offset, size)


def _cut_leaf(expr: ex.Expr, at: int, offset: int, size: int) -> ex.Expr:
    rank = len(expr.shape)
    if -at > rank or expr.shape[at] == 1:  # it is the same for all rows
        return expr
    position = rank + at
    match expr:
        case ex.Load(view=Region() as view):
            return replace(expr, view=_block(view, position, offset, size))
        case ex.Position():
            return replace(expr, view=_block(expr.view, expr.axis, offset, size))
    parts = [_cut_leaf(child, inner, offset, size) for child, inner in _inside(expr, at)]
    shape = (*expr.shape[:position], size, *expr.shape[position + 1 :])
    valid = _with(expr.valid, position, _left(expr.valid[position], offset, size))
    match expr:
        case ex.Cast():
            return replace(expr, operand=parts[0])
        case ex.Unary() | ex.Expand() | ex.Reduce():
            return replace(expr, operand=parts[0], shape=shape, valid=valid)
        case ex.Binary():
            return replace(expr, left=parts[0], right=parts[1], shape=shape, valid=valid)
        case ex.Select():
            condition, yes, no = parts
            return replace(expr, condition=condition, yes=yes, no=no, shape=shape, valid=valid)
        case _:
            return expr


V = TypeVar("V", bound=View)


def _block(region: V, at: int, offset: int, size: int) -> V:
    offsets: list[IndexLike] = [0] * region.rank
    offsets[at] = offset
    extents = (*region.shape[:at], size, *region.shape[at + 1 :])
    part = region.block(tuple(offsets), extents)
    left = _left(region.valid[at], offset, size)
    return replace(part, valid=_with(region.valid, at, left))


def _left(valid: Index, offset: int, size: int) -> Index:
    """Return the number of existing rows among `size` rows from `offset` on."""
    left = valid - offset
    if left.is_constant:
        return Index.of(max(0, min(size, left.constant)))
    match left.terms:
        case ((Min(operands), 1),):  # min(size, min(a, b) - offset) reads worse
            return maximum(0, minimum(size, *(o + left.constant for o in operands)))
    return maximum(0, minimum(size, left))


def _with(values: Sequence[Index], position: int, value: Index) -> tuple[Index, ...]:
    return (*values[:position], value, *values[position + 1 :])
