"""The constructs of Task Lang, as a logic file uses them: ``from septran import task``."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from septran.errors import nearest
from septran.ir import expressions as ex
from septran.ir.index import Index, Var
from septran.ir.index import axis as axis_variable
from septran.ir.primitives import PRIMITIVES, Contract
from septran.ir.views import View
from septran.location import Location
from septran.task.errors import (
    DtypeError,
    IndexingError,
    LaunchArgumentsError,
    PartitionError,
    ShapeError,
    TunableError,
    UnknownPrimitiveError,
    UnmetDemandError,
)
from septran.task.frontend.definition import Task, TensorType, define
from septran.task.frontend.python_errors import instead
from septran.task.trace import symbols
from septran.task.trace.arguments import not_a_tensor
from septran.task.trace.dtype_rules import element_type, require_number
from septran.task.trace.indirect import gathered
from septran.task.trace.operands import check_axes, check_dtypes
from septran.task.trace.symbols import NO_STEPS, Expression, Symbol, as_index
from septran.task.trace.tensors import Cutting, Partition, Tile, windowed
from septran.task.trace.tracing import Frame, current, launch
from septran.task.tree import Allocate, Loop, Primitive, TunableValue

_LETTERS = {True: "ijlm", False: "kpqr"}
"""The names of loop indices: parallel ones from i, sequential ones from k."""


def partition(
    x: Tile, by: str = "blocks", shape: Any = None, shape_from: str | None = None
) -> Partition:
    """Cut a tensor into a grid of tiles; the last one of an axis may be smaller.

    Args:
        x: The tensor or view.
        by: ``blocks``.
        shape: Extents of a tile, one an axis.
        shape_from: Instead of `shape`: the name of the tensor whose block shape the
            mapping's tunables give (``block_size``, or ``block_<dimension>``).

    Raises:
        PartitionError: the shape does not fit.
    """
    frame = _composite("partitions a tensor")
    if by != "blocks":
        raise PartitionError(
            f"unknown way to partition {by!r}; there is 'blocks'",
            _here(),
            hint="task.window gives windows that overlap, task.gather rows by an index",
        )
    if (shape is None) == (shape_from is None):
        raise PartitionError(
            "give either shape or shape_from",
            _here(),
            hint="shape=(64, 64) says a block's extents, shape_from=C takes C's",
        )
    frame.require_live(_tile(x))
    if shape is None:
        if shape_from not in frame.names:
            raise PartitionError(
                f"shape_from names {shape_from!r}, no tensor of {frame.task.name}", _here(),
                hint=nearest(str(shape_from), frame.names),
            )  # fmt: skip
        return Partition(x, _block_from(frame, x, shape_from))
    return Partition(x, tuple(shape) if isinstance(shape, tuple | list) else (shape,))


def _block_from(frame: Frame, x: Tile, tensor: str | None) -> tuple[int, ...]:
    """Return the tile that the mapping's tunables give, with the whole extent where none does."""
    size = _tunable(frame, "block_size", None)
    if size is not None:
        return (int(size),) * x.ndim
    extents = []
    for n, extent in enumerate(x.view.shape):
        dims = frame.types.get(tensor or x.name, TensorType()).dims or ()
        name = dims[n] if n < len(dims) else None
        value = _tunable(frame, f"block_{name}", None) if isinstance(name, str) else None
        extents.append(int(value) if value is not None else extent)
    return tuple(extents)


def window(x: Tile, size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Tile:
    """Return sliding windows over the last axes of `x`, as ``[..., out..., size...]``.

    A view, not a copy; elements outside of `x` are zeros where there is padding (`inside` says
    which they are). `stride`, `padding` and `dilation` are integers for all axes or one for each; a
    pair in `padding` is before and behind an axis. Raises LaunchArgumentsError for values below 1
    (padding: 0), ViewError where the window does not fit or would pad a part of a tensor.
    """
    frame = current()
    frame.require_live(_tile(x))
    size = tuple(size) if isinstance(size, tuple | list) else (size,)
    steps, gaps = (_each(v, len(size)) for v in (stride, dilation))
    around = _around(padding, len(size))
    for name, least, each in (
        ("stride", 1, steps), ("padding", 0, sum(around, ())), ("dilation", 1, gaps)
    ):  # fmt: skip
        if min(each, default=least) < least:
            raise LaunchArgumentsError(
                f"the {name} of a window is {min(each)}, and must be at least {least}",
                _here(),
                hint="for a part without its first elements take a slice before: x[:, 1:]",
            )
    extents = symbols.integers(size, "an extent of a window")
    if any(symbols.is_told(each) for each in size):
        raise LaunchArgumentsError(
            "a window has the extent of a dimension that calls tell, and its elements are counted "
            "while tracing",
            _here(),
            hint="leave that dimension out of dynamic",
        )
    return windowed(x, extents, steps, around, gaps)


def _around(padding: Any, count: int) -> tuple[tuple[int, int], ...]:
    """Return the padding before and behind each axis; raises LaunchArgumentsError."""
    each = tuple(padding) if isinstance(padding, tuple | list) else (padding,) * count
    pairs = [tuple(p) if isinstance(p, tuple | list) else (p, p) for p in each]
    if any(len(pair) != 2 for pair in pairs):
        raise LaunchArgumentsError(
            f"the padding of a window is {padding!r}", _here(),
            hint="write one number, one for each axis, or pairs: padding=((2, 0), (1, 1))",
        )  # fmt: skip
    whole = [symbols.integers(pair, "a padding of a window") for pair in pairs]
    return tuple((before, behind) for before, behind in whole)


def gather(x: Tile, index: Tile, axis: int = 0) -> Tile:
    """A view of `x` whose elements along an axis are chosen by a tensor of integers.

    The axis is replaced by those of `index`: `x` [N, D] gathered by `index` [T] is [T, D], and its
    row t is ``x[index[t]]``. Nothing is copied. An element that is no index of `x` is an error in
    the reference and the interpreter; a kernel takes the first or the last row for it.

    Raises:
        IndirectIndexError: what is gathered, or what chooses, is no tensor that is complete.
    """
    frame = current()
    frame.require_live(_tile(x))
    rows = _tile(index)
    if not isinstance(axis, int) or not -x.ndim <= axis < x.ndim:
        raise IndexingError(
            f"axis {axis} of {x.name}, which has {x.ndim} axes",
            _here(),
            hint="axes are counted from 0, or from the end by -1",
        )
    return x._with(gathered(x.view, axis % x.ndim, rows))


def _each(value: Any, count: int) -> tuple[int, ...]:
    each = tuple(value) if isinstance(value, tuple | list) else (value,) * count
    return symbols.integers(each, "a stride, padding or dilation of a window")


def parallel_range(*extents: Any, **others: Any) -> Iterations:
    """Loop over independent iterations in any order.

    Yields one index, or a tuple of indices for several extents. Nothing else (`others`) is taken.
    """
    return _loop(extents, others, parallel=True)


def sequential_range(*extents: Any, **others: Any) -> Iterations:
    """Loop over iterations in order; extents may depend on outer indices.

    Nothing else (`others`) is taken.
    """
    return _loop(extents, others, parallel=False)


class Iterations:
    """The iterations of a loop of a task: its body runs once, for all of them."""

    def __init__(self, once: Iterator[Any]) -> None:
        self._once = once

    def __iter__(self) -> Iterator[Any]:
        """The only pass for ``for``; refuses ``zip``, ``enumerate``, ``list``, which count."""
        caller = sys._getframe(1)
        # `for` asks by an instruction of its own (GET_ITER), zip and list while they are called.
        if caller.f_code.co_code[caller.f_lasti] == dis.opmap["CALL"]:
            raise IndexingError(
                "a loop of a task is for `for` alone: its body runs once for all iterations, so "
                "that zip, enumerate or list would see one", _here(),
                hint="its index is the count; other tensors take the same index: P[i], Q[i]",
            )  # fmt: skip
        return self._once


def _loop(extents: tuple[Any, ...], others: Mapping[str, Any], parallel: bool) -> Iterations:
    frame = _composite("loops over launches")
    for name in others:
        raise LaunchArgumentsError(f"a loop takes extents, and no {name!r}", _here(), hint=NO_STEPS)
    single = len(extents) == 1 and not isinstance(extents[0], tuple | list)
    if len(extents) == 1 and isinstance(extents[0], tuple | list):
        extents = tuple(extents[0])
    return Iterations(_once(frame, tuple(map(_extent, extents)), parallel, single, _here()))


def _once(
    frame: Frame, sizes: tuple[Index, ...], parallel: bool, single: bool, where: Location
) -> Iterator[Any]:
    with open_loop(frame, sizes, where, parallel=parallel) as variables:
        indices = tuple(Symbol(v) for v in variables)
        try:
            yield indices[0] if single else indices
        except GeneratorExit:  # by break or return; an error here would not be heard
            frame.left = where
            raise


def _extent(value: Any) -> Index:
    """Return the number of iterations of a loop; as in Python, negative means none."""
    if isinstance(value, Tile):
        raise IndexingError(
            f"{value.name} is a tensor, and how often a loop turns is not known from it", _here(),
            hint=f"say how often at most: task.count({value.name}[..], most=..)",
        )  # fmt: skip
    if isinstance(value, range):
        steps = f"here {len(value)} times with {value.start} + k * {value.step}"
        message = f"{value} has a start or a step, and is not how often a loop turns"
        raise IndexingError(message, _here(), hint=f"{NO_STEPS}, {steps}")
    index = value.index if isinstance(value, symbols.Count) else as_index(value)
    return Index() if index.is_constant and index.constant < 0 else index


@contextmanager
def open_loop(
    frame: Frame, sizes: tuple[Index, ...], where: Location, *, parallel: bool
) -> Iterator[tuple[Var, ...]]:
    """Trace what is inside as the body of a loop over `sizes`, whose indices it gives."""
    letters = _LETTERS[parallel]
    names = [letters[min(n, len(letters) - 1)] for n in range(len(sizes))]
    variables = tuple(frame.tracer.variable(name) for name in names)
    outer, frame.body = frame.body, []
    if parallel and not frame.parallel:
        frame.outermost = len(frame.nest)
    frame.parallel += parallel
    frame.nest += [(v, size, parallel) for v, size in zip(variables, sizes, strict=True)]
    if parallel:
        frame.spread += sizes
    # Known before the body is traced, as views in it are simplified by the ranges of indices.
    for variable, size in zip(variables, sizes, strict=True):
        frame.ranges[variable] = frame.tracer.range_of(size)
        frame.tracer.extents[variable] = size
    opened = frame.tracer.open
    opened += variables
    try:
        yield variables
    finally:
        del opened[-len(variables) :]
        body, frame.body = frame.body, outer
        del frame.nest[len(frame.nest) - len(sizes) :]
        frame.parallel -= parallel
        if parallel:
            del frame.spread[len(frame.spread) - len(sizes) :]
    # Parts have their places around the outermost parallel loop, so they wait for its end.
    around = [] if frame.parallel else frame.around
    if not frame.parallel:
        frame.around, frame.slots = [], {}
    for begin, _ in around:
        begin()
    if body:
        frame.body.append(Loop(variables, sizes, parallel, tuple(body), where))
    for _, end in around:
        end()


def empty(shape: Any, dtype: str | None = None, name: str = "temporary") -> Tile:
    """Return a temporary of undefined content that lives until the end of this task.

    `shape` are integers known while tracing, or extents of tensors; raises ShapeError for others.
    """
    return _allocate(shape, dtype, name, None)


def zeros(shape: Any, dtype: str | None = None, name: str = "temporary") -> Tile:
    """Return a temporary filled with zeros; otherwise as `empty`."""
    return _allocate(shape, dtype, name, 0)


def full(shape: Any, value: float, dtype: str | None = None, name: str = "temporary") -> Tile:
    """Return a temporary filled with `value`; otherwise as `empty`.

    Raises DtypeError for a number that the type does not have.
    """
    return _allocate(shape, dtype, name, value)


def _allocate(shape: Any, dtype: str | None, name: str, fill: float | int | None) -> Tile:
    frame, where = current(), _here()
    given = shape if isinstance(shape, tuple | list) else (shape,)
    extents = tuple(map(symbols.nominal, given))
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, int | np.integer) or extent < 0:
            raise ShapeError(
                f"the extent {extent!r} of {name} is not an integer known while tracing", where,
                hint="take it from a tensor's shape or a tunable",
            )  # fmt: skip
    valid = tuple(map(as_index, given))
    kind = element_type(dtype or "float32")
    if frame.tracer.check:
        require_number(fill, kind, f"the first content of {name}", where)
    unique = frame.fresh(name)
    sizes = tuple(map(int, extents))
    # Nothing is computed outside of tasks and their loops: first contents are a task's work.
    entry = frame.site.level == 0
    apart = fill is not None and not frame.task.leaf and (entry or not _shared_out())
    frame.body.append(Allocate(unique, sizes, valid, kind, None if apart else fill, where))
    whole = View.whole(unique, sizes, valid)
    frame.begin(unique, whole)
    tile = Tile(frame, whole, kind)
    if apart:
        _spread(FILL, tile, value=fill)
    return tile


def tunable(name: str, default: TunableValue | None = None) -> Any:
    """Return a value that the mapping sets; a run without a mapping takes the default, or 32.

    Raises:
        TunableError: the mapping sets none and there is no default, or it is not positive.
    """
    frame = current()
    if not isinstance(name, str) or not name:
        raise TunableError(
            f"a tunable's name is a word, not {name!r}",
            _here(),
            hint="write task.tunable('block_M', 64)",
        )
    if not isinstance(default, int | str | float | np.integer | None):
        raise TunableError(
            f"the default of tunable {name} is {default!r}, not a number, a word or a flag",
            _here(), hint="write task.tunable('block_M', 64)",
        )  # fmt: skip
    value = _tunable(frame, name, default)
    if value is None:
        value = frame.tunables[name] = _fallback(frame, name)
    if isinstance(value, int) and not isinstance(value, bool) and value <= 0:
        raise TunableError(
            f"tunable {name} of {frame.task.name} is {value}, not positive",
            _here(),
            hint="set at least 1 in the mapping, or nothing: then one that fits is chosen",
        )
    if frame.tracer.drafting and isinstance(value, int) and not isinstance(value, bool):
        return Cutting(value, name)
    return value


def _fallback(frame: Frame, name: str) -> int:
    """Return the value for a run without a mapping; with one, raise TunableError."""
    fallback: int | None = getattr(frame.tracer.chooser, "fallback", None)
    if fallback is None:
        raise TunableError(
            f"tunable {name} of {frame.task.name} has no value",
            _here(),
            hint=f"write tunables: {{{name}: 64}} in the mapping, or give it a default here",
        )
    return fallback


def _tunable(frame: Frame, name: str, default: TunableValue | None) -> TunableValue | None:
    if name not in frame.tunables:
        value = frame.tracer.chooser.tunable(frame.site, name, default, _here())
        if value is None:
            return None
        frame.tunables[name] = value
    return frame.tunables[name]


def require(condition: bool, message: str) -> None:
    """State a demand of the logic on sizes and flags; `message` is reported where it is not met.

    Raises:
        UnmetDemandError: with the line of the demand, and the sizes that there are.
    """
    frame = current()
    if condition:
        return
    known = {**frame.tracer.dims, **frame.tracer.static}
    sizes = ", ".join(f"{name} = {value!r}" for name, value in known.items())
    hint = f"it is asked for {sizes}" if sizes else "other sizes or flags may meet it"
    frame.tracer.unmet(UnmetDemandError(f"{frame.task.name}: {message}", _here(), hint=hint))


def call_primitive(name: str, *operands: Tile, **attributes: Any) -> None:
    """Call a named tile operation; operand 0 is written (primitives.py has the contracts).

    Raises:
        CompositeTouchesDataError, UnknownPrimitiveError, ShapeError, DtypeError,
        ReadOnlyError: with the line of the call.
    """
    frame, where = current(), _here()
    frame.require_leaf(f"calls primitive {name!r}")
    known = {n: c for n, c in PRIMITIVES.items() if c.called}
    contract = known.get(name)
    if contract is None:
        raise UnknownPrimitiveError(f"unknown primitive {name!r}", where, hint=instead(name, known))
    if len(operands) != len(contract.operands):
        raise LaunchArgumentsError(
            f"{name} takes {', '.join(contract.operands)}; {len(operands)} operands are given",
            where,
            hint="primitives take what they write first, then what they read",
        )
    merged = _attributes(name, contract, attributes, where)
    for tile in operands:
        frame.require_live(_tile(tile))
    frame.require_writable(operands[0])
    check_axes(contract, operands, where)
    if frame.tracer.check:
        check_dtypes(contract, operands, where)
        for attribute, value in merged.items():
            what = f"{attribute} of {name}"
            if value is None:
                raise DtypeError(
                    f"{what} is None, not a number", where, hint="leave it out for its default"
                )
            require_number(value, operands[0].own_dtype, what, where)
    frame.body.append(
        Primitive(name, tuple(o.view for o in operands), tuple(sorted(merged.items())), where)
    )


def _attributes(
    name: str, contract: Contract, given: Mapping[str, Any], where: Location
) -> dict[str, Any]:
    """Return all attributes of a primitive; raises UnknownPrimitiveError for an unknown one."""
    known = contract.attributes or {}
    for attribute in given:
        if attribute not in known:
            none = "it takes none; a transposed operand is a transposed view, x.T"
            raise UnknownPrimitiveError(
                f"{name} takes no attribute {attribute!r}",
                where,
                hint=nearest(attribute, known) if known else none,
            )
    return {**known, **given}


@define(leaf=True)
def _fill_leaf(X, *, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    """Every element of X becomes `value`."""
    fill(X, value)


@define(leaf=True)
def _copy_leaf(Y, X):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    """Y = X, converted to Y's dtype."""
    call_primitive("copy", Y, X)


def _builtin(task: Task, name: str) -> Task:
    return replace(task, name=name, variant=name, builtin=True)


FILL = _builtin(_fill_leaf, "fill")
"""The built-in leaf that `fill` launches from a composite."""
COPY = _builtin(_copy_leaf, "copy")
"""The built-in leaf that `copy` launches from a composite."""


def fill(x: Tile, value: float) -> None:
    """Set every element to `value`; a composite launches the built-in leaf ``fill``."""
    if not current().task.leaf:
        _spread(FILL, x, value=value)
    elif isinstance(value, Expression | Symbol):  # known only when the kernel runs
        current().assign(x, value)
    else:
        call_primitive("fill", x, value=value)


def copy(target: Tile, source: Tile) -> None:
    """Copy `source` to `target`, converting the dtype; a composite launches the leaf ``copy``."""
    if current().task.leaf:
        call_primitive("copy", target, source)
    else:
        _spread(COPY, target, source)


def solve_triangular(target: Tile, lower: Tile, right: Tile, unit: bool = False) -> None:
    """Set `target` [N, M] to X with ``lower @ X = right``, by forward substitution; in a leaf.

    Args:
        target: A float32 or float64 tensor, as sums are rounded to its type.
        lower: [N, N], of which the lower triangle alone counts.
        right: [N, M]; may be `target` itself.
        unit: Take the diagonal of `lower` for ones.

    Raises:
        DtypeError, ShapeError and those of `call_primitive`, with the line of the call.
    """
    call_primitive("solve_triangular", target, lower, right, unit=unit)


def sort(values: Tile | None, indices: Tile | None, x: Tile, descending: bool = False) -> None:
    """Put the elements of each row of `x` [M, N] in order, and say where they were; in a leaf.

    NaN is the greatest, and equal elements stay in their order. Rows of fewer elements than N get
    the first of them: of ``descending=True`` the greatest.

    Args:
        values: [M, K] of the type of `x`, K at most N; None where only places are asked for.
        indices: [M, K] of integers; None where only values are asked for.
        x: The rows; another tensor than the results.
        descending: Begin with the greatest.

    Raises:
        DtypeError, ShapeError and those of `call_primitive`, with the line of the call.
    """
    for name, target in (("sort", values), ("argsort", indices)):
        if target is not None:
            call_primitive(name, target, x, descending=descending)


def topk(values: Tile | None, indices: Tile | None, x: Tile) -> None:
    """Set `values` and `indices` [M, K] to the K greatest of each row of `x`; see `sort`."""
    sort(values, indices, x, descending=True)


BLOCK = 64
"""The side of a tile of a built-in leaf without a tunable ``block_fill`` or ``block_copy``."""


def _spread(leaf: Task, *tiles: Tile, **keywords: Any) -> None:
    """Launch a built-in leaf, tile by tile where no loop around it is parallel.

    Tensors are whole there, and as large as the caller likes: no unit has the room for all of
    one, and the units are there to share the work.
    """
    frame = current()
    for tile in tiles:
        frame.require_live(_tile(tile))
    shape = tiles[0].view.shape
    apart = len({t.name for t in tiles}) == len(tiles)  # else a tile may be another's source
    alike = all(t.view.shape == shape for t in tiles)
    if not (shape and apart and alike) or _shared_out():
        launch(leaf, *tiles, **keywords)
        return
    side = tunable(f"block_{leaf.name}", BLOCK)
    # A tile of a vector has as many elements as one of a matrix.
    last = (side * side,) if len(shape) == 1 else (_rows_of(leaf, side), side)
    cut = (*(1,) * (len(shape) - len(last)), *last)
    grids = [Partition(tile, cut) for tile in tiles]
    with open_loop(
        frame, tuple(map(as_index, grids[0].shape)), _here(), parallel=True
    ) as variables:
        indices = tuple(map(Symbol, variables))
        launch(leaf, *(grid[indices] for grid in grids), **keywords)


def _rows_of(leaf: Task, side: int) -> Any:
    """Return how many rows a tile of a built-in leaf has; as many as columns, if nothing says."""
    return tunable(f"block_{leaf.name}_rows", int(side))


def _shared_out() -> bool:
    """Return whether a loop around, of this task or of its callers, is parallel."""
    return any(frame.parallel for frame in current().tracer.frames)


def index(x: Tile, axis: int) -> Expression:
    """Return each element's position along `axis` of the tensor that the kernel's caller passed.

    An expression in int64, in leaves only (CompositeTouchesDataError); copies do not change it.
    """
    current().require_leaf("reads positions")
    return Expression(ex.Position(_tile(x).view, _axis(x, axis)))


def start(x: Tile, axis: int) -> Any:
    """Return the offset of a tile along `axis` in the tensor that the kernel's caller passed.

    An integer or a symbol; raises IndexingError where the axis is not a plain range of that
    tensor.
    """
    tile, at = _tile(x), _axis(x, axis)
    home = current().home(tile.view).view
    place = next(
        (n for n, e in enumerate(home.index) if e.coefficient(axis_variable(at)) == 1), None
    )
    if place is None:
        raise IndexingError(
            f"axis {axis} of {tile.name} has no plain offset",
            _here(),
            hint="task.index(x, axis) gives each element's index, whatever view x is",
        )
    return symbols.symbol(home.origin()[place])


def _axis(x: Tile, axis: int) -> int:
    if not isinstance(axis, int | np.integer) or not -x.ndim <= axis < x.ndim:
        raise IndexingError(
            f"axis {axis!r} of a tensor with {x.ndim} axes", _here(),
            hint="axes are integers counted from 0, or from the end by -1",
        )  # fmt: skip
    return axis % x.ndim


def _tile(x: Any) -> Tile:
    if not isinstance(x, Tile):
        raise LaunchArgumentsError(
            f"{x!r} is not a tensor of this task", _here(), hint=not_a_tensor(x)
        )
    return x


def _composite(what: str) -> Frame:
    frame = current()
    frame.require_composite(what)
    return frame


def _here() -> Location:
    return Location.of_caller()
