"""mma.sync: products by a warp, of pieces that ldmatrix brings from SHARED into registers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import Fragment, register, thread
from septran.targets.cuda.gemm.ldmatrix import LdmatrixOperand
from septran.targets.cuda.gemm.masks import clear_accumulator, cleared
from septran.targets.cuda.shared import tile
from septran.targets.cuda.text.ptx import ptx, sums, words
from septran.targets.cuda.unsupported import unsupported
from septran.tile.nodes import Compute, Copy, Region, TileProgram, nodes, reads, writes

_NOTHING = ex.Constant(0, "int32")
NAMES = ("mma_sync", "mma_sync_int8", "mma_sync_tf32")
"""Instructions of machine files that are mma.sync of some types."""
ROWS, COLUMNS, STEP = 16, 8, 32
"""Extents of one instruction; the summed axis in bytes."""
TYPES = {
    ("float32", "float16"): "f32.f16.f16.f32",
    ("float32", "bfloat16"): "f32.bf16.bf16.f32",
    ("float32", "float32"): "f32.tf32.tf32.f32",
    ("float32", "float8_e4m3fn"): "f32.e4m3.e4m3.f32",
    ("int32", "int8"): "s32.s8.s8.s32",
}
"""PTX types by accumulator and operand."""


@dataclass(frozen=True)
class Warps:
    """The partition of a product among warps: `down` along rows, `across` along columns.

    Where that is fewer than all warps, those with the same rows do the same.
    """

    down: int
    across: int
    abreast: int
    """Warps with the same rows."""

    @staticmethod
    def of(
        program: TileProgram, target: Region, count: int, tile: tuple[int, int] = (ROWS, COLUMNS)
    ) -> Warps:
        """Whole rows where they are reduced or used as an operand, else squares.

        In a program with the former all products have the same rows in the same warps: what
        is computed of a row is where it is needed.
        """
        rows, columns = (extent // part for extent, part in zip(target.shape, tile, strict=True))
        down_most = math.gcd(rows, count)
        whole = _whole_rows(program)
        if whole:
            abreast = count // down_most
            parts = 1 if target.buffer in whole else math.gcd(columns, abreast)
            return Warps(down_most, parts, abreast)
        choices = []
        for down in (n for n in range(1, down_most + 1) if down_most % n == 0):
            across = math.gcd(columns, count // down)
            traffic = rows * tile[0] // down + columns * tile[1] // across
            # As many warps as can have a part; then the least that each loads: its rows and
            # columns.
            choices.append((-down * across, traffic, down, across))
        _, _, down, across = min(choices)
        return Warps(down, across, count // down)

    def fragment(self, rows: int, columns: int, threads: int, whole: bool = False) -> Fragment:
        """The accumulator; with `whole` what each warp needs of A: all of its rows."""
        # A warp needs all of its rows of A, whatever columns of the result are its own.
        across = 1 if whole else self.across
        width = columns // COLUMNS // across
        # PTX ISA, mma.m16n8: a lane holds rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next.
        row = [
            thread(self.down, 32 * self.abreast),
            register(rows // ROWS // self.down, width * 4),
            register(2, 2),
            thread(8, 4),
        ]
        column = [thread(across, 32), register(width, 4), thread(4, 1), register(2, 1)]
        return Fragment.of((row, column), threads)


def _whole_rows(program: TileProgram) -> frozenset[str]:
    """Buffers of which a warp needs whole rows: it reduces them, or they become an operand."""
    found: set[str] = set()
    made: list[tuple[set[str], set[str]]] = []
    for node in nodes(program.body):
        if isinstance(node, Compute) and node.primitive == "gemm":
            found.add(node.operands[1].buffer)
        elif isinstance(node, Compute | Copy):
            made.append(({r.buffer for r in writes(node)}, {r.buffer for r in reads(node)}))
        if isinstance(node, Compute):
            found |= set(_reduced(node))
    found = {name for name in found if program.buffer(name).memory == "REGISTER"}
    # Backwards through what they are computed from, until nothing is added.
    while more := {b for results, inputs in made if results & found for b in inputs} - found:
        found |= more
    return frozenset(found)


def _reduced(node: Compute) -> Iterator[str]:
    """The buffers of which a node reduces rows or columns."""
    for reduction in ex.walk(node.expression or _NOTHING):
        if isinstance(reduction, ex.Reduce):
            yield from (e.view.tensor for e in ex.walk(reduction) if isinstance(e, ex.Load))


def warps(context: Context, node: Compute) -> Warps:
    """The warps of the threads that run a product; raises UnsupportedByCudaError."""
    rows, columns = node.operands[0].shape
    if rows % ROWS or columns % COLUMNS:
        message = f"mma_sync multiplies whole tiles of {ROWS} x {COLUMNS}, not {rows} x {columns}"
        raise unsupported(node.origin, message)
    return Warps.of(context.program, node.operands[0], context.threads.count // 32)


def demands(context: Context, node: Compute) -> dict[str, Fragment]:
    """The fragments that the operands in registers must be."""
    target, left, _ = node.operands
    mine, count = warps(context, node), context.threads.count
    found = {target.buffer: mine.fragment(target.shape[0], target.shape[1], count)}
    if context.buffer(left.buffer).memory == "REGISTER":
        found[left.buffer] = mine.fragment(left.shape[0], left.shape[1], count, whole=True)
    return found


def gemm(context: Context, node: Compute) -> None:
    """C += A @ B."""
    work = _Product(context, node)
    clear_accumulator(context, node)
    for step in range(work.steps):
        work.step(step)


class _Product:
    def __init__(self, context: Context, node: Compute) -> None:
        self.context, self.node = context, node
        target, left, right = node.operands
        self.warps = warps(context, node)
        dtypes = [context.buffer(r.buffer).dtype for r in node.operands]
        self.types, self.size = TYPES[dtypes[0], dtypes[2]], itemsize(dtypes[2])
        depth = right.shape[0] * self.size
        if depth % STEP:
            raise unsupported(node.origin, f"mma_sync sums {STEP // self.size} at a time")
        self.steps = depth // STEP
        self.down = target.shape[0] // ROWS // self.warps.down
        self.across = target.shape[1] // COLUMNS // self.warps.across
        self.registers = sums(context, context.storages[target.buffer].flat)
        self.b = self.operand(2, 0)
        self.in_registers = context.buffer(left.buffer).memory == "REGISTER"
        self.a: Any
        if self.in_registers:
            self.a = words(context, cleared(context, node))
        else:
            self.a = self.operand(1, 1)
            self.lefts = context.writer.allocate("a", self.down * 4, "uint32")
        self.rights = context.writer.allocate("b", self.across * 2, "uint32")
        number = context.thread // 32
        self.row = context.variable(
            "row", number // self.warps.abreast % self.warps.down * (self.down * ROWS)
        )
        self.column = context.variable(
            "column", number % self.warps.across * (self.across * COLUMNS)
        )

    def operand(self, position: int, summed: int) -> LdmatrixOperand:
        """An operand in SHARED."""
        region = self.node.operands[position]
        found = tile(self.context, region)
        if isinstance(found, str):
            raise unsupported(self.node.origin, f"mma_sync cannot read {region}: {found}")
        return LdmatrixOperand(self.context, found, summed, region.valid[1 - summed])

    def step(self, step: int) -> None:
        """One step along the summed axis: load what it needs, multiply all pairs."""
        for i in range(0 if self.in_registers else self.down):
            self.a.load(self.lefts, i * 4, 4, self.row + i * ROWS, step, "A")
        # One ldmatrix brings two blocks of columns; of an odd number the last comes alone.
        for j in range(0, self.across, 2):
            count = 4 if j + 1 < self.across else 2
            self.b.load(self.rights, j * 2, count, self.column + j * COLUMNS, step, "B")
        depth = STEP // self.size
        text = f"mma.sync.aligned.m{ROWS}n{COLUMNS}k{depth}.row.col.{self.types}"
        for i in range(self.down):
            for j in range(self.across):
                first = (i * self.across + j) * 4
                total = [self.registers[first + n] for n in range(4)]
                b = [self.rights[j * 2 + n] for n in range(2)]
                ptx(self.context, text, *total, *self.left(i, step), *b, *total)

    def left(self, block: int, step: int) -> list[Any]:
        """The four registers of A."""
        if self.in_registers:
            first = (block * self.steps + step) * 4
            return [self.a[first + n] for n in range(4)]
        return [self.lefts[block * 4 + n] for n in range(4)]
