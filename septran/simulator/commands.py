"""The table of the commands that a DSA's control core can issue.

TensorIR names each as the extern ``dsa.<name>`` with these arguments in this order;
CodeGenDSA turns it into the vendor's function; the recorder writes it into the stream as
one record; the simulator carries it out. Families (``vec_unary``) have one extern for
each function (``dsa.vec_exp``).

Every command goes to the end of an in-order queue and returns at once, except ``sync``
and ``barrier``. What is in different queues runs side by side; only flags order it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from septran.ir.expressions import BINARY, REDUCTIONS, UNARY

ADDRESS, INTEGER, VALUE = "address", "integer", "value"
"""Kinds of arguments: a pointer; an int64; a number of the command's dtype."""


@dataclass(frozen=True)
class Argument:
    """One argument of a command."""

    name: str
    kind: str
    meaning: str


@dataclass(frozen=True)
class Command:
    """One thing to do, or a family of them that differ in `functions` alone."""

    name: str
    arguments: tuple[Argument, ...]
    meaning: str
    functions: tuple[str, ...] = ()
    """The members of a family, as the suffix of the extern: ``dsa.vec_exp``."""

    @property
    def externs(self) -> tuple[str, ...]:
        """Its names in TensorIR."""
        if not self.functions:
            return (f"dsa.{self.name}",)
        return tuple(f"dsa.vec_{function}" for function in self.functions)


def _arguments(text: str) -> tuple[Argument, ...]:
    """From ``name: meaning`` lines; ``&name`` is an address, ``=name`` a value."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        name, meaning = (part.strip() for part in line.split(":", 1))
        kind = {"&": ADDRESS, "=": VALUE}.get(name[0], INTEGER)
        found.append(Argument(name.lstrip("&="), kind, meaning))
    return tuple(found)


_QUEUE = "queue: number of the queue that it goes to\n"
_SHAPE = "rows: extent\ncols: extent\n"
_TYPE = "type: number of the dtype that is computed in (`DTYPES`)\n"


def _tile(name: str) -> str:
    return (
        f"&{name}: first element\n"
        f"{name}_row: bytes from one row to the next; 0 repeats the row\n"
        f"{name}_col: bytes from one column to the next; 0 repeats the column\n"
    )


_BLOCKED = _arguments(
    _QUEUE
    + """
    &dst: first byte
    dst_stride: bytes between rows (of blocks, where that side is blocked)
    &src: first byte
    src_stride: bytes between rows (of blocks, where that side is blocked)
    rows: rows of elements that exist; the rest of an edge block becomes zero
    cols: columns of elements that exist
    item_bytes: bytes of an element
    block_rows: rows of a block
    block_cols: columns of a block; a block is row by row, blocks of a row side by side
    """
)

COMMANDS: Mapping[str, Command] = {
    command.name: command
    for command in (
        Command(
            "dma_copy",
            _arguments(
                _QUEUE
                + """
                &dst: first byte
                dst_stride: bytes from one row to the next
                &src: first byte
                src_stride: bytes from one row to the next
                rows: how many
                row_bytes: contiguous bytes of a row
                """
            ),
            "copy rows of bytes from one memory to another",
        ),
        Command("dma_block", _BLOCKED, "copy row-major elements into blocks (fractal layout)"),
        Command("dma_unblock", _BLOCKED, "copy blocks (fractal layout) into row-major elements"),
        Command(
            "dma_zero",
            _arguments(_QUEUE + "&dst: first byte\ndst_stride: as above\nrows: n\nrow_bytes: n"),
            "zero rows of bytes",
        ),
        Command(
            "mma",
            _arguments(
                _QUEUE
                + """
                &c: sums
                c_stride: bytes between rows (fractal layout: rows of blocks); so below
                &a: left operand, m x k
                a_stride: bytes
                a_transposed: 1 where it is stored k x m
                &b: right operand, k x n
                b_stride: bytes
                b_transposed: 1 where it is stored n x k
                m: rows of c
                n: columns of c
                k: products a sum
                c_type: number of the dtype of c (`DTYPES`)
                type: number of the dtype of a and b
                accumulate: 0 to start from zero, 1 to add to what c holds
                """
            ),
            "c = a @ b, or c += a @ b; layouts are the instruction's, in the machine file",
        ),
        Command(
            "vec_unary",
            _arguments(_QUEUE + _tile("dst") + _tile("x") + _SHAPE + _TYPE),
            "dst = function(x), element by element",
            UNARY,
        ),
        Command(
            "vec_binary",
            _arguments(_QUEUE + _tile("dst") + _tile("x") + _tile("y") + _SHAPE + _TYPE),
            "dst = function(x, y); comparisons write bool",
            BINARY,
        ),
        Command(
            "vec_immediate",
            _arguments(
                _QUEUE + _tile("dst") + _tile("x") + "=value: y, for all elements\n"
                "reversed: 1 for function(value, x)\n" + _SHAPE + _TYPE
            ),
            "dst = function(x, value), or function(value, x)",
            tuple(f"{function}_imm" for function in BINARY),
        ),
        Command(
            "vec_select",
            _arguments(
                _QUEUE + _tile("dst") + _tile("c") + _tile("x") + _tile("y") + _SHAPE + _TYPE
            ),
            "dst = x where the bool c holds, else y",
            ("select",),
        ),
        Command(
            "vec_cast",
            _arguments(
                _QUEUE + _tile("dst") + _tile("x") + _SHAPE + "dst_type: dtype to\n" + _TYPE
            ),
            "dst = x in another dtype (of `type`), rounded to nearest even",
            ("cast",),
        ),
        Command(
            "vec_reduce",
            _arguments(
                _QUEUE
                + "&dst: first element\ndst_row: bytes from one result to the next\n"
                + _tile("x")
                + _SHAPE
                + "accumulate: 1 to combine with what dst holds\n"
                + _TYPE
            ),
            "dst[row] = reduction of x[row, :]",
            tuple(f"reduce_{function}" for function in REDUCTIONS),
        ),
        Command(
            "vec_fill",
            _arguments(_QUEUE + _tile("dst") + "=value: the number\n" + _SHAPE + _TYPE),
            "dst = value",
            ("fill",),
        ),
        Command(
            "vec_copy",
            _arguments(_QUEUE + _tile("dst") + _tile("x") + _SHAPE + _TYPE),
            "dst = x, same dtype",
            ("copy",),
        ),
        Command(
            "vec_iota",
            _arguments(_QUEUE + _tile("dst") + "start: first number\n" + _SHAPE + _TYPE),
            "dst[row, col] = start + col",
            ("iota",),
        ),
        Command(
            "set_flag",
            _arguments("src: queue that sets\ndst: queue that waits\nflag: number"),
            "at this place of queue src: count the flag (src, dst, number) up; waits while full",
        ),
        Command(
            "wait_flag",
            _arguments("src: queue that sets\ndst: queue that waits\nflag: number"),
            "at this place of queue dst: wait until the flag is above 0, count it down",
        ),
        Command("sync", (), "the control core waits until all its queues are empty"),
        Command("barrier", (), "sync, and wait until every core's control core is here"),
    )
}
"""By name."""

EXTERNS: Mapping[str, tuple[Command, str]] = {
    extern: (command, function)
    for command in COMMANDS.values()
    for extern, function in zip(command.externs, command.functions or ("",), strict=True)
}
"""The command and its function (empty where it has no family) by extern name."""

CODES: Mapping[str, int] = {extern: n for n, extern in enumerate(EXTERNS)}
"""Number of each extern in the recorded stream."""

DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
"""Numbers of element types in commands."""

ARGUMENTS = max(len(command.arguments) for command in COMMANDS.values())

RECORD = np.dtype(
    [("code", "i4"), ("core", "i4"), ("line", "i4"), ("pad", "i4"), ("arguments", "i8", ARGUMENTS)]
)
"""One command as it was issued: its number in `CODES`, the core, the line of the generated
source (0 where unknown), its arguments in order. A `VALUE` is an int64 where `type` is an
integer or bool dtype, else the bits of a float64."""

PARAMETER_BITS = 40
"""Parameter p of the kernel (in the program's order) is addressed from (p + 1) << 40."""
LOCAL_BITS = 56
"""Memory n of the machine (of the core that issues) is addressed from
(1 << 56) + (n << 40)."""


def parameter_address(position: int) -> int:
    """Address of the first byte of the kernel's parameter number `position`."""
    return (position + 1) << PARAMETER_BITS


def memory_address(position: int) -> int:
    """Address of byte 0 of the machine's memory number `position`, on the issuing core."""
    return (1 << LOCAL_BITS) + (position << PARAMETER_BITS)
