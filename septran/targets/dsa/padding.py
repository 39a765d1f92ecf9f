"""Windows that leave their tensor, in expressions: a temporary holds what they see, zeros around.

A command reads every address that its operands name, so an element outside of a tensor
cannot be left out in it. All that a window sees is a box of its tensor; the temporary is that
box, filled with zeros, and then what of it lies in the tensor is copied there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from septran.ir import expressions as ex
from septran.ir.index import Index, axis, maximum, minimum
from septran.targets.dsa.context import Context, unsupported
from septran.targets.lower.indices import with_axes
from septran.targets.lower.statements import Statement, value_of
from septran.tile.nodes import Buffer, Compute, Region


def leaves(context: Context, region: Region) -> bool:
    """Whether an element of a padded window may be outside of its tensor."""
    if not region.padded:
        return False
    known = with_axes(region, context.indices.ranges)
    sizes = context.storages[region.buffer].buffer.shape
    bounds = [entry.bounds(known) for entry in region.index]
    return any(low < 0 or high >= n for (low, high), n in zip(bounds, sizes, strict=True))


HINT = "take the window where the leaf is launched: what copies it writes the zeros"


@dataclass(frozen=True)
class _Side:
    """The part of one axis of a tensor that a window reads."""

    first: Index
    """The least place that it may see; below 0 outside of the tensor."""
    length: int
    """How many places from there it may see."""
    begin: Index
    end: Index
    """From where to where these lie in the tensor, and the window's elements exist."""


@dataclass
class Padding:
    """The windows that one node reads, as statements that go before it."""

    context: Context
    node: Compute
    found: list[Statement] = field(default_factory=list)
    made: dict[str, Buffer] = field(default_factory=dict)
    _boxes: dict[tuple[object, ...], str] = field(default_factory=dict)

    def inside(self) -> Compute:
        """The node, reading temporaries where a window leaves its tensor."""
        value = value_of(self.node)
        seen = self._changed(value)
        return self.node if seen == value else replace(self.node, primitive="map", expression=seen)

    def _changed(self, expr: ex.Expr) -> ex.Expr:
        if (
            isinstance(expr, ex.Load)
            and isinstance(expr.view, Region)
            and leaves(self.context, expr.view)
        ):
            return replace(expr, view=self._held(expr.view))
        return ex.map_children(expr, self._changed)

    def _held(self, region: Region) -> Region:
        """The window as a view of a temporary that holds all that it sees."""
        sizes = self.context.storages[region.buffer].buffer.shape
        sides = [self._side(region, *side) for side in zip(region.index, sizes, strict=True)]
        # Windows that see the same box share the temporary.
        key = (region.buffer, region.stage, *sides)
        if key not in self._boxes:
            self._boxes[key] = self._made(region, sides)
        index = tuple(e - side.first for e, side in zip(region.index, sides, strict=True))
        return Region(self._boxes[key], index, region.shape, region.valid)

    def _side(self, region: Region, entry: Index, size: int) -> _Side:
        """Return what a window sees along one axis of its tensor, which has `size` elements."""
        axes = [axis(n) for n in range(region.rank)]
        slopes = {v: entry.coefficient(v) for v in axes if v in entry.variables()}
        rest = entry.substitute(dict.fromkeys(slopes, 0))
        if entry != sum((Index.of(v) * c for v, c in slopes.items()), rest):
            raise unsupported(
                self.node.origin,
                f"{self.node.instruction} takes no zeros from outside of {region.buffer}, and "
                "what its window sees of it is no box",
                HINT,
            )
        extents = dict(zip(axes, region.shape, strict=True))
        valid = dict(zip(axes, region.valid, strict=True))
        # Along an axis that it walks backwards, a window begins at its last element.
        back = {v: c for v, c in slopes.items() if c < 0}
        # Room is for the whole window, while only what exists of it is copied there.
        reach = {v: c * (extents[v] - 1) for v, c in slopes.items()}
        begin = sum(((valid[v] - 1) * c for v, c in back.items()), rest)
        end = sum(((valid[v] - 1) * c for v, c in slopes.items() if c > 0), rest + 1)
        return _Side(
            first=rest + sum(reach[v] for v in back),
            length=1 + sum(map(abs, reach.values())),
            begin=maximum(0, begin),
            end=maximum(0, begin, minimum(size, end)),
        )

    def _made(self, region: Region, sides: list[_Side]) -> str:
        """Zeros, and the part of the tensor that is seen."""
        dtype = self.context.storages[region.buffer].buffer.dtype
        shape = tuple(side.length for side in sides)
        buffer = Buffer(f"%window{len(self.made)}", "", shape, dtype, tensor="padded")
        self.made[buffer.name] = buffer
        axes = [Index.of(axis(n)) for n in range(len(shape))]
        there = tuple(side.end - side.begin for side in sides)
        parts = list(zip(sides, axes, strict=True))
        within = tuple(side.begin + at for side, at in parts)
        moved = tuple(side.begin - side.first + at for side, at in parts)
        seen = replace(region, index=within, shape=shape, valid=there, padded=False)
        whole = Region(buffer.name, tuple(axes), shape, tuple(map(Index.of, shape)))
        zero = ex.Constant(False if dtype == "bool" else 0, dtype)
        self.found.append(Statement(whole, zero))
        target = replace(whole, index=moved, valid=there)
        self.found.append(Statement(target, ex.Load(seen, dtype)))
        return buffer.name
