"""Vector commands as calls of Ascend C: contiguous columns, and rows at strides of whole blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from septran.dtypes import C_TYPES, is_float, itemsize
from septran.simulator.commands import ADDRESS, DTYPES, EXTERNS
from septran.targets.dsa.ascend import prelude
from septran.targets.dsa.code.codegen import LimitError, Printer

TYPES: Mapping[str, str] = {
    **{k: v for k, v in C_TYPES.items() if "int" in k},
    "bool": "uint8_t", "float16": "half", "bfloat16": "bfloat16_t", "float32": "float",
    "float64": "double",
}  # fmt: skip
"""Of an element, in Ascend C."""
ARITHMETIC = ("float32", "float16", "int32", "int16")
FLOATS = ("float32", "float16")
"""What the vector core computes in: in all of the first, functions in the second."""
POSITIONS: Mapping[str, tuple[str, str, int]] = {
    "L1": ("A1", "l1", 524288),
    "L0A": ("A2", "l0a", 65536),
    "L0B": ("B2", "l0b", 65536),
    "L0C": ("CO1", "l0c", 131072),
    "UB": ("VECCALC", "ub", 196608),
}
"""Of a memory: the position of its buffer, the name of that, and its bytes."""
CASTS: Mapping[tuple[str, str], str] = {
    ("float32", "float16"): "RINT", ("float32", "bfloat16"): "RINT",
    ("float16", "float32"): "NONE", ("bfloat16", "float32"): "NONE",
    ("float32", "int32"): "TRUNC", ("int32", "float32"): "RINT",
    ("float16", "int32"): "TRUNC",
}  # fmt: skip
"""How a conversion rounds, by the types from and to."""
BLOCK = 32
"""Bytes of UB, at whose multiples operands begin."""
ARGUMENTS_OF = {command.name: command.arguments for command, _ in EXTERNS.values()}


@dataclass(frozen=True)
class Strided:
    """An operand of a vector instruction: its tensor, elements between rows, and 0 or 1.

    A column stride of 0 is of one number a row.
    """

    tensor: str
    row: str
    col: str

    def __str__(self) -> str:
        return f"{self.tensor}, {self.row}, {self.col}"


@dataclass(frozen=True)
class VectorCommand:
    """A vector command, its operands and extents as text."""

    function: str
    dtype: str
    tiles: Mapping[str, Strided]
    given: Mapping[str, Any]
    rows: Any
    extents: str

    @property
    def target(self) -> str:
        """The tensor that is written, and elements between its rows."""
        tile = self.tiles["dst"]
        return f"{tile.tensor}, {tile.row}"


@dataclass
class VectorPrinter(Printer):
    """Prints what the vector core computes."""

    memory: dict[Any, str] = field(default_factory=dict)
    """The memory of each buffer."""
    used: set[str] = field(default_factory=set)
    """Memories."""

    def _limit(self, message: str) -> LimitError:
        return LimitError(message, self.vendor.where("language"), hint=self.origin or None)

    def _place(self, value: Any, dtype: str | None = None) -> tuple[str, Any]:
        """A tensor at an element, and its buffer."""
        load = value.args[0]
        name = self._read(load.source)
        text = self.expr(load.indices[0])
        return (name if text == "0" else f"{name}[{text}]"), load.source

    def _elements(self, value: Any, item: int) -> str:
        """Bytes as a number of elements."""
        if isinstance(value, tirx.IntImm):
            if int(value) % item:
                raise self._limit(f"a stride of {int(value)} bytes in elements of {item}")
            return str(int(value) // item)
        return f"{self.expr(value, 12)} / {item}"

    def _check_start(self, value: Any) -> None:
        """Refuse what begins, or may begin, at no multiple of 32 bytes of UB."""
        load = value.args[0]
        item = itemsize(str(load.source.ty.dtype))
        if multiple(load.indices[0]) * item % BLOCK:
            at = self.expr(load.indices[0])
            raise self._limit(
                f"{load.source.name} is used from element {at}: a row in UB begins at a multiple "
                f"of {BLOCK} bytes"
            )

    def _check_pitches(
        self,
        command: str,
        function: str,
        strides: Mapping[str, Any],
        tiles: Mapping[str, Strided],
        cols: str,
    ) -> None:
        """Refuse rows of vectors that begin elsewhere, but where all of them are one run."""
        vectors = [n for n in tiles if tiles[n].col == "1"]
        if command == "vec_reduce":
            vectors.remove("dst")
        elif command != "vec_copy" and all(tiles[n].row == cols for n in tiles):
            return
        for name in vectors:
            if multiple(strides[name][0]) % BLOCK:
                raise self._limit(
                    f"{function or command} of rows that are {tiles[name].row} elements apart: a "
                    f"row in UB begins at a multiple of {BLOCK} bytes"
                )

    def _own(self, offset: int, dtype: str, size: int) -> str:
        """A part of the generator's own memory in UB."""
        self.used.add("UB")
        kind = TYPES[dtype]
        place = POSITIONS["UB"][2] - (12 << 10) + offset
        return f"ub.GetWithOffset<{kind}>({size // itemsize(dtype)}, {place})"

    def _tiles(self, given: dict[str, Any], names: list[str], reduces: bool) -> Any:
        """Strides and extents, with what is contiguous as columns."""
        rows, cols = given["rows"], given["cols"]
        found = {n: (given[f"{n}_row"], given.get(f"{n}_col")) for n in names}
        items = {n: itemsize(str(given[n].args[0].source.ty.dtype)) for n in names}
        if is_number(cols, 1) and not reduces:
            # One column: its rows are what is contiguous, or all.
            rows, cols = cols, rows
            found = {n: (tirx.IntImm("int32", 0), row) for n, (row, _) in found.items()}
        for name, (_, col) in found.items():
            fits = (0, items[name]) if name != "dst" else (items[name],)
            if (
                col is not None
                and not any(is_number(col, n) for n in fits)
                and not is_number(cols, 1)
            ):
                raise self._limit("a vector instruction goes along columns that are side by side")
        return rows, cols, found

    def vector(self, command: str, function: str, given: dict[str, Any]) -> list[str]:
        """The calls of a vector command; raises LimitError for what the vector core cannot do."""
        dtype = DTYPES[int(given["type"])]
        names = [a.name for a in ARGUMENTS_OF[command] if a.kind == ADDRESS]
        for name in names:
            memory = self.memory.get(given[name].args[0].source)
            if memory != "UB":
                raise self._limit(f"{function or command} of what is in {memory or 'main memory'}")
        rows, cols, strides = self._tiles(given, names, command == "vec_reduce")
        tiles = {}
        for name in names:
            place, buffer = self._place(given[name])
            row, col = strides[name]
            one = col is None or is_number(cols, 1) or not is_number(col, 0)
            if name != "dst" or command != "vec_reduce":  # whose results are elements
                self._check_start(given[name])
            row = self._elements(row, itemsize(str(buffer.ty.dtype)))
            tiles[name] = Strided(place, row, "1" if one else "0")
        extents = f"{self.expr(rows)}, {self.expr(cols)}"
        if not is_number(rows, 1):
            self._check_pitches(command, function, strides, tiles, self.expr(cols))
        emit = getattr(self, f"_{command}")
        lines: list[str] = emit(VectorCommand(function, dtype, tiles, given, rows, extents))
        return lines

    def _spread(self, call: VectorCommand, name: str, slot: int = 0) -> tuple[list[str], Strided]:
        """An operand that is one number a row, as blocks; others as they are."""
        tile = call.tiles[name]
        if tile.col == "1":
            return [], tile
        own = self._own(prelude.SPREADS[slot], call.dtype, 4096)
        count = "1" if tile.row == "0" else self.expr(call.rows)
        if count.isdigit() and int(count) > prelude.SPREAD_ROWS:
            most = prelude.SPREAD_ROWS
            raise self._limit(f"a column of {count} numbers: at most {most} are spread")
        if tile.row not in ("0", "1"):
            raise self._limit("a column of numbers that are not side by side")
        row = "0" if tile.row == "0" else str(32 // itemsize(call.dtype))
        return [f"spread({own}, {tile.tensor}, {count});"], Strided(own, row, "0")

    def _check(self, call: VectorCommand, name: str, known: Any, types: tuple[str, ...]) -> None:
        if name not in known:
            raise self._limit(f"this generator has no calls for {name}")
        if call.dtype not in types:
            listed = ", ".join(types)
            raise self._limit(f"the vector core computes {name} in {listed}, not {call.dtype}")

    def _vec_binary(self, call: VectorCommand) -> list[str]:
        name = call.function
        self._check(call, name, prelude.BINARY, FLOATS if name == "divide" else ARITHMETIC)
        (first, x), (second, y) = self._spread(call, "x"), self._spread(call, "y", 1)
        return [*first, *second, f"rows_{name}({call.target}, {x}, {y}, {call.extents});"]

    def _vec_immediate(self, call: VectorCommand) -> list[str]:
        name = call.function.removesuffix("_imm")
        self._check(call, name, prelude.BINARY, FLOATS if name == "divide" else ARITHMETIC)
        value = self._number(call.given["value"], call.dtype)
        if name in prelude.SCALAR:
            return self._scalar(call, name, value)
        lines, x = self._spread(call, "x")
        own = self._own(prelude.NUMBERS[0], call.dtype, 32)
        ends = [str(x), f"{own}, 0, 0"]
        if int(call.given["reversed"]):
            ends.reverse()
        text = f"rows_{name}({call.target}, {', '.join(ends)}, {call.extents});"
        return [*lines, f"number({own}, {value});", text]

    def _scalar(self, call: VectorCommand, name: str, value: str) -> list[str]:
        """An operation with one number for all elements."""
        lines, x = self._spread(call, "x")
        return [*lines, f"rows_{name}s({call.target}, {x}, {value}, {call.extents});"]

    def _constant(self, value: float, dtype: str) -> str:
        return self._number(tirx.FloatImm("float64", value), dtype)

    def _vec_unary(self, call: VectorCommand) -> list[str]:
        name = {"rsqrt": "sqrt"}.get(call.function, call.function)
        if name == "neg":
            self._check(call, name, ("neg",), ARITHMETIC)
            return self._scalar(call, "multiply", self._constant(-1.0, call.dtype))
        self._check(call, name, (*prelude.UNARY, *prelude.COUNTED), FLOATS)
        if name in prelude.COUNTED and call.tiles["x"].col != "1":
            raise self._limit(f"{name} of one number a row")
        lines, x = self._spread(call, "x")
        lines.append(f"rows_{name}({call.target}, {x}, {call.extents});")
        if call.function == "rsqrt":
            # The core's own Rsqrt is an approximation.
            own, one = (
                self._own(prelude.NUMBERS[0], call.dtype, 32),
                self._constant(1.0, call.dtype),
            )
            ends = f"{own}, 0, 0, {call.target}, 1"
            lines.append(f"number({own}, {one});")
            lines.append(f"rows_divide({call.target}, {ends}, {call.extents});")
        return lines

    def _vec_cast(self, call: VectorCommand) -> list[str]:
        to, x = DTYPES[int(call.given["dst_type"])], call.tiles["x"]
        mode = CASTS.get((call.dtype, to))
        if mode is None:
            raise self._limit(f"the vector core has no instruction from {call.dtype} to {to}")
        if x.col != "1":
            raise self._limit("a conversion of one number a row")
        how = f"RoundMode::CAST_{mode}"
        return [f"rows_cast({call.target}, {x.tensor}, {x.row}, {how}, {call.extents});"]

    def _vec_reduce(self, call: VectorCommand) -> list[str]:
        name = call.function.removeprefix("reduce_")
        self._check(call, name, prelude.REDUCTIONS, FLOATS)
        x = call.tiles["x"]
        if x.col != "1":
            raise self._limit("a reduction along columns that are not side by side")
        own = self._own(prelude.PARTS, call.dtype, prelude.PARTS_BYTES)
        tensors = f"{x.tensor}, {x.row}, {own}"
        if is_number(call.given["accumulate"], 0):
            return [f"rows_reduce_{name}({call.target}, {tensors}, {call.extents});"]
        # The results of these columns are a row of their own, and joined with those before.
        spare, d = self._own(prelude.SPREADS[0], call.dtype, 4096), call.tiles["dst"]
        count = self.expr(call.rows)
        if d.row not in ("0", "1"):
            raise self._limit("results of a reduction that are not side by side")
        join = {"sum": "add", "max": "maximum", "min": "minimum"}[name]
        ends = f"{d.tensor}, 0, {d.tensor}, 0, 1, {spare}, 0, 1"
        return [
            f"rows_reduce_{name}({spare}, 1, {tensors}, {call.extents});",
            f"rows_{join}({ends}, 1, {count});",
        ]

    def _vec_fill(self, call: VectorCommand) -> list[str]:
        self._check(call, "fill", ("fill",), ARITHMETIC)
        value = self._number(call.given["value"], call.dtype)
        return [f"rows_fill({call.target}, {value}, {call.extents});"]

    def _vec_copy(self, call: VectorCommand) -> list[str]:
        x = call.tiles["x"]
        if x.col != "1":
            self._check(call, "copy", ("copy",), ARITHMETIC)
            return self._scalar(call, "multiply", self._constant(1.0, call.dtype))
        if itemsize(call.dtype) not in (2, 4):
            raise self._limit(f"Copy moves elements of 16 and 32 bits, not {call.dtype}")
        return [f"rows_copy({call.target}, {x}, {call.extents});"]

    def _vec_select(self, _: VectorCommand) -> list[str]:
        raise self._limit("this generator has no calls for select")

    def _vec_iota(self, _: VectorCommand) -> list[str]:
        raise self._limit("this generator has no calls for positions")

    def _number(self, value: Any, dtype: str) -> str:
        """A number as a scalar of an instruction."""
        if is_float(dtype):
            text = self._single(value)
            return f"half({text})" if dtype == "float16" else text
        if isinstance(value, tirx.FloatImm):
            value = tirx.IntImm("int64", int(value.value))
        return f"{TYPES[dtype]}({self.expr(value)})"

    def _single(self, value: Any) -> str:
        if isinstance(value, tirx.FloatImm):
            return self.expr(tirx.FloatImm("float32", value.value))
        inner = value.value if isinstance(value, tirx.Cast) else value
        text = self.expr(inner)
        return text if str(inner.ty.dtype) == "float32" else f"float({text})"


def is_number(value: Any, number: int) -> bool:
    """Whether a constant is a number."""
    return (isinstance(value, tirx.IntImm) and int(value) == number) or (
        isinstance(value, int) and value == number
    )


def multiple(value: Any) -> int:
    """A number that divides a value whatever its variables are; 0 for zero itself."""
    kind = type(value).__name__
    if isinstance(value, tirx.IntImm):
        return abs(int(value))
    if kind == "Mul":
        return multiple(value.a) * multiple(value.b)
    if kind in ("Add", "Sub", "Min", "Max", "Mod", "FloorMod"):
        return math.gcd(multiple(value.a), multiple(value.b))
    if kind == "Select":
        return math.gcd(multiple(value.true_value), multiple(value.false_value))
    return multiple(value.value) if kind == "Cast" else 1
