"""Tensors as a task's body sees them while it is traced: tiles, views, partitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from septran.ir import expressions as ex
from septran.ir.bounds import greatest, least
from septran.ir.index import Index, IndexLike, Range, Var, axis, ceil_div, maximum, minimum
from septran.ir.views import View
from septran.location import Location
from septran.task.errors import (
    IndexingError,
    IndirectIndexError,
    PartitionError,
    ShapeError,
    ViewError,
)
from septran.task.frontend.python_errors import unknown_attribute
from septran.task.trace.expansion import is_full
from septran.task.trace.indirect import element_of, gathered
from septran.task.trace.symbols import (
    Count,
    Expression,
    Symbol,
    apply,
    as_index,
    extent,
    integers,
    nominal,
    several_indices,
    symbol,
)
from septran.task.tree import Cut

if TYPE_CHECKING:
    from septran.task.trace.tracing import Frame


class Padded(int):
    """A tile's extent that is rounded up to a multiple where less of a dimension exists.

    The elements beyond the dimension do not exist: they are the ragged edge of a single tile.
    """

    multiple: int

    def __new__(cls, extent: int, multiple: int) -> Padded:
        """Return `extent` as one that is rounded up in multiples of `multiple`."""
        made = super().__new__(cls, extent)
        made.multiple = multiple
        return made


class Cutting(int):
    """A tunable's value in a draft, which finds out what is cut by it."""

    tunable: str

    def __new__(cls, value: int, tunable: str) -> Cutting:
        """Make `value`, of the tunable of that name."""
        made = super().__new__(cls, value)
        made.tunable = tunable
        return made


def fitted(block: int, extent: int) -> int:
    """Return the extent of a tile of a dimension of `extent`: at most `block`, at least 1."""
    if isinstance(block, Padded) and extent:
        extent = -(-extent // block.multiple) * block.multiple
    return max(1, min(int(block), extent))


def _in_place(name: str) -> Callable[[Tile, Any], Tile]:
    """Return an augmented assignment, which stores as in NumPy and does not only rename."""

    def store(self: Tile, other: Any) -> Tile:
        self.frame.assign(self, apply(name, self, other))
        return self

    return store


class Tile(Expression):
    """A tensor, or a view of one, inside a task that is being traced."""

    __slots__ = ("frame", "own_dtype", "view")

    def __init__(self, frame: Frame, view: View, dtype: str) -> None:
        self.frame, self.view, self.own_dtype = frame, view, dtype

    @property
    def expr(self) -> ex.Expr:
        """The elements as an expression; raises EscapeError outside of the tensor's task."""
        self.frame.require_live(self)
        return ex.Load(self.view, self.own_dtype)

    @property
    def name(self) -> str:
        """The parameter or temporary that this is, or is a view of."""
        return self.view.tensor

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents: integers, or symbols of what exists where an axis is ragged."""
        pairs = zip(self.view.shape, self.view.valid, strict=True)
        return tuple(extent(n, v) for n, v in pairs)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.view.rank

    @property
    def T(self) -> Tile:  # noqa: N802  # as NumPy's
        """A view with the axes in reverse order."""
        return self.transpose(*reversed(range(self.ndim)))

    def transpose(self, *order: int) -> Tile:
        """Return a view with the axes in the given order; raises IndexingError."""
        if sorted(order) != list(range(self.ndim)):
            raise IndexingError(
                f"{order} is no order of {self.ndim} axes",
                Location.of_caller(),
                hint="name each axis once: x.transpose(1, 0) of two axes",
            )
        return self._with(self.view.transposed(tuple(order)))

    def reshape(self, *shape: Any) -> Tile:
        """Return a view with axes merged or split in row-major order; one extent may be -1.

        Raises ShapeError where the sizes differ, ViewError where a ragged axis would be merged or
        split.
        """
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return self._with(_reshaped(self.view, integers(extents, "an extent")))

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        items = _spread_ellipsis(items, self.ndim)
        kept = tuple(item for item in items if item is not None)
        plain = all(map(is_full, kept))
        tile = self if plain else self._with(_sliced(self.view, kept, self.frame))
        if all(item is not None for item in items):
            return tile
        new = [i for i in items if i is None or isinstance(i, slice)]
        axes = tuple(n for n, item in enumerate(new) if item is None)
        return Expression(ex.expand(tile.expr, axes))

    def __setitem__(self, key: Any, value: Any) -> None:
        target = self[key]
        if not isinstance(target, Tile):
            raise IndexingError(
                "an assignment cannot insert axes",
                Location.of_caller(),
                hint="insert it in the value: y[:] = x[:, None]",
            )
        if isinstance(value, Tile) and value.view == target.view:
            return  # the second half of `x[:] += y`, which has stored it already
        self.frame.assign(target, value)

    __iadd__ = _in_place("add")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __ifloordiv__ = _in_place("floor_divide")
    __imod__ = _in_place("remainder")
    __ipow__ = _in_place("power")
    __iand__ = _in_place("and")
    __ior__ = _in_place("or")
    __ixor__ = _in_place("xor")
    __ilshift__ = _in_place("left_shift")
    __irshift__ = _in_place("right_shift")

    def _with(self, view: View) -> Tile:
        return Tile(self.frame, self.frame.simplified(view), self.own_dtype)

    def __repr__(self) -> str:
        return f"{self.view} {self.own_dtype}"


class Partition:
    """A grid of tiles: ``P.shape`` is the grid, ``P[i, j]`` a tile, ``P[i, :]`` a panel."""

    def __init__(self, tile: Tile, shape: tuple[Any, ...]) -> None:
        block = tuple(map(nominal, shape))
        where = Location.of_caller()
        if len(block) != tile.ndim:
            raise PartitionError(
                f"block shape {block} has {len(block)} axes, "
                f"{tile.name} has {tile.ndim}", where,
                hint="one extent for each axis; the whole of an axis n is A.shape[n]",
            )  # fmt: skip
        for size in block:
            if isinstance(size, bool) or not isinstance(size, int):
                raise PartitionError(
                    f"block extent {size!r} is not an integer known while tracing", where,
                    hint="take it from a tunable, a shape or a static parameter",
                )  # fmt: skip
            if size <= 0 and 0 not in tile.view.shape:
                raise PartitionError(
                    f"block extent {size} is not positive",
                    where,
                    hint="a block has at least one element along each axis",
                )
        self.tile = tile
        pairs = zip(block, tile.view.shape, strict=True)
        self.block = tuple(fitted(b, n) for b, n in pairs)
        for at, size in enumerate(block):
            if isinstance(size, Cutting):
                tile.frame.cuts.append(_cut(tile, at, size.tunable))

    @property
    def shape(self) -> tuple[Any, ...]:
        """The number of tiles along each axis; symbols where that depends on loop indices."""
        ranges = self.tile.frame.ranges
        pairs = zip(self.tile.view.valid, self.block, strict=True)
        return tuple(symbol(ceil_div(v, b).simplify(ranges)) for v, b in pairs)

    def __getitem__(self, key: Any) -> Tile:
        items = key if isinstance(key, tuple) else (key,)
        if len(items) != self.tile.ndim:
            raise IndexingError(
                f"a partition of {self.tile.name} has {self.tile.ndim} axes, "
                f"but {len(items)} indices are given", Location.of_caller(),
                hint="P[i, :] takes a row of tiles as one panel",
            )  # fmt: skip
        offsets: list[IndexLike] = []
        extents: list[int] = []
        for n, item in enumerate(items):
            if isinstance(item, slice):
                if not is_full(item):
                    raise IndexingError(
                        "a partition takes ':' or an index along each axis",
                        Location.of_caller(),
                        hint="P[i, :] is a row of tiles; for a part of it loop over its tiles",
                    )
                offsets.append(0)
                extents.append(self.tile.view.shape[n])
            else:
                grid = ceil_div(self.tile.view.valid[n], self.block[n])
                at = self._chosen(n, item) if isinstance(item, Tile) else as_index(item)
                if at.is_constant and at.constant < 0:
                    at = grid + at
                self._inside(n, at, grid)
                offsets.append(at * self.block[n])
                # `fitted` makes every block at least 1, but a tile of an empty axis has no
                # elements.
                extents.append(self.block[n] if self.tile.view.shape[n] else 0)
        return self.tile._with(self.tile.view.block(tuple(offsets), tuple(extents)))

    def _chosen(self, n: int, item: Tile) -> Index:
        """A tile that an element of a tensor of integers chooses, as in ``P[pages[b, p], 0]``."""
        extent, block = self.tile.view.shape[n], self.block[n]
        if item.ndim or extent % block or self.tile.view.valid[n] != Index.of(extent):
            raise IndirectIndexError(
                f"{item} cannot choose among the tiles of {self.tile.name} along axis {n}: "
                f"{self.tile.view.valid[n]} in tiles of {block}",
                Location.of_caller(),
                hint="a tile is chosen by one integer, P[pages[b, p], 0], where all are of one "
                "extent; rows are chosen by x[index] or task.gather(x, index)",
            )
        return element_of(item, extent // block, self.tile.name)

    def _inside(self, n: int, at: Index, grid: Index) -> None:
        """Refuse indices that certainly leave the grid; tile 0 of an empty axis is empty."""
        drafting = self.tile.frame.tracer.drafting  # whose loops may turn once too often
        if at == Index() or grid == Index() or drafting:  # a loop over an empty grid never runs
            return
        ranges, extents = self.tile.frame.ranges, self.tile.frame.tracer.extents
        gap = grid - 1 - at
        # Beyond its end nothing of the tensor exists; before its start there is no such clip.
        beyond = _sure(gap, ranges) and least(gap, ranges, extents) < 0
        if beyond or least(at, ranges, extents) < 0:
            raise IndexingError(
                f"index {at} leaves the grid of {self.tile.name} along axis {n}, which has "
                f"{grid} tiles of {self.block[n]}",
                Location.of_caller(),
                hint="take the loop's extent from the partition: parallel_range(P.shape[0])",
            )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise IndexingError(
            f"a tile of {self.tile.name} cannot be assigned here", Location.of_caller(),
            hint="launch a leaf task on it, or task.copy",
        )  # fmt: skip

    def __iter__(self) -> NoReturn:
        raise IndexingError(
            f"a partition of {self.tile.name} cannot be iterated in Python", Location.of_caller(),
            hint="for i in task.parallel_range(P.shape[0]), or task.sequential_range",
        )  # fmt: skip

    def __len__(self) -> int:
        raise IndexingError(
            f"a partition of {self.tile.name} has no len()", Location.of_caller(),
            hint="P.shape says how many tiles there are along each axis",
        )  # fmt: skip

    if not TYPE_CHECKING:  # else every attribute would be there for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            """Raise UnknownConstructError; Python calls it only for attributes that are missing."""
            raise unknown_attribute("a partition", name, ("shape", "tile", "block"))

    def __repr__(self) -> str:
        return f"{self.tile.view} in tiles of {self.block}"


def _cut(tile: Tile, at: int, tunable: str) -> Cut:
    """Return what a tunable cuts: an axis of a task's tensor, or of a view that merges several."""
    whole = (n for n, entry in enumerate(tile.view.index) if entry.coefficient(axis(at)) == 1)
    return Cut(tunable, tile.name, next(whole, None), tile.view.shape[at])


def _sure(gap: Index, ranges: Mapping[Var, Range]) -> bool:
    """Return whether `gap` really takes its least value: each index occurs once."""
    return all(isinstance(atom, Var) for atom, _ in gap.terms) and bool(ranges)


def windowed(
    tile: Tile,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...],
) -> Tile:
    """Return a view with the last ``len(size)`` axes as output positions, then window offsets.

    `padding` is how many elements come before and behind each of the axes.
    """
    where = Location.of_caller()
    count, rank = len(size), tile.ndim
    if not len(stride) == len(padding) == len(dilation) == count or count > rank:
        raise ViewError(
            f"a window of {count} axes does not fit {tile.name}",
            where,
            hint=(
                f"a window takes the last of its {rank} axes; give a size, a stride, a padding "
                "and a dilation for each of these, or one for all"
            ),
        )
    around = tuple(sum(padding, ()))
    for amount, smallest in ((size, 1), (stride, 1), (dilation, 1), (around, 0)):
        if min(amount, default=smallest) < smallest:
            raise ViewError(
                f"a window cannot have {amount} here",
                where,
                hint="sizes, strides and dilations are at least 1, padding at least 0",
            )
    lead = rank - count
    index = [Index.of(axis(n)) for n in range(lead)]
    shape, valid = list(tile.view.shape[:lead]), list(tile.view.valid[:lead])
    for n in range(count):
        at = lead + n
        before, behind = padding[n]
        if before or behind:
            _require_whole(tile, at, where)
        # The output extent is (extent + padding - dilation * (size - 1) - 1) // stride + 1, as that
        # of torch.nn.Conv2d.
        spare = before + behind - dilation[n] * (size[n] - 1) - 1
        extent, exists = tile.view.shape[at], tile.view.valid[at]
        fits = extent > 0 and extent + spare >= 0
        shape.append((extent + spare) // stride[n] + 1 if fits else 0)
        valid.append((exists + spare) // stride[n] + 1 if fits else Index())
        position = Index.of(axis(at)) * stride[n]
        index.append(position + Index.of(axis(at + count)) * dilation[n] - before)
    view = View("", tuple(index), (*shape, *size), (*valid, *map(Index.of, size)), any(around))
    return tile._with(tile.view.compose(view))


def _require_whole(tile: Tile, at: int, where: Location) -> None:
    """Refuse to pad a part of a tensor, which has elements and not zeros around it; ViewError."""
    home = tile.frame.home(tile.view)
    # Zeros begin where the tensor's memory ends, which is then at another place in each call.
    if any(True for _ in tile.view.valid[at].sizes()):
        raise ViewError(
            f"axis {at} of {tile.name} is {tile.view.valid[at]} long, which calls tell, and cannot "
            "be padded", where, hint="mask in a leaf what is beyond, or compile for each length",
        )  # fmt: skip
    places = [n for n, e in enumerate(home.view.index) if e == Index.of(axis(at))]
    if not places or home.shape[places[0]] != tile.view.shape[at] or tile.view.padded:
        raise ViewError(
            f"axis {at} of {tile.name} is a part of a tensor and cannot be padded", where,
            hint="take the window of the whole tensor, and partition that",
        )  # fmt: skip


def _sliced(view: View, items: tuple[Any, ...], frame: Frame) -> View:
    if len(items) > view.rank:
        hint = "a view has the tensor's own axes; x[:, None] inserts one in an expression"
        if all(isinstance(item, Symbol) for item in items):
            hint = several_indices(items)
        message = f"{len(items)} indices for the {view.rank} axes of {view.tensor}"
        raise IndexingError(message, Location.of_caller(), hint=hint)
    items = (*items, *([slice(None)] * (view.rank - len(items))))
    if sum(isinstance(item, Tile) and item.ndim > 0 for item in items) > 1:
        raise IndexingError(
            f"{view.tensor} is indexed by more than one tensor with axes", Location.of_caller(),
            hint="one after the other: x[rows][:, columns] has each row with each column",
        )  # fmt: skip
    # From the last axis on, as an index takes its axis away and renumbers those behind it.
    for n in reversed(range(view.rank)):
        item = items[n]
        if isinstance(item, slice):
            view = _range(view, n, item, frame)
        elif isinstance(item, Tile):
            view = gathered(view, n, item)
        elif isinstance(item, Expression):
            raise IndexingError(
                "a tensor cannot be indexed by an expression of tensors", Location.of_caller(),
                hint="it can by a tensor of integers as it is: x[index[t]], x[index] or "
                "task.gather(x, index). Compute the index in a kernel of its own and pass it",
            )  # fmt: skip
        else:
            at = as_index(item)
            if at.is_constant and at.constant < 0:
                at = view.valid[n] + at
            _inside(view, n, at, frame)
            view = view.without(n, at)
    return view


def _inside(view: View, n: int, at: Index, frame: Frame) -> None:
    extents, ranges = frame.tracer.extents, frame.ranges
    around = [extents[v] for v in frame.tracer.open]
    if frame.tracer.drafting or any(greatest(extent, ranges) < 1 for extent in around):
        return  # a loop around has no iteration, so nothing is indexed
    low, high = least(at, ranges, extents), greatest(at, ranges, extents)
    room = view.shape[n]
    if at.is_constant and len(view.valid[n].variables()) == 1:  # then its bounds are exact
        room = min(room, least(view.valid[n], ranges, extents))
    if low < 0 or high >= room:
        raise IndexingError(
            f"index {at} along axis {n} of {view.tensor} reaches "
            f"{low if low < 0 else high}, outside of 0..{room - 1}",
            Location.of_caller(),
            hint=(
                "take the loop's extent from the tensor (x.shape[0]), or the elements "
                "of a partition, whose last block is cut off where its tensor ends"
            ),
        )


def _range(view: View, n: int, item: slice, frame: Frame) -> View:
    if is_full(item):
        return view
    if item.step not in (None, 1):
        raise IndexingError(
            "slices with a step are not views here",
            Location.of_caller(),
            hint="for x[::s] of one axis write task.window(x, 1, stride=s)[:, 0]",
        )
    start = _bound(view, n, item.start, Index())
    stop = _bound(view, n, item.stop, view.valid[n])
    length = stop - start
    if not length.is_constant and stop == view.valid[n]:
        # Up to a ragged end the nominal length counts: `block` clips it to what exists.
        length = view.shape[n] - start
    if not length.is_constant and start == Index():
        return _beginning(view, n, stop, frame)
    if not length.is_constant:
        return _section(view, n, start, stop, frame)
    too_long = start.is_constant and start.constant + length.constant > view.shape[n]
    low = least(start, frame.ranges, frame.tracer.extents)
    outside = length.constant < 0 or low < 0 or too_long
    if outside and not frame.tracer.drafting:
        raise IndexingError(
            f"slice {start}:{stop} leaves axis {n} of {view.tensor}, which has {view.shape[n]}",
            Location.of_caller(),
            hint="take blocks by task.partition, whose last one is cut off where its tensor ends",
        )
    offsets: list[IndexLike] = [0] * view.rank
    offsets[n] = start
    extents = list(view.shape)
    extents[n] = length.constant
    return view.block(tuple(offsets), tuple(extents))


def _beginning(view: View, n: int, stop: Index, frame: Frame) -> View:
    """Return the first `stop` elements of an axis, as a ragged view: `stop` varies with a loop."""
    low = least(stop, frame.ranges, frame.tracer.extents)
    if low < 0 and not frame.tracer.drafting:
        raise IndexingError(
            f"slice :{stop} along axis {n} of {view.tensor} may end before it starts",
            Location.of_caller(),
            hint="write x[: task.greatest(0, n)]",
        )
    valid = tuple(minimum(v, stop) if m == n else v for m, v in enumerate(view.valid))
    return replace(view, valid=valid)


def _section(view: View, n: int, start: Index, stop: Index, frame: Frame) -> View:
    """Return what is from `start` to `stop`, both of which may vary, as a ragged view.

    There is nothing where the end is before the beginning.
    """
    ranges, extents = frame.ranges, frame.tracer.extents
    low, high = least(start, ranges, extents), greatest(stop, ranges, extents)
    if (low < 0 or high > view.shape[n]) and not frame.tracer.drafting:
        raise IndexingError(
            f"slice {start}:{stop} along axis {n} of {view.tensor} may reach from {low} to {high}, "
            f"outside of 0..{view.shape[n]}",
            Location.of_caller(),
            hint="write x[task.greatest(a, 0) : task.least(b, x.shape[0])]",
        )
    length = maximum(0, minimum(stop, view.valid[n]) - start).simplify(ranges)
    offsets: list[IndexLike] = [0] * view.rank
    offsets[n] = start
    extent = max(0, min(view.shape[n], greatest(stop - start, ranges, extents)))
    cut = view.block(tuple(offsets), (*view.shape[:n], extent, *view.shape[n + 1 :]))
    valid = (*cut.valid[:n], minimum(extent, length), *cut.valid[n + 1 :])
    return replace(cut, valid=valid)


def _bound(view: View, n: int, given: Any, default: Index) -> Index:
    """Return one end of a slice; negative ones count from the end."""
    if given is None:
        return default
    at = given.index if isinstance(given, Count) else as_index(given)
    return view.valid[n] + at if at.is_constant and at.constant < 0 else at


def _completed(shape: tuple[int, ...], total: int) -> tuple[int, ...]:
    """A shape with its one extent of -1 replaced by what the others leave, if that divides."""
    known = math.prod(e for e in shape if e != -1)
    if shape.count(-1) != 1 or not known or total % known:
        return shape
    return tuple(total // known if e == -1 else e for e in shape)


def _reshaped(view: View, shape: tuple[int, ...]) -> View:
    where = Location.of_caller()
    shape = _completed(shape, math.prod(view.shape))
    if math.prod(shape) != math.prod(view.shape) or any(e < 0 for e in shape):
        raise ShapeError(
            f"cannot reshape {view.shape} to {shape}",
            where,
            hint="both shapes have the same number of elements, and -1 stands for what is left",
        )
    if view.ragged:
        kept = [n for n, v in enumerate(view.valid) if v != Index.of(view.shape[n])]
        if any(n >= len(shape) or shape[: n + 1] != view.shape[: n + 1] for n in kept):
            raise ViewError(
                "a ragged axis cannot be merged or split", where,
                hint="reshape the whole tensor first, then partition it",
            )  # fmt: skip
    # Elements are numbered in row-major order of the new shape, and each old axis is a digit of
    # that number. Simplifying by the new axes' ranges leaves plain sums where axes are merged or
    # split evenly.
    flat, stride = Index(), 1
    for n in reversed(range(len(shape))):
        flat, stride = flat + Index.of(axis(n)) * stride, stride * shape[n]
    ranges = {axis(n): (0, max(0, e - 1)) for n, e in enumerate(shape)}
    index: list[Index] = []
    for size in reversed(view.shape):
        index.insert(0, (flat % max(1, size)).simplify(ranges))
        flat = (flat // max(1, size)).simplify(ranges)
    valid = tuple(
        view.valid[n] if n < view.rank and shape[: n + 1] == view.shape[: n + 1] else Index.of(e)
        for n, e in enumerate(shape)
    )
    return view.compose(View("", tuple(index), shape, valid))


def _spread_ellipsis(items: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    places = [n for n, item in enumerate(items) if item is Ellipsis]
    given = sum(1 for item in items if item is not None and item is not Ellipsis)
    missing = (slice(None),) * max(0, rank - given)
    if not places:
        return (*items, *missing)
    return (*items[: places[0]], *missing, *items[places[0] + 1 :])
