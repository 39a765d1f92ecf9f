"""Groups of axes of buffers and computations that have one extent and can only change together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from septran.ir import expressions as ex
from septran.ir.index import Index, axis
from septran.ir.primitives import PRIMITIVES
from septran.ir.views import View
from septran.tile.nodes import Compute, Copy, Node, Region, TileProgram, nodes, rewrite

Key = tuple[object, ...]
"""An axis: of a buffer by its name, else of a part of a node by the node's identity."""


@dataclass
class Axes:
    """The axes of a program in groups, each with its extent, and the groups that must keep it.

    The groups are a union-find structure. Tensors in main memory belong to no group: the part of
    them that a larger tile holds is its valid part.
    """

    program: TileProgram
    extents: dict[Key, int] = field(default_factory=dict)
    fixed: dict[Key, str] = field(default_factory=dict)
    """For a group whose extent cannot change, the reason."""
    _parents: dict[Key, Key] = field(default_factory=dict)

    @staticmethod
    def of(program: TileProgram) -> Axes:
        """Return the groups of the axes of all copies and computations."""
        found = Axes(program)
        for node in nodes(program.body):
            for region, keys in _views(node):
                found._add(keys, region.shape)
                found._link(region, keys)
            if isinstance(node, Compute) and node.expression is not None:
                own = found._expression(node, node.expression, ())
                found._broadcast(own, _keys(node, 0, node.operands[0].rank))
        return found

    def group(self, key: Key) -> Key:
        """Return the first axis of the group, which represents it."""
        while (parent := self._parents.get(key, key)) != key:
            key = parent
        return key

    def _add(self, keys: tuple[Key, ...], shape: tuple[int, ...]) -> None:
        for key, extent in zip(keys, shape, strict=True):
            self.extents.setdefault(key, extent)

    def _join(self, one: Key, other: Key) -> None:
        a, b = self.group(one), self.group(other)
        # One of the two is a part of the other, so neither may grow alone.
        if self.extents[a] != self.extents[b]:
            self._fix(a, "it is read in parts")
            self._fix(b, "it is a part of a longer axis")
        elif a != b:
            self._parents[b] = a
            if b in self.fixed:
                self._fix(a, self.fixed.pop(b))

    def _fix(self, key: Key, why: str) -> None:
        self.fixed.setdefault(self.group(key), why)

    def _link(self, region: Region, keys: tuple[Key, ...]) -> None:
        """Join a region's axes to those of a buffer that it covers as a whole; fix the others."""
        buffer = self.program.buffer(region.buffer)
        if buffer.memory == self.program.machine.main_memory.name:
            return
        held: tuple[Key, ...] = tuple((buffer.name, n) for n in range(len(buffer.shape)))
        self._add(held, buffer.shape)
        for number, key in enumerate(keys):
            mine = axis(number)
            walked = [n for n, entry in enumerate(region.index) if mine in entry.variables()]
            for n in walked:
                alone = len(walked) == 1 and region.index[n] == Index.of(mine)
                if alone and buffer.shape[n] == region.shape[number]:
                    self._join(held[n], key)
                else:
                    # Along a part of an axis, or along two of them at once, an extent cannot just
                    # grow.
                    self._fix(key, f"it is a part of an axis of {buffer.name}")

    def _expression(self, node: Compute, expr: ex.Expr, path: tuple[int, ...]) -> tuple[Key, ...]:
        """Join the axes of an expression to those of its operands, and return its own."""
        own = _of_expression(node, expr, path)
        self._add(own, expr.shape)
        if isinstance(expr, ex.Load) and isinstance(expr.view, Region):
            self._link(expr.view, own)
        for number, child in enumerate(ex.children(expr)):
            inner = self._expression(node, child, (*path, number))
            match expr:
                case ex.Expand():
                    kept = [k for n, k in enumerate(own) if n not in expr.axes]
                    self._broadcast(inner, tuple(kept))
                case ex.Reduce():
                    self._broadcast((*inner[: expr.axis], *inner[expr.axis + 1 :]), own)
                case _:
                    self._broadcast(inner, own)
        return own

    def _broadcast(self, inner: tuple[Key, ...], outer: tuple[Key, ...]) -> None:
        """Join axes from the last one on, as broadcasting does.

        An axis of one element beside a longer one is fixed; beside another one of one element it
        grows with that, as it would were there more.
        """
        for mine, its in zip(reversed(inner), reversed(outer), strict=False):
            if self.extents[mine] == self.extents[its]:
                self._join(mine, its)
            else:
                self._fix(mine, "it has one element")


def operand_axes(node: Compute) -> tuple[tuple[Key, ...], ...]:
    """Return the axes of a primitive's operands; axes of one letter are the same."""
    contract = PRIMITIVES[node.primitive]
    return tuple(
        tuple((id(node), n if letters == "*" else letters[n]) for n in range(region.rank))
        for letters, region in zip(contract.axes, node.operands, strict=True)
    )


def _views(node: Node) -> Iterator[tuple[Region, tuple[Key, ...]]]:
    """Yield a node's regions with their axes."""
    match node:
        case Copy():
            keys = tuple((id(node), n) for n in range(node.target.rank))
            yield from ((node.target, keys), (node.source, keys))
        case Compute() if node.expression is None and node.primitive in PRIMITIVES:
            yield from zip(node.operands, operand_axes(node), strict=True)
        case Compute():
            for slot, region in enumerate(node.operands):
                yield region, _keys(node, slot, region.rank)


def _keys(node: Compute, slot: int, rank: int) -> tuple[Key, ...]:
    return tuple((id(node), "operand", slot, n) for n in range(rank))


def _of_expression(node: Compute, expr: ex.Expr, path: tuple[int, ...]) -> tuple[Key, ...]:
    """Return the axes of a part of a node's expression; a load has those of its operand."""
    if isinstance(expr, ex.Load) and expr.view in node.operands[1:]:
        return _keys(node, node.operands.index(expr.view, 1), expr.view.rank)
    return tuple((id(node), "part", *path, n) for n in range(len(expr.shape)))


def resized(program: TileProgram, axes: Axes, sizes: dict[Key, int]) -> TileProgram:
    """Return the program with other nominal extents of groups; the valid extents stay the same."""
    work = _Resize(axes, sizes)
    buffers = tuple(
        replace(b, shape=work.shape(b.shape, tuple((b.name, n) for n in range(len(b.shape)))))
        for b in program.buffers
    )
    return replace(program, buffers=buffers, body=rewrite(program.body, work.node))


@dataclass(frozen=True)
class _Resize:
    axes: Axes
    sizes: dict[Key, int]

    def shape(self, old: tuple[int, ...], keys: tuple[Key, ...]) -> tuple[int, ...]:
        return tuple(
            self.sizes.get(self.axes.group(key), extent)
            for key, extent in zip(keys, old, strict=True)
        )

    def node(self, node: Node) -> tuple[Node, ...]:
        regions = [self._region(region, keys) for region, keys in _views(node)]
        match node:
            case Copy():
                return (replace(node, target=regions[0], source=regions[1]),)
            case Compute():
                expression = node.expression and self._expression(node, node.expression, ())
                return (replace(node, operands=tuple(regions), expression=expression),)
            case _:
                return (node,)

    def _region(self, region: Region, keys: tuple[Key, ...]) -> Region:
        return replace(region, shape=self.shape(region.shape, keys))

    def _expression(self, node: Compute, expr: ex.Expr, path: tuple[int, ...]) -> ex.Expr:
        shape = self.shape(expr.shape, _of_expression(node, expr, path))
        inner = [
            self._expression(node, child, (*path, n)) for n, child in enumerate(ex.children(expr))
        ]
        match expr:
            case ex.Load():
                return replace(expr, view=replace(expr.view, shape=shape))
            case ex.Position():
                return replace(expr, view=_with_extent(expr.view, expr.axis, shape[0]))
            case ex.Cast():
                return replace(expr, operand=inner[0])
            case ex.Unary() | ex.Expand() | ex.Reduce():
                return replace(expr, operand=inner[0], shape=shape)
            case ex.Binary():
                return replace(expr, left=inner[0], right=inner[1], shape=shape)
            case ex.Select():
                condition, yes, no = inner
                return replace(expr, condition=condition, yes=yes, no=no, shape=shape)
            case _:
                return replace(expr, shape=shape)


def _with_extent(view: View, at: int, extent: int) -> View:
    shape = tuple(extent if n == at else old for n, old in enumerate(view.shape))
    return replace(view, shape=shape)
