"""Tensor expressions as operations on tiles of rows and columns, with their temporaries.

An expression becomes a list of vector commands for one strip: some rows by some
columns, whose first ones are the indices `ROW` and `COL`. The list depends only on how
large a strip is at most, so that the largest strip whose temporaries fit can be found
before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

from tvm import tirx

from septran.dtypes import is_float, itemsize, numpy_dtype
from septran.ir import expressions as ex
from septran.ir.evaluate import evaluate
from septran.ir.index import Index, Var, axis
from septran.ir.numerics import convert
from septran.simulator.commands import DTYPES
from septran.targets.dsa.context import Access, Address, Context
from septran.targets.dsa.runs import slope
from septran.targets.lower.expressions import axes_of, operand_dtype, position
from septran.tile.nodes import Region

ROW, COL = Var("@row"), Var("@col")
"""The first row and the first column of a strip."""
Point = tuple[Index, ...]
"""For each axis of an expression its coordinate: `ROW`, `COL`, or a fixed one."""


@dataclass(frozen=True)
class StridedTile:
    """Elements at equal distances; a distance of 0 repeats one element."""

    address: Address
    dtype: str
    row: int | Index
    """Bytes from one row to the next; an index where a call tells how long rows are."""
    col: int | Index
    rows: bool
    """Whether it has a row for each of the strip's, or one for all."""
    cols: bool
    spot: Spot | None = None
    """The temporary that it is; None for elements of a buffer."""


@dataclass(frozen=True)
class UniformValue:
    """One number for all elements."""

    value: Any
    """A Python number, an index, or a TensorIR expression."""
    dtype: str


Operand = Union[StridedTile, UniformValue]


@dataclass(frozen=True)
class Spot:
    """Bytes of the memory of temporaries."""

    offset: int
    size: int


@dataclass(frozen=True)
class Operation:
    """One vector command, without its extents."""

    name: str
    tiles: tuple[tuple[str, StridedTile], ...]
    rows: bool
    cols: bool
    numbers: tuple[tuple[str, Any], ...]
    transposed: bool = False
    """Whether the strip's rows are what the command calls columns."""

    def emit(self, context: Context, queue: int, rows: Index, cols: Index) -> None:
        """Write it for a strip of `rows` x `cols`."""
        arguments: dict[str, Any] = dict(self.numbers)
        for name, tile in self.tiles:
            arguments[name] = tile.address
            arguments[f"{name}_row"] = tile.row
            arguments[f"{name}_col"] = tile.col
        if self.name.startswith("vec_reduce"):
            # A reduction writes one element a row.
            del arguments["dst_col"]
        arguments["rows"] = rows if self.rows else 1
        arguments["cols"] = cols if self.cols else 1
        if self.transposed:
            arguments["rows"], arguments["cols"] = arguments["cols"], arguments["rows"]
        if "value" in arguments:
            dtype = DTYPES[arguments["type"]]
            arguments["value"] = tir_number(context, arguments["value"], dtype)
        context.command(self.name, queue, **arguments)


@dataclass
class TemporaryMemory:
    """The memory of temporaries, as one flat buffer for each dtype."""

    memory: str
    capacity: int
    alignment: int
    held: list[Spot] = field(default_factory=list)
    peak: int = 0

    def take(self, size: int) -> Spot:
        """Bytes that nobody has, as low as possible."""
        step = self.alignment
        start = 0
        # First fit: the lowest gap between two spots that is large enough, else behind all.
        for spot in sorted(self.held, key=lambda s: s.offset):
            if start + size <= spot.offset:
                break
            start = max(start, -(-(spot.offset + spot.size) // step) * step)
        found = Spot(start, size)
        self.held.append(found)
        self.peak = max(self.peak, start + size)
        return found

    def give(self, spot: Spot) -> None:
        """Let others have the bytes."""
        self.held.remove(spot)


@dataclass
class Planner:
    """Makes the operations of one statement for strips of at most `high` x `wide`."""

    context: Context
    scratch: TemporaryMemory
    high: int
    wide: int
    operations: list[Operation] = field(default_factory=list)

    def address(self, spot: Spot, dtype: str) -> Address:
        """The first element of a temporary."""
        return address_of(self.context, self.scratch, spot, dtype)

    # ---- operands ---------------------------------------------------------------------

    def load(self, region: Region, point: Point) -> StridedTile:
        """The elements of a region at a point."""
        access = self.context.access(region)
        return self.tile(access, point)

    def tile(self, access: Access, point: Point) -> StridedTile:
        """A strip of a buffer."""
        strides: dict[Var, int | Index] = {ROW: 0, COL: 0}
        for number, at in enumerate(point):
            for variable in strides:
                if variable in at.variables():
                    strides[variable] = (access.slope(number) or 0) * access.storage.item
        has = {v: any(v in at.variables() for at in point) for v in strides}
        address = access.at(dict(enumerate(point)))
        return StridedTile(address, access.dtype, strides[ROW], strides[COL], has[ROW], has[COL])

    def fresh(self, dtype: str, *, rows: bool, cols: bool) -> StridedTile:
        """A temporary for a strip."""
        item = itemsize(dtype)
        pitch = item * (self.wide if cols else 1)
        if rows and cols and self.scratch.memory:
            # Each row begins where the memory wants it to.
            wanted = self.context.machine.memory(self.scratch.memory).row_alignment
            pitch = -(-pitch // wanted) * wanted
        spot = self.scratch.take(pitch * (self.high if rows else 1))
        address = self.address(spot, dtype)
        row, col = pitch if rows else 0, item if cols else 0
        return StridedTile(address, dtype, row, col, rows, cols, spot)

    def drop(self, *operands: Operand) -> None:
        """Operands that are not used any more."""
        for operand in operands:
            if isinstance(operand, StridedTile) and operand.spot in self.scratch.held:
                self.scratch.give(operand.spot)

    def result(
        self, dtype: str, operands: Sequence[StridedTile], into: StridedTile | None
    ) -> StridedTile:
        """Return the target of an operation: `into`, an operand's place, or a new temporary."""
        rows, cols = (any(getattr(o, name) for o in operands) for name in ("rows", "cols"))
        if into is not None and (into.rows, into.cols, into.dtype) == (rows, cols, dtype):
            self.drop(*operands)
            return into
        for operand in operands:
            # Of the same extents and item size, each element is written where its operand's was.
            same = (operand.rows, operand.cols) == (rows, cols)
            if operand.spot and same and itemsize(operand.dtype) == itemsize(dtype):
                self.drop(*(o for o in operands if o is not operand))
                return replace(operand, address=self.address(operand.spot, dtype), dtype=dtype)
        found = self.fresh(dtype, rows=rows, cols=cols)
        self.drop(*operands)
        return found

    def operation(
        self, name: str, dtype: str, tiles: Mapping[str, StridedTile], **numbers: Any
    ) -> StridedTile:
        """Append a command that writes ``tiles['dst']``."""
        target = tiles["dst"]
        given = (*numbers.items(), ("type", DTYPES.index(dtype)))
        self.operations.append(
            Operation(f"vec_{name}", tuple(tiles.items()), target.rows, target.cols, given)
        )
        return target

    # ---- expressions ------------------------------------------------------------------

    def value(self, expr: ex.Expr, point: Point, into: StridedTile | None = None) -> Operand:
        """The value of `expr` at a point, perhaps written `into` a tile."""
        if not isinstance(expr, ex.Constant) and _constant(expr):
            folded = evaluate(expr, _nothing, {}, {}, _nothing)
            return UniformValue(folded.reshape(()).item(), expr.dtype)
        match expr:
            case ex.Load():
                assert isinstance(expr.view, Region)
                return self.load(expr.view, point)
            case ex.Constant():
                return self.cast(UniformValue(expr.value, ""), expr.dtype)
            case ex.Scalar():
                return UniformValue(self.context.scalars[expr.name], expr.dtype)
            case ex.IndexValue():
                return UniformValue(expr.index, expr.dtype)
            case ex.Position():
                return self.position(expr, point)
            case ex.Unary():
                return self.unary(expr, point, into)
            case ex.Binary():
                return self.binary(expr, point, into)
            case ex.Select():
                return self.select(expr, point, into)
            case ex.Cast():
                return self.cast(self.value(expr.operand, point), expr.dtype, into)
            case ex.Expand():
                return self.value(
                    expr.operand, broadcast(point, expr.operand, expr.shape, expr), into
                )
        raise TypeError(expr)

    def child(self, expr: ex.Expr, parent: ex.Expr, point: Point) -> Operand:
        """An operand of a node that broadcasts."""
        return self.value(expr, broadcast(point, expr, parent.shape))

    def cast(self, value: Operand, dtype: str, into: StridedTile | None = None) -> Operand:
        """A value in another dtype."""
        if value.dtype == dtype:
            return value
        if isinstance(value, UniformValue) and _in_c(value, dtype):
            return UniformValue(_converted(value.value, dtype), dtype)
        value = self.elements(value)
        target = self.result(dtype, [value], into)
        return self.operation(
            "cast", value.dtype, {"dst": target, "x": value}, dst_type=DTYPES.index(dtype)
        )

    def elements(self, value: Operand) -> StridedTile:
        """A value as a tile: a number is written once, and repeated."""
        if isinstance(value, StridedTile):
            return value
        one = self.fresh(value.dtype, rows=False, cols=False)
        return self.operation("fill", value.dtype, {"dst": one}, value=value.value)

    def position(self, expr: ex.Position, point: Point) -> Operand:
        """Return where along the entry's tensor the elements lie."""
        own = axis(expr.axis)
        entries = [e for e in expr.view.index if own in e.variables()]
        at = position(expr, point[0]) if entries else Index()
        moving = [v for v in (ROW, COL) if v in point[0].variables()]
        if not moving:
            return self.cast(UniformValue(at, "int64"), expr.dtype)
        found = self.fresh("int64", rows=moving == [ROW], cols=moving == [COL])
        # Rows are numbered as the columns of a tile that is transposed.
        transposed = replace(found, row=found.col, col=found.row) if found.rows else found
        # `iota` counts in ones: any other step is multiplied in, and the start added behind that.
        step = (slope(entries[0], own) or 0) if entries else 0
        start = at if step == 1 else Index()
        self.operation("iota", "int64", {"dst": transposed}, start=start)
        self.operations[-1] = replace(self.operations[-1], transposed=found.rows)
        for function, number in (("multiply", step), ("add", at)):
            if step != 1:
                tiles = {"dst": found, "x": found}
                self.operation(f"{function}_imm", "int64", tiles, value=number, reversed=0)
        return self.cast(found, expr.dtype)

    def unary(self, expr: ex.Unary, point: Point, into: StridedTile | None) -> Operand:
        """A function of one element."""
        if expr.function == "not":
            operand = self.elements(self.value(expr.operand, point))
            target = self.result("bool", [operand], into)
            tiles = {"dst": target, "x": operand}
            if operand.dtype == "bool":
                return self.operation("not", "bool", tiles)
            return self.operation("equal_imm", operand.dtype, tiles, value=0, reversed=0)
        operand = self.elements(self.cast(self.value(expr.operand, point), expr.dtype))
        target = self.result(expr.dtype, [operand], into)
        return self.operation(expr.function, expr.dtype, {"dst": target, "x": operand})

    def binary(self, expr: ex.Binary, point: Point, into: StridedTile | None) -> Operand:
        """A function of two elements, one of which may be a number."""
        common = operand_dtype(expr)
        left = self.cast(self.child(expr.left, expr, point), common)
        right = self.cast(self.child(expr.right, expr, point), common)
        # No command takes two numbers: one becomes a tile of one element.
        if isinstance(left, UniformValue) and isinstance(right, UniformValue):
            left = self.elements(left)
        if isinstance(left, StridedTile) and isinstance(right, StridedTile):
            target = self.result(expr.dtype, [left, right], into)
            tiles = {"dst": target, "x": left, "y": right}
            return self.operation(expr.function, common, tiles)
        tile, number = (left, right) if isinstance(left, StridedTile) else (right, left)
        assert isinstance(tile, StridedTile)
        assert isinstance(number, UniformValue)
        target = self.result(expr.dtype, [tile], into)
        return self.operation(
            f"{expr.function}_imm",
            common,
            {"dst": target, "x": tile},
            value=number.value,
            reversed=int(tile is right),
        )

    def select(self, expr: ex.Select, point: Point, into: StridedTile | None) -> Operand:
        """One of two elements."""
        condition = self.elements(self.child(expr.condition, expr, point))
        if condition.dtype != "bool":
            held = condition
            condition = self.result("bool", [held], None)
            tiles = {"dst": condition, "x": held}
            self.operation("not_equal_imm", held.dtype, tiles, value=0, reversed=0)
        yes, no = (
            self.elements(self.cast(self.child(e, expr, point), expr.dtype))
            for e in (expr.yes, expr.no)
        )
        target = self.result(expr.dtype, [condition, yes, no], into)
        tiles = {"dst": target, "c": condition, "x": yes, "y": no}
        return self.operation("select", expr.dtype, tiles)


def address_of(context: Context, scratch: TemporaryMemory, spot: Spot, dtype: str) -> Address:
    """The first element of some bytes of the memory of temporaries."""
    flat = context.temporary(scratch.memory, dtype) if scratch.memory else None
    return Address(flat, Index.of(spot.offset // itemsize(dtype)))


def broadcast(
    point: Point, expr: ex.Expr, shape: tuple[int, ...], parent: ex.Expr | None = None
) -> Point:
    """The point of an operand of a node of `shape`, by NumPy's rule."""
    return tuple(Index() if n is None else point[n] for n in axes_of(expr, shape, parent))


def tir_number(context: Context, value: Any, dtype: str) -> Any:
    """A number as a TensorIR constant or expression: float64 for floats, else int64."""
    wide = "float64" if is_float(dtype) else "int64"
    if isinstance(value, bool | int | float):
        # What uint64 alone has is passed by its bits.
        whole = (int(value) + 2**63) % 2**64 - 2**63 if wide == "int64" else float(value)
        return tirx.const(whole, wide)
    found = context.lower(value) if isinstance(value, Index) else value
    return found if str(found.ty.dtype) == wide else tirx.Cast(wide, found)


def _in_c(number: UniformValue, dtype: str) -> bool:
    """Whether C, or nothing at all, converts a number as the language does."""
    if isinstance(number.value, bool | int | float | Index):
        return True
    return dtype in ("float32", "float64") and is_float(number.dtype)


def _converted(value: Any, dtype: str) -> Any:
    if isinstance(value, bool | int | float):
        return convert(value, numpy_dtype(dtype)).item()
    if isinstance(value, Index):
        return value  # exact in every dtype that a position fits
    return tirx.Cast(dtype, value) if str(value.ty.dtype) != dtype else value


def _constant(expr: ex.Expr) -> bool:
    return all(
        isinstance(n, ex.Constant) or (ex.children(n) and not isinstance(n, ex.Expand))
        for n in ex.walk(expr)
    )


def _nothing(*_: Any) -> Any:
    raise TypeError("a constant reads nothing")
