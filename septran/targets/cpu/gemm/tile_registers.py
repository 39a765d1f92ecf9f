"""AMX's tile registers: matrices of 16 rows of 64 bytes, and what multiplies them.

Each operation is a function in LLVM's own words, which vanishes in its caller. A processor without
such registers keeps them in memory instead and runs plain operations with the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from septran.targets.cpu import simd
from septran.targets.cpu.gemm.dot_instructions import flushed, flushing_fma, splat
from septran.targets.cpu.run.isa import features
from septran.targets.cpu.run.permission import CONFIGURE
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.writer import Expr

ROWS = 16
"""Rows of a register."""
ROW_BYTES = 64
"""Bytes of a row of a register, which are 16 words."""
NUMBER = 8
"""Registers that there are."""
LEFT, RIGHT = 4, 6
"""The first of two registers for the left operand's rows, and of two for the right one's columns;
those before them are sums."""
_CONFIGURATION = 64
"""Bytes of the table that says how large the registers are (Intel SDM vol. 1, 18.3): from byte 16
on the bytes of a row of each, from byte 48 on its rows."""
_TILE = ROWS * ROW_BYTES
_ROW_BYTES_AT, _ROWS_AT = 16, 48


@dataclass(frozen=True)
class TileDot:
    """One instruction that adds the product of two registers to a third."""

    name: str
    """The instruction's mnemonic in assembly."""
    size: int
    """The number of elements of a group, whose products go into one sum."""
    sums: str
    """The type of a sum."""

    @property
    def step(self) -> int:
        """Elements along the sum that one instruction takes."""
        return ROWS * self.size

    def text(self, c: int, a: int, b: int) -> str:
        """What stands in for it on registers of these numbers, a row of C at a time."""
        words, floats = "<16 x i32>", self.sums == "float32"
        start = _floats_start() if floats else [f"  %acc = phi {words} [%old, %row], [%sum, %step]"]
        step = _float_products() if floats else self._byte_products()
        result = _float_sum() if floats else [f"  store {words} %sum, ptr %at_c, align 4"]
        return "\n".join(
            [
                f"define void @{self.function(c, a, b)}(ptr %state) alwaysinline {{",
                "entry:",
                f"  %size = getelementptr i8, ptr %state, i64 {_ROWS_AT + c}",
                "  %size_8 = load i8, ptr %size",
                "  %rows = zext i8 %size_8 to i64",
                f"  %c = getelementptr i8, ptr %state, i64 {_place(c)}",
                f"  %a = getelementptr i8, ptr %state, i64 {_place(a)}",
                f"  %b = getelementptr i8, ptr %state, i64 {_place(b)}",
                "  br label %next",
                "next:",
                "  %m = phi i64 [0, %entry], [%m_next, %done]",
                "  %more = icmp ult i64 %m, %rows",
                "  br i1 %more, label %row, label %end",
                "row:",
                "  %line = shl i64 %m, 6",
                "  %at_c = getelementptr i8, ptr %c, i64 %line",
                "  %at_a = getelementptr i8, ptr %a, i64 %line",
                f"  %old = load {words}, ptr %at_c, align 4",
                "  br label %step",
                "step:",
                "  %k = phi i64 [0, %row], [%k_next, %step]",
                *start,
                "  %word_at = getelementptr i32, ptr %at_a, i64 %k",
                "  %word = load i32, ptr %word_at",
                f"  %first = insertelement {words} poison, i32 %word, i32 0",
                f"  %left = shufflevector {words} %first, {words} poison, "
                "<16 x i32> zeroinitializer",
                "  %line_b = shl i64 %k, 6",
                "  %at_b = getelementptr i8, ptr %b, i64 %line_b",
                f"  %right = load {words}, ptr %at_b, align 4",
                *step,
                "  %k_next = add i64 %k, 1",
                f"  %again = icmp ult i64 %k_next, {ROWS}",
                "  br i1 %again, label %step, label %done",
                "done:",
                *result,
                "  %m_next = add i64 %m, 1",
                "  br label %next",
                "end:",
                "  ret void",
                "}",
            ]
        )

    def _byte_products(self) -> list[str]:
        """``%sum``: `%acc` and the four products of each word's bytes; it wraps."""
        words, lines, total = "<16 x i32>", [], "%acc"
        down = splat("i32", "24", ROWS)
        signs = self.name[len("tdpb") :]  # s or u of either operand, left one first
        for n in range(4):
            for name, sign in zip(("left", "right"), signs, strict=False):
                shift = "ashr" if sign == "s" else "lshr"
                up = splat("i32", str(24 - 8 * n), ROWS)
                lines += [
                    f"  %{name}_up{n} = shl {words} %{name}, {up}",
                    f"  %{name}{n} = {shift} {words} %{name}_up{n}, {down}",
                ]
            now = "%sum" if n == 3 else f"%sum{n}"
            lines += [
                f"  %product{n} = mul {words} %left{n}, %right{n}",
                f"  {now} = add {words} {total}, %product{n}",
            ]
            total = now
        return lines

    def function(self, c: int, a: int, b: int) -> str:
        """Return what `text` calls itself."""
        return f"septran_{self.name}_{c}_{a}_{b}"


def _floats_start() -> list[str]:
    """The sums of the even elements' products and of the odd ones', which begin with zero."""
    kind = "<16 x float>"
    return [
        f"  %{name} = phi {kind} [zeroinitializer, %row], [%{name}_sum, %step]"
        for name in ("even", "odd")
    ]


def _float_products() -> list[str]:
    """Both products of a pair of bfloat16, each added to a sum of its own by one FMA."""
    words, up = "<16 x i32>", splat("i32", "16", ROWS)
    upper = splat("i32", "-65536", ROWS)
    lines = []
    for name in ("left", "right"):
        lines += [
            f"  %{name}_even_bits = shl {words} %{name}, {up}",
            f"  %{name}_odd_bits = and {words} %{name}, {upper}",
            *flushed(f"{name}_even", f"%{name}_even_bits", ROWS),
            *flushed(f"{name}_odd", f"%{name}_odd_bits", ROWS),
        ]
    for name in ("even", "odd"):
        lines += flushing_fma(f"{name}_sum", f"%left_{name}", f"%right_{name}", f"%{name}", ROWS)
    return lines


def _float_sum() -> list[str]:
    """The two sums added, and their sum to what the register held."""
    one = splat("float", "1.0", ROWS)
    return [
        *flushed("held", "%old", ROWS),
        *flushing_fma("both", "%even_sum", one, "%odd_sum", ROWS),
        *flushing_fma("total", "%both", one, "%held", ROWS),
        "  store <16 x float> %total, ptr %at_c, align 4",
    ]


TDPBF16PS = TileDot("tdpbf16ps", 2, "float32")
"""Of bfloat16: even and odd products are summed apart, 16 of each, then both and the sum before.
What is below the normal numbers counts as zero (Intel SDM vol. 2, TDPBF16PS)."""
BYTE_DOTS = {
    ("int8", "int8"): TileDot("tdpbssd", 4, "int32"),
    ("int8", "uint8"): TileDot("tdpbsud", 4, "int32"),
    ("uint8", "int8"): TileDot("tdpbusd", 4, "int32"),
    ("uint8", "uint8"): TileDot("tdpbuud", 4, "int32"),
}
"""Of bytes, by the types of the left and the right operand; sums wrap."""
_DECLARED = {
    "ldtilecfg": "ptr", "tilerelease": "", "tilezero": "i8 immarg",
    "tileloadd64": "i8 immarg, ptr, i64", "tilestored64": "i8 immarg, ptr, i64",
}  # fmt: skip


class TileRegisters:
    """Writes operations on the registers of one product."""

    def __init__(self, writer: CpuWriter, arch: str) -> None:
        """`arch` is the processor that LLVM compiles for."""
        self._writer = writer
        self._real = "amx-tile" in features(arch)
        size = _CONFIGURATION + (0 if self._real else NUMBER * _TILE)
        self._state = writer.scratch("tile_registers", size, "uint8")

    def configure(self, rows: Expr) -> None:
        """Set rows of the sums and of the left operand's registers; all registers are zeros then.

        Linux lets a process do so once it has asked for it (`run/permission.py`).
        """
        sizes = bytearray(_CONFIGURATION)
        sizes[0] = 1  # the only kind of configuration that there is
        for number in range(NUMBER):
            sizes[_ROW_BYTES_AT + 2 * number] = ROW_BYTES
            sizes[_ROWS_AT + number] = ROWS
        table = ", ".join(f"i8 {size}" for size in sizes)
        lines = [f"  store <{len(sizes)} x i8> <{table}>, ptr %state, align 1"]
        lines.append("  %r = trunc i32 %rows to i8")
        for number in range(RIGHT):
            lines += [
                f"  %p{number} = getelementptr i8, ptr %state, i64 {_ROWS_AT + number}",
                f"  store i8 %r, ptr %p{number}",
            ]
        if self._real:
            lines.append(_intrinsic("ldtilecfg", "ptr %state"))
        else:
            fill = "@llvm.memset.p0.i64"
            self._define("memset", f"declare void {fill}(ptr, i8, i64, i1 immarg)")
            lines.append(f"  %tiles = getelementptr i8, ptr %state, i64 {_CONFIGURATION}")
            lines.append(f"  call void {fill}(ptr %tiles, i8 0, i64 {NUMBER * _TILE}, i1 false)")
        name = CONFIGURE if self._real else "septran_tile_configure"
        self._call(name, "i32 %rows", lines, rows)

    def zero(self, number: int) -> None:
        """Make a register zeros."""
        lines = [_intrinsic("tilezero", f"i8 {number}")] if self._real else _zeros(number)
        self._call(f"septran_tile_zero_{number}", "", lines)

    def load(self, number: int, buffer: Any, at: Expr, stride: int) -> None:
        """Fill a register's rows from `at` on, `stride` bytes apart."""
        lines = _moves(number, loads=True)
        if self._real:
            lines = [_intrinsic("tileloadd64", f"i8 {number}, ptr %memory, i64 %stride")]
        self._move(f"septran_tile_load_{number}", buffer, at, stride, lines)

    def store(self, number: int, buffer: Any, at: Expr, stride: int) -> None:
        """Write a register's rows from `at` on, `stride` bytes apart."""
        lines = _moves(number, loads=False)
        if self._real:
            lines = [_intrinsic("tilestored64", f"i8 {number}, ptr %memory, i64 %stride")]
        self._move(f"septran_tile_store_{number}", buffer, at, stride, lines)

    def dot(self, dot: TileDot, c: int, a: int, b: int) -> None:
        """Add the product of two registers to a third."""
        name = dot.function(c, a, b)
        if self._real:
            self._define(
                dot.name,
                f"declare void @llvm.x86.{dot.name}(i8 immarg, i8 immarg, i8 immarg)",
            )
            numbers = f"i8 {c}, i8 {a}, i8 {b}"
            self._call(name, "", [f"  call void @llvm.x86.{dot.name}({numbers})"])
        else:
            for kind in ("fma", "fabs"):
                many = ", ".join(["<16 x float>"] * (3 if kind == "fma" else 1))
                self._define(kind, f"declare <16 x float> @llvm.{kind}.v16f32({many})")
            self._define(name, dot.text(c, a, b))
            self._writer.evaluate(simd.procedure(name, self._at))

    def release(self) -> None:
        """Give the registers back, so that the system need not save them."""
        if self._real:
            self._call("septran_tile_release", "", [_intrinsic("tilerelease", "")])

    @property
    def _at(self) -> Expr:
        return simd.address(self._state, self._writer.index(0))

    def _move(self, name: str, buffer: Any, at: Expr, stride: int, lines: list[str]) -> None:
        place = simd.address(buffer, at)
        self._call(name, "ptr %memory, i64 %stride", lines, place, simd.constant(stride, "int64"))

    def _call(self, name: str, parameters: str, lines: list[str], *arguments: Expr) -> None:
        """Call a function of these lines, which is written once."""
        for intrinsic, types in _DECLARED.items():
            if any(f"@llvm.x86.{intrinsic}(" in line for line in lines):
                self._define(intrinsic, f"declare void @llvm.x86.{intrinsic}({types})")
        head = f"define void @{name}(ptr %state{', ' * bool(parameters)}{parameters}) alwaysinline"
        self._define(name, "\n".join([f"{head} {{", "entry:", *lines, "  ret void", "}"]))
        self._writer.evaluate(simd.procedure(name, self._at, *arguments))

    def _define(self, name: str, text: str) -> None:
        self._writer.functions[name] = text


def _place(number: int) -> int:
    """Where a register's bytes are that memory holds."""
    return _CONFIGURATION + number * _TILE


def _intrinsic(name: str, arguments: str) -> str:
    return f"  call void @llvm.x86.{name}({arguments})"


def _zeros(number: int) -> list[str]:
    return [
        f"  %at = getelementptr i8, ptr %state, i64 {_place(number)}",
        f"  store <{_TILE // 4} x i32> zeroinitializer, ptr %at, align 1",
    ]


def _moves(number: int, *, loads: bool) -> list[str]:
    """The rows that there are, one after another, into a register in memory or out of it."""
    ends = ("%memory_at", "%register_at") if loads else ("%register_at", "%memory_at")
    return [
        f"  %size = getelementptr i8, ptr %state, i64 {_ROWS_AT + number}",
        "  %size_8 = load i8, ptr %size",
        "  %rows = zext i8 %size_8 to i64",
        f"  %register = getelementptr i8, ptr %state, i64 {_place(number)}",
        "  br label %next",
        "next:",
        "  %n = phi i64 [0, %entry], [%n_next, %row]",
        "  %more = icmp ult i64 %n, %rows",
        "  br i1 %more, label %row, label %end",
        "row:",
        "  %apart = mul i64 %n, %stride",
        "  %memory_at = getelementptr i8, ptr %memory, i64 %apart",
        "  %line = shl i64 %n, 6",
        "  %register_at = getelementptr i8, ptr %register, i64 %line",
        f"  %value = load <16 x i32>, ptr {ends[0]}, align 1",
        f"  store <16 x i32> %value, ptr {ends[1]}, align 1",
        "  %n_next = add i64 %n, 1",
        "  br label %next",
        "end:",
    ]
