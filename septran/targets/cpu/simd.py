"""Vectors: loads and stores with and without a mask, broadcasts, FMA, prefetches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from septran.dtypes import itemsize
from septran.targets.lower.values import bits, broadcast, cast, element_of, lanes_of, vector_type
from septran.targets.lower.writer import Expr, Writer


@dataclass(frozen=True)
class VectorUnit:
    """The vector registers of a processor."""

    bytes: int
    """Bytes of one register."""
    registers: int
    tile: tuple[int, int]
    """Rows and columns of float32 that a microkernel sums in registers, where a machine file gives
    none: up to three quarters of the registers, the rest for what is multiplied."""
    fence: str = ""
    """LLVM's intrinsic that orders streamed stores; empty where they are ordered as others are."""
    follows: bool = False
    """Whether the processors' own prefetch keeps up with loops that only sum what they read."""

    def lanes(self, dtype: str) -> int:
        """Elements of `dtype` in one register."""
        return self.bytes // itemsize(dtype)


L1, L2 = 3, 2
"""Caches to which a line is brought, by LLVM's numbers of `prefetch`."""


@dataclass(frozen=True)
class RowStreams:
    """What goes well with a processor's own prefetch where loops read whole rows."""

    in_turns: bool = True
    """Whether several pages of a row from memory are worked on in turns."""
    level: int = L1
    """The cache to which lines from memory are asked for."""
    ahead_bytes: int = 2048
    """How far before its use a row's only loop asks for a line: half a page. Sums of rows from a
    third level or from memory gain a tenth on Zen 5, as they do with half and twice of it."""
    sums_ask_nearer: bool = True
    """Whether a loop that only sums asks for what the last cache holds, too."""


ZEN4 = RowStreams(in_turns=False, level=L2, ahead_bytes=4096, sums_ask_nearer=False)
"""Its own prefetch follows a whole row: sums of 4096 x 14336 read 15 GB/s of four pages in turns,
25 of one after another and 27 where lines a page ahead are brought to L2. What is on its way to L1
waits where a core's own loads do: softmax of 8192 x 4096 has 0.82 of a copy's rate so and 1.09 by
L2, silu times another matrix of 4096 x 14336 takes 41 and 34 ms. What the last cache holds is
summed faster where nothing is asked for (128 x 14336: 97 GB/s, not 72)."""
CACHE_LINE = 64
"""Bytes of a cache line, which is what one prefetch brings."""
AVX2 = VectorUnit(32, 16, (6, 16), "llvm.x86.sse.sfence", follows=True)
"""Sums of rows from memory have 19 GB/s on a core of a Zen 3, and 14 where they ask for lines 2 KiB
ahead; on a Zen 5, which has AVX-512, they gain by asking."""
AVX512 = VectorUnit(64, 32, (8, 48), "llvm.x86.sse.sfence")
NEON = VectorUnit(16, 32, (6, 16))
"""SVE's of 128 bits, too: LLVM makes NEON's instructions of vectors of known length."""
SVE256 = VectorUnit(32, 32, (4, 32))
"""More rows than four are spilled: LLVM moves SVE's sums from register to register meanwhile."""
SVE512 = VectorUnit(64, 32, (8, 48))


def constant(value: float | int | bool, dtype: str, lanes: int = 1) -> Expr:
    """The same constant in every lane."""
    scalar = tirx.const(value, dtype)
    return scalar if lanes == 1 else tirx.Broadcast(scalar, lanes)


def like(value: Expr, number: float) -> Expr:
    """A constant of the type and lanes of another value."""
    return constant(number, element_of(value), lanes_of(value))


def words(value: Expr) -> Expr:
    """The same bytes as signed integers of 32 bits."""
    return bits(value, "int32")


def call(dtype: str, lanes: int, name: str, *arguments: Expr) -> Expr:
    """An LLVM intrinsic without effects."""
    return tirx.call_llvm_pure_intrin(vector_type(dtype, lanes), name, *arguments)


def external(kind: str, name: str, *arguments: Expr) -> Expr:
    """A function without effects in LLVM's own words, of `Writer.functions`."""
    return tirx.call_pure_extern(kind, name, *arguments)


def procedure(name: str, *arguments: Expr) -> Expr:
    """A call for its effects of a function in LLVM's own words, of `Writer.functions`."""
    return tirx.call_extern("void", name, *arguments)


def fma(a: Expr, b: Expr, c: Expr) -> Expr:
    """``a * b + c`` of floats, rounded once where the processor can: all with AVX2 or NEON do."""
    return call(element_of(c), lanes_of(c), "llvm.fmuladd", a, b, c)


def first_lanes(count: Expr, lanes: int) -> Expr:
    """The mask of the first `count` lanes."""
    if isinstance(count, int):
        count = tirx.const(count, "int32")
    if lanes == 1:  # a vector of one is a scalar
        return tirx.const(0, "int32") < cast(count, "int32")
    ramp = tirx.Ramp(tirx.const(0, "int32"), 1, lanes)
    return ramp < tirx.Broadcast(cast(count, "int32"), lanes)


def load(buffer: Any, offset: Expr, lanes: int, stride: int = 1) -> Expr:
    """`lanes` elements from `offset`, `stride` apart (a stride of 0 loads one for all)."""
    if lanes == 1:
        return tirx.BufferLoad(buffer, [offset])
    if stride == 0:
        return tirx.Broadcast(tirx.BufferLoad(buffer, [offset]), lanes)
    return tirx.BufferLoad(buffer, [tirx.Ramp(offset, stride, lanes)])


def store(
    writer: Writer, buffer: Any, offset: Expr, value: Expr, lanes: int, stride: int = 1
) -> None:
    """Write `value` at `offset`."""
    index = offset if lanes == 1 else tirx.Ramp(offset, stride, lanes)
    writer.emit(tirx.BufferStore(buffer, broadcast(value, lanes), [index]))


def stream(writer: Writer, buffer: Any, offset: Expr, value: Expr, register: int) -> None:
    """Write whole registers past the caches, where they are aligned; `fence` must follow.

    A plain store reads the line first, which costs half as much again. LLVM knows such
    stores, but TVM has no word for them, so they are a function in LLVM's own.
    """
    kind = f"<{lanes_of(value)} x {_llvm_type(element_of(value))}>"
    name = f"septran_stream_{value.ty.dtype}"
    writer.functions[name] = f"""\
define void @{name}(ptr %at, {kind} %value) alwaysinline nounwind {{
  %number = ptrtoint ptr %at to i64
  %low = and i64 %number, {register - 1}
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %past, label %plain
past:
  store {kind} %value, ptr %at, align {register}, !nontemporal !{{i32 1}}
  ret void
plain:
  store {kind} %value, ptr %at, align 1
  ret void
}}"""
    writer.evaluate(procedure(name, address(buffer, offset), value))


def fence(writer: Writer, unit: VectorUnit) -> None:
    """All that was streamed is there for other cores before what follows."""
    if unit.fence:
        writer.evaluate(tirx.call_llvm_intrin("void", unit.fence))


def _llvm_type(dtype: str) -> str:
    floats = {"float16": "half", "float32": "float", "float64": "double"}
    return floats.get(dtype) or f"i{itemsize(dtype) * 8}"


def masked_load(buffer: Any, offset: Expr, mask: Expr, other: Expr = None) -> Expr:
    """Contiguous elements where `mask`, else those of `other` (0 by default), unread."""
    lanes, dtype = lanes_of(mask), str(buffer.dtype)
    other = constant(0, dtype, lanes) if other is None else other
    return call(dtype, lanes, "llvm.masked.load", address(buffer, offset), mask, other)


def masked_store(writer: Writer, buffer: Any, offset: Expr, value: Expr, mask: Expr) -> None:
    """Write the lanes of `value` where `mask`.

    LLVM must not see that a value was cut to fewer bytes: where it finds out that the mask is
    of one lane, it stores that lane as it was before, over what lies beside it (AVX-512).
    """
    value = value if element_of(value) in ("float32", "float64") else _fenced(value)
    writer.evaluate(
        tirx.call_llvm_intrin("void", "llvm.masked.store", value, address(buffer, offset), mask)
    )


def _fenced(value: Expr) -> Expr:
    """The same bytes, of which LLVM does not know how they were made."""
    lanes, dtype = lanes_of(value), element_of(value)
    size = lanes * itemsize(dtype)
    real = vector_type("float32", size // 4) if size % 4 == 0 else vector_type("float16", size // 2)
    fenced = tirx.call_llvm_pure_intrin(
        real, "llvm.arithmetic.fence", tirx.reinterpret(real, value)
    )
    return tirx.reinterpret(vector_type(dtype, lanes), fenced)


def address(buffer: Any, offset: Expr) -> Expr:
    """The address of one element."""
    return tirx.address_of(tirx.BufferLoad(buffer, [offset]))


def prefetch(writer: Writer, buffer: Any, offset: Expr, level: int, write: bool = False) -> None:
    """Ask for the line of an element; `level` 3 is L1, 2 is L2."""
    # llvm.prefetch's rw, locality and cache type, of which 1 is the data cache (LLVM LangRef).
    flags = [tirx.const(n, "int32") for n in (int(write), level, 1)]
    writer.evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address(buffer, offset), *flags))


def select(mask: Expr, yes: Expr, no: Expr) -> Expr:
    """Lane by lane, `yes` where `mask`, else `no`."""
    return tirx.Select(mask, yes, no)


def settled(value: Expr) -> Expr:
    """The same numbers, of which LLVM does not know how they were chosen; of 4 or 8 bytes.

    It would make a masked store of a choice between new and old elements. AVX2's take many
    times as long as others on AMD's processors, and loads wait until they are in the cache.
    """
    dtype = element_of(value)
    real = f"float{itemsize(dtype) * 8}"
    same = call(real, lanes_of(value), "llvm.arithmetic.fence", bits(value, real))
    return bits(same, dtype)


def every(mask: Expr) -> Expr:
    """Whether all lanes of a mask are set."""
    return call("bool", 1, "llvm.vector.reduce.and", mask)


def unlikely(condition: Expr) -> Expr:
    """A condition that seldom holds: what it guards gets no registers."""
    return call("bool", 1, "llvm.expect", condition, tirx.const(0, "bool"))


def unequal(left: Expr, right: Expr) -> Expr:
    """Whether two lanes differ; true of NaN, too, which TVM's own comparison is not."""
    return tirx.Not(tirx.EQ(left, right))
