"""wgmma: products by a warpgroup, of tiles in SHARED or of A in registers."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.ir.index import Index
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import GROUP, Fragment, register, thread
from septran.targets.cuda.gemm import wgmma_scoreboard as inflight
from septran.targets.cuda.gemm.masks import cleared
from septran.targets.cuda.shared import SharedTile, base, tile
from septran.targets.cuda.text.ptx import ptx, sums, words
from septran.targets.cuda.unsupported import unsupported
from septran.targets.cuda.warps import warpgroup
from septran.targets.lower.indices import divisor
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Compute, Region

NAMES = ("wgmma", "wgmma_fp8", "wgmma_int8", "wgmma_tf32")
"""Instructions of machine files that are wgmma of some types."""
ROWS = 64
"""Rows of one instruction."""
STEP = 32
"""Bytes along the summed axis of one instruction, whatever the type."""
WIDEST = 256
"""Columns of the widest instruction."""
TYPES = {
    ("float32", "float16"): "f32.f16.f16",
    ("float32", "bfloat16"): "f32.bf16.bf16",
    ("float32", "float32"): "f32.tf32.tf32",
    ("float32", "float8_e4m3fn"): "f32.e4m3.e4m3",
    ("int32", "int8"): "s32.s8.s8",
}
"""PTX types by accumulator and operand."""
WINDOW = 1 << 18
"""Bytes of a block's shared memory that a descriptor can address. What is above in an address is
the block's rank in its cluster, which has no place there (PTX ISA, matrix-descriptor-encode)."""
UNIT = 16
"""Bytes that a descriptor counts by."""
SWIZZLES = {128: 1, 64: 2, 32: 3}
"""How a descriptor names a swizzle (PTX ISA, matrix descriptor, bits 62 and 63)."""


def accumulator(rows: int, columns: int, threads: int) -> Fragment:
    """Return wgmma's fragment of a product, and of A: equal parts of the rows a warpgroup."""
    groups = threads // GROUP
    blocks = rows // (ROWS * groups)
    # PTX ISA, wgmma, fragment D: a warp has 16 rows, a lane rows l / 4 and l / 4 + 8 of them.
    row = [
        thread(groups, GROUP),
        register(blocks, columns // 2),
        thread(4, 32),
        register(2, 2),
        thread(8, 4),
    ]
    column = [register(columns // 8, 4), thread(4, 1), register(2, 1)]
    return Fragment.of((row, column), threads)


def demands(context: Context, node: Compute) -> dict[str, Fragment]:
    """The fragments that the operands in registers must be."""
    held = [r for r in node.operands[:2] if context.buffer(r.buffer).memory == "REGISTER"]
    _check(context, node)
    return {r.buffer: accumulator(r.shape[0], r.shape[1], context.threads.count) for r in held}


@dataclass(frozen=True)
class SharedOperand:
    """An operand in SHARED as descriptors address it."""

    tile: SharedTile
    major: int
    """The region's axis whose elements are side by side."""
    summed: int
    """The region's axis that is summed over."""

    @property
    def transposed(self) -> bool:
        """Whether rows go along M or N instead of the summed axis."""
        return self.major != self.summed

    @property
    def high(self) -> int:
        """A descriptor's upper half (PTX ISA, asynchronous warpgroup matrix): eight rows."""
        width = self.tile.swizzle
        return SWIZZLES[width] << 30 | 8 * width >> 4

    @property
    def leading(self) -> int:
        """Bytes from one panel to the next; along the summed axis not used, 16 by convention."""
        return self.tile.panel if self.transposed else 16

    def offset(self, other: int, step: int) -> Index:
        """Bytes to the part at `other` (along M or N) and at a step of the summed axis."""
        size = itemsize(self.tile.storage.dtype)
        if self.transposed:
            rows = step * (STEP // size)
            return self.tile.panel_start(other * size) + rows * self.tile.pitch
        return self.tile.panel_start(step * STEP) + other * self.tile.pitch


def _ready(context: Context, registers: Any) -> Any:
    """Registers that hold A now: what fills them must not be moved between the instructions."""
    for number in range(int(registers.shape[0])):
        call = T.cuda.func_call("septran_keep", registers[number], source_code=KEEP)
        context.writer.evaluate(call)
    return registers


def _check(context: Context, node: Compute) -> None:
    rows, columns = node.operands[0].shape
    groups = context.threads.count // GROUP
    if rows % (ROWS * groups) or columns % 8:
        message = (
            f"wgmma multiplies whole tiles of {ROWS} x 8, and {groups} warpgroups have "
            f"{rows} x {columns}"
        )
        raise unsupported(node.origin, message)


KEEP = """\
__forceinline__ __device__ void septran_keep(unsigned& value) {
  asm volatile("" : "+r"(value) : : "memory");
}
"""
DESCRIPTOR = """\
__forceinline__ __device__ unsigned long long septran_descriptor(unsigned low, unsigned high) {
  return (unsigned long long)high << 32 | low;
}
"""


def matrix(context: Context, node: Compute, region: Region, summed: int) -> SharedOperand:
    """An operand in SHARED; raises UnsupportedByCudaError where descriptors cannot say it."""
    found = tile(context, region)
    if isinstance(found, str):
        raise unsupported(node.origin, f"wgmma cannot read {region}: {found}")
    if not found.swizzle or found.step != 1:
        what = f"{region.buffer} is laid out as {found.storage.layout}"
        raise unsupported(node.origin, f"wgmma cannot read {region}: {what}")
    # A pattern that begins elsewhere would need the descriptor's base offset, which is 0 here.
    if divisor(found.row) % 8 or divisor(found.byte) % found.swizzle:
        raise unsupported(node.origin, f"wgmma reads whole panels of eight rows, not {region}")
    result = SharedOperand(found, found.along, summed)
    if result.transposed and itemsize(found.storage.dtype) != 2:
        message = f"wgmma reads {found.storage.dtype} along the summed axis only, not {region}"
        raise unsupported(node.origin, message, "give the operand transposed, or bind mma_sync")
    return result


def _origin(context: Context) -> Expr:
    """Where shared memory begins, as a descriptor has it; made at the start."""
    if context.state.descriptors is None:
        value = (base(context) & T.uint32(WINDOW - 1)) // T.uint32(UNIT)
        variable = tirx.Var(context.writer.name("descriptors"), "uint32")
        context.opening.append(tirx.Bind(variable, value))
        context.state.descriptors = variable
    return context.state.descriptors


def gemm(context: Context, node: Compute) -> None:
    """C += A @ B, under way until something needs its operands."""
    issue(context, node)
    inflight.add(context, node)


def instructions(context: Context, node: Compute) -> int:
    """About how many a product is: columns in the fewest parts."""
    (rows, columns), right = node.operands[0].shape, node.operands[2]
    steps = right.shape[0] * itemsize(context.buffer(right.buffer).dtype) // STEP
    return rows // (ROWS * (context.threads.count // GROUP)) * -(-columns // WIDEST) * steps


def issue(context: Context, node: Compute) -> None:
    """Start a product and commit it as a group."""
    work = WgmmaProduct.of(context, node)
    _remark_on_sums(context, node)
    # PTX ISA: before the first wgmma, and after any other access to the registers of the sums.
    ptx(context, "wgmma.fence.sync.aligned")
    for block in range(work.blocks):
        for start, width in work.parts:
            for step in range(work.steps):
                work.instruction(block, start, width, step)
    ptx(context, "wgmma.commit_group.sync.aligned")


def _remark_on_sums(context: Context, node: Compute) -> None:
    """Say where the hardware adds with fewer bits than the accumulator has."""
    bits = context.program.machine.instruction(node.instruction).options.get("sum_bits")
    if bits is not None:
        about, kind = node.operands[0].buffer, context.buffer(node.operands[0].buffer).dtype
        context.remark(
            "decision", about,
            f"{node.instruction} adds about {bits} bits of each product, so that {about} is less "
            f"exact than sums in {kind}; the emulator does the same, and `check` allows for it",
            "bind `gemm: simt` where that matters; it is slow",
        )  # fmt: skip


@dataclass
class WgmmaProduct:
    """One gemm: how many instructions, and their operands."""

    context: Context
    node: Compute
    target: Any
    """The accumulator's local array."""
    left: SharedOperand | Any
    """A: descriptors, or the local array of its registers as words."""
    right: SharedOperand
    blocks: int
    """Parts of 64 rows of each warpgroup."""
    parts: tuple[tuple[int, int], ...]
    """Parts of the columns: where each begins, and how many it has."""
    steps: int

    @staticmethod
    def of(context: Context, node: Compute) -> WgmmaProduct:
        """Check shapes and places."""
        target, left, right = node.operands
        rows, columns = target.shape
        groups = context.threads.count // GROUP
        size = itemsize(context.buffer(right.buffer).dtype)
        depth = right.shape[0] * size
        if depth % STEP:
            raise unsupported(node.origin, f"wgmma sums {STEP // size} at a time, not {right}")
        in_shared = context.buffer(left.buffer).memory != "REGISTER"
        a: Any = (
            matrix(context, node, left, 1)
            if in_shared
            else _ready(context, words(context, cleared(context, node)))
        )
        b = matrix(context, node, right, 0)
        least = b.tile.swizzle // size if b.transposed else 16 if size == 1 else 8
        return WgmmaProduct(
            context,
            node,
            sums(context, context.storages[target.buffer].flat),
            a,
            b,
            rows // (ROWS * groups),
            tuple(column_parts(columns, least)),
            depth // STEP,
        )

    def instruction(self, block: int, start: int, width: int, step: int) -> None:
        """One wgmma.mma_async."""
        columns = self.parts[-1][0] + self.parts[-1][1]
        # 128 threads hold 64 rows: each has half as many registers as there are columns.
        first = (block * columns + start) // 2
        a = self.a(block, step)
        b = self.descriptor(self.right, self.right.offset(start, step))
        name, source = self.function(width)
        call = T.cuda.func_call(
            name, self.target.ptr_to([first]), a, b, self.accumulates(step), source_code=source
        )
        self.context.writer.evaluate(call)

    def function(self, width: int) -> tuple[str, str]:
        """Return what issues an instruction of so many columns, by its name and text."""
        dtypes = [self.context.buffer(r.buffer).dtype for r in self.node.operands]
        size = itemsize(dtypes[2])
        transposed = (
            isinstance(self.left, SharedOperand) and self.left.transposed,
            self.right.transposed,
        )
        shape = f"m64n{width}k{STEP // size}"
        return function(
            f"{shape}.{TYPES[dtypes[0], dtypes[2]]}", width // 2,
            isinstance(self.left, SharedOperand), transposed if size == 2 else None,
        )  # fmt: skip

    def a(self, block: int, step: int) -> Expr:
        """The descriptor of A, or a pointer to its four registers."""
        if isinstance(self.left, SharedOperand):
            group = warpgroup(self.context)
            rows = self.blocks * ROWS
            offset = self.left.offset(block * ROWS, step)
            return self.descriptor(self.left, offset + self.group_offset(group, rows))
        # Of 64 rows and 32 bytes each thread has four words.
        return self.left.ptr_to([(block * self.steps + step) * 4])

    def group_offset(self, group: Index, rows: int) -> Index:
        """Bytes from one warpgroup's rows of A to the next one's."""
        assert isinstance(self.left, SharedOperand)
        lying = self.left.tile
        if not self.left.transposed:
            return group * (rows * lying.pitch)
        return group * (rows * itemsize(lying.storage.dtype) // lying.swizzle * lying.panel)

    def descriptor(self, operand: SharedOperand, offset: Index) -> Expr:
        """A matrix descriptor for the part at a byte of shared memory."""
        context = self.context
        offset = context.indices.simplify(offset)
        assert divisor(offset) % UNIT == 0, f"{offset} is between two rows of a swizzle's atom"
        # Without the constant: descriptors of one operand then differ by what is added last.
        varying = context.indices.simplify((offset - offset.constant) // UNIT)
        fixed = offset.constant // UNIT + (operand.leading // UNIT << 16)
        low = _origin(context) + T.Cast("uint32", context.lower(varying)) + T.uint32(fixed)
        return T.cuda.func_call(
            "septran_descriptor",
            low,
            T.uint32(operand.high),
            source_code=DESCRIPTOR,
            return_type="uint64",
        )

    def accumulates(self, step: int) -> Expr:
        """Whether an instruction adds to what is there."""
        if step:
            return T.uint32(1)
        first = self.context.first(dict(self.node.attributes))
        if isinstance(first, bool):
            return T.uint32(0 if first else 1)
        return T.if_then_else(first, T.uint32(0), T.uint32(1))


@functools.cache
def function(
    kind: str, count: int, in_shared: bool, transposed: tuple[bool, bool] | None
) -> tuple[str, str]:
    """A device function that issues ``wgmma.mma_async`` of a `kind`: its name and text.

    The accumulator's `count` registers, and A's where it is not `in_shared`, go by a pointer: an
    operand each would be most of what there is to lower and to print. `transposed` says of A (in
    shared memory) and of B whether they are, for types that can be.
    """
    whole = kind.endswith(".s8.s8")
    register, letter = ("uint32_t", "r") if whole else ("float", "f")
    a = ["%0"] if in_shared else [f"%{n}" for n in range(4)]
    places = [f"%{n}" for n in range(count + len(a) + 2)]
    left, right, scale = places[count : count + len(a)], places[-2], places[-1]
    # PTX ISA, wgmma: integers have no signs of A and B, and only 16-bit types a transposition.
    flags = [] if whole else [1, 1]
    if transposed is not None:
        flags += [int(t) for t in (transposed if in_shared else transposed[1:])]
    operands = [
        f"{{{', '.join(places[:count])}}}", left[0] if in_shared else f"{{{', '.join(left)}}}",
        right, "add", *map(str, flags),
    ]  # fmt: skip
    # PTX takes scale-d, which says whether to add, as a predicate.
    text = (
        f"{{ .reg .pred add; setp.ne.b32 add, {scale}, 0; "
        f"wgmma.mma_async.sync.aligned.{kind} {', '.join(operands)}; }}"
    )
    outs = ", ".join(f'"+{letter}"(d[{n}])' for n in range(count))
    given = '"l"(a)' if in_shared else ", ".join(f'"r"(a[{n}])' for n in range(4))
    parts = ["septran_wgmma", "ss" if in_shared else "rs", kind.replace(".", "_")]
    name = "_".join([*parts, *map(str, flags)])
    source = (
        f"__forceinline__ __device__ void {name}({register}* d, "
        f"{'uint64_t a' if in_shared else 'uint32_t* a'}, uint64_t b, uint32_t scale) {{\n"
        f'  asm volatile("{text}" : {outs} : {given}, "l"(b), "r"(scale));\n}}\n'
    )
    return name, source


def column_parts(columns: int, least: int) -> Iterator[tuple[int, int]]:
    """Columns in equal parts, or else in the widest ones, that begin at multiples of `least`.

    Columns along the rows of a swizzle are read from the beginning of its panels on.
    """
    count = -(-columns // WIDEST)
    while columns % count == 0 and columns // count >= least:
        if count == 1 or columns // count % least == 0:
            width = columns // count
            yield from ((start, width) for start in range(0, columns, width))
            return
        count += 1
    width = WIDEST // least * least
    yield from ((start, min(width, columns - start)) for start in range(0, columns, width))
