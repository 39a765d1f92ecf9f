"""Products by a wave with MFMA, of pieces that lanes load from SHARED or hold in registers.

The instruction is given B for its A and A for its B, and so computes the transposed product: a
lane then holds four neighbouring columns of a row, which it stores as a vector, and a result in
registers is, as it lies, the left operand of the next product of 16-bit floats.
"""

from __future__ import annotations

import math
from typing import Any

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.ir.index import Index, Var, axis, maximum, minimum
from septran.targets.cuda.addresses import CHUNK, Access
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import Digit, Fragment, register, thread
from septran.targets.cuda.gemm.masks import clear_accumulator, cleared
from septran.targets.cuda.gemm.mma_sync import Warps
from septran.targets.cuda.unsupported import unsupported
from septran.targets.rocm.dialect import LANES
from septran.targets.rocm.gemm.layouts import GROUPS, HELD, INSTRUCTIONS, SIDE, WIDENED, Mfma
from septran.targets.templates import filled
from septran.tile.nodes import Compute, nodes

NAMES = ("mfma", "mfma_int8", "mfma_float8", "mfma_float32", "mfma_float64")
"""Instructions of machine files that are MFMA of some types."""
CALL = """\
typedef @OPERAND@ septran_@NAME@_ab
    __attribute__((vector_size(@STEPS@ * sizeof(@OPERAND@)), may_alias));
typedef @RESULT@ septran_@NAME@_c __attribute__((vector_size(4 * sizeof(@RESULT@)), may_alias));
__forceinline__ __device__ void septran_mfma_@NAME@(void* c, const void* a, const void* b) {
  septran_@NAME@_c& sums = *(septran_@NAME@_c*)c;
  sums = __builtin_amdgcn_mfma_@BUILTIN@(@A@, @B@, sums, 0, 0, 0);
}
"""
"""A product of registers that begin at three places."""


def text_of(mfma: Mfma) -> str:
    """The function in HIP text that is one instruction."""
    # The builtins take one element as itself, and bytes as a whole number of as many.
    packed = {4: "int", 8: "long"}[mfma.steps] if mfma.operand == "char" else None
    kind = packed or (mfma.operand if mfma.steps == 1 else None)
    a, b = (f"*(const {kind or f'septran_{mfma.name}_ab'}*){operand}" for operand in ("a", "b"))
    return filled(
        CALL, OPERAND=mfma.operand, RESULT=mfma.result, NAME=mfma.name, A=a, B=b,
        STEPS=mfma.steps, BUILTIN=mfma.builtin,
    )  # fmt: skip


def instruction(context: Context, node: Compute) -> Mfma:
    """The instruction of a product's types; raises UnsupportedByCudaError for others."""
    target, left, right = (context.buffer(r.buffer).dtype for r in node.operands)
    depth = context.program.machine.instruction(node.instruction).tile[-1]
    found = INSTRUCTIONS.get((target, right, depth))
    if found is None or left != right:
        raise unsupported(node.origin, f"no MFMA multiplies {left} by {right} into {target}")
    return found


def waves(context: Context, node: Compute) -> Warps:
    """The waves that share a product out; raises UnsupportedByCudaError."""
    rows, columns = node.operands[0].shape
    if rows % SIDE or columns % SIDE:
        message = f"MFMA multiplies whole tiles of {SIDE} x {SIDE}, not {rows} x {columns}"
        raise unsupported(node.origin, message)
    count = context.threads.count // LANES
    return Warps.of(context.program, node.operands[0], count, (SIDE, SIDE))


def demands(context: Context, node: Compute) -> dict[str, Fragment]:
    """The fragments that the operands in registers must be."""
    target, left, _ = node.operands
    mfma, mine, count = instruction(context, node), waves(context, node), context.threads.count
    found = {target.buffer: _sums(context, node, wanted(context, node))}
    if context.buffer(left.buffer).memory == "REGISTER":
        if left.shape[1] % mfma.depth:
            raise unsupported(node.origin, f"MFMA sums {mfma.depth} at a time")
        steps = left.shape[1] // mfma.depth
        row = [
            thread(mine.down, LANES * mine.abreast),
            register(left.shape[0] // SIDE // mine.down, steps * mfma.steps),
            thread(SIDE, 1),
        ]
        along = [register(steps, mfma.steps), *mfma.along(1)]
        found[left.buffer] = Fragment.of((row, along), count)
    return found


def wanted(context: Context, node: Compute) -> tuple[bool, bool]:
    """Whether rows and columns are dealt to the tiles of a wave in turn.

    An operand that lies across the sum has rows, or columns, side by side. Dealt in turn, a lane
    needs neighbours of them, one for each tile, and loads them at once. Not where the result is
    the left operand of another product as it lies.
    """
    target = node.operands[0].buffer
    if any(
        isinstance(n, Compute) and n.primitive == "gemm" and n.operands[1].buffer == target
        for n in nodes(context.program.body)
    ):
        return False, False
    return _lies_across(context, node, 0), _lies_across(context, node, 1)


def _lies_across(context: Context, node: Compute, side: int) -> bool:
    region = node.operands[1 + side]
    buffer = context.buffer(region.buffer)
    if buffer.memory == "REGISTER" or buffer.layout.kind not in ("row", "padded", "swizzle"):
        return False
    return region.index[-1].coefficient(axis(side)) == 1


def _sums(context: Context, node: Compute, dealt: tuple[bool, bool]) -> Fragment:
    """Where the sums are, with rows and columns dealt in turn or in blocks."""
    target = node.operands[0]
    mfma, mine = instruction(context, node), waves(context, node)
    width = target.shape[1] // SIDE // mine.across
    tiles = register(target.shape[0] // SIDE // mine.down, width * HELD)
    inner = [thread(SIDE, 1)]
    row = [thread(mine.down, LANES * mine.abreast), *_order(tiles, inner, dealt[0])]
    across = _order(register(width, HELD), mfma.held(1), dealt[1])
    return Fragment.of((row, [thread(mine.across, LANES), *across]), context.threads.count)


def _order(tiles: Digit, inner: list[Digit], dealt: bool) -> list[Digit]:
    """The digits of a wave's part of an axis, the most significant first."""
    return [*inner, tiles] if dealt else [tiles, *inner]


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
        self.mfma, self.waves = instruction(context, node), waves(context, node)
        if right.shape[0] % self.mfma.depth:
            raise unsupported(node.origin, f"MFMA sums {self.mfma.depth} at a time")
        self.held = None
        if context.buffer(left.buffer).memory == "REGISTER":
            self.held = cleared(context, node)
        self.chunk = self._chunk(right.shape[0])
        self.steps = right.shape[0] // (self.chunk * GROUPS)
        self.down = target.shape[0] // SIDE // self.waves.down
        self.across = target.shape[1] // SIDE // self.waves.across
        self.tiles = self.down, self.across
        self.sums = context.storages[target.buffer].flat
        self.dealt = self._dealt()
        wave, lane = context.thread // LANES, context.thread % LANES
        row = wave // self.waves.abreast % self.waves.down * (self.down * SIDE)
        column = wave % self.waves.across * (self.across * SIDE)
        # As multiples of the tiles, neighbours can be loaded as vectors.
        each = [n if dealt else 1 for n, dealt in zip(self.tiles, self.dealt, strict=True)]
        self.first = (
            context.variable("row", row // each[0] + lane % SIDE) * each[0],
            context.variable("column", column // each[1] + lane % SIDE) * each[1],
        )
        # Not one variable: that it is a multiple lets vectors be loaded.
        self.along = context.variable("group", lane // SIDE) * self.chunk
        self.lefts = self._array("a", self.down)
        self.rights = self._array("b", self.across)

    def _dealt(self) -> tuple[bool, bool]:
        """How the sums lie: as another product demands that comes before, or as this one does."""
        mine = self.context.storages[self.node.operands[0].buffer].fragment
        wish = wanted(self.context, self.node)
        for dealt in (wish, (False, False), (True, True), (False, True), (True, False)):
            if mine == _sums(self.context, self.node, dealt):
                return dealt
        raise unsupported(self.node.origin, "another statement has this product's sums elsewhere")

    def _chunk(self, depth: int) -> int:
        """Steps of the sum that a lane loads at once: as many as make up 16 bytes, if they can.

        Several instructions then take a part of them each. Their steps follow each other in no
        lane's count, but in the same way in A and in B, and a sum has no order.
        """
        steps = self.mfma.steps
        if self.held is not None:
            return steps
        dtype = self.context.buffer(self.node.operands[2].buffer).dtype
        return math.gcd(depth // GROUPS, max(steps, CHUNK // itemsize(dtype)))

    def _array(self, name: str, count: int) -> Any:
        dtype = self.context.buffer(self.node.operands[2].buffer).dtype
        return self.context.writer.allocate(name, count * self.chunk, WIDENED.get(dtype, dtype))

    def step(self, step: int) -> None:
        """One step along the summed axis: load what it needs, multiply all pairs."""
        if self.held is None:
            self._load_side(0, step, self.lefts)
        self._load_side(1, step, self.rights)
        for part in range(0, self.chunk, self.mfma.steps):
            for i in range(self.down):
                for j in range(self.across):
                    self._multiply(step, part, i, j)

    def _multiply(self, step: int, part: int, i: int, j: int) -> None:
        left = self.lefts.ptr_to([i * self.chunk + part])
        if self.held is not None:
            left = self.held.ptr_to([(i * self.steps + step) * self.chunk])
        total = self.sums.ptr_to([(i * self.across + j) * HELD])
        right = self.rights.ptr_to([j * self.chunk + part])
        name, source = f"septran_mfma_{self.mfma.name}", text_of(self.mfma)
        call = T.cuda.func_call(name, total, right, left, source_code=source)
        self.context.writer.evaluate(call)

    def _load_side(self, side: int, step: int, array: Any) -> None:
        region, tiles = self.node.operands[1 + side], self.tiles[side]
        last = self.first[side] + (tiles - 1) * (1 if self.dealt[side] else SIDE)
        whole = self.context.indices.surely_below(last, region.valid[side])
        if self.dealt[side] and whole and _lies_across(self.context, self.node, side):
            self._load_across(side, step, array)
            return
        for block in range(tiles):
            self._load(side, block, step, array)

    def _load_across(self, side: int, step: int, array: Any) -> None:
        """A lane's elements of all tiles, as vectors of one for each tile."""
        context, writer = self.context, self.context.writer
        region, tiles, count = self.node.operands[1 + side], self.tiles[side], self.chunk
        access = Access(context, context.storages[region.buffer], region)
        along, first = self.along + step * count * GROUPS, self.first[side]
        lane = Var("@t")
        context.indices.bind(lane, None, 0, max(1, tiles - 1))

        def at(tile: Index, k: int) -> tuple[Index, Index]:
            found = first + tile, along + k
            return found if side == 0 else (found[1], found[0])

        dtype = access.storage.dtype
        width = access.width(at(Index.of(lane), 0), lane, tiles)
        values = writer.allocate("v", count * tiles, dtype)
        for k in range(count):
            for tile in range(0, tiles, width):
                value = writer.load(
                    access.storage.flat, access.lower(at(Index.of(tile), k), width), width
                )
                writer.store(values, k * tiles + tile, value, width)
        for tile in range(tiles):
            for k in range(count):
                value = writer.load(values, k * tiles + tile)
                if dtype in WIDENED:
                    value = context.arithmetic.convert(value, WIDENED[dtype])
                writer.store(array, tile * count + k, value)

    def _load(self, side: int, block: int, step: int, array: Any) -> None:
        """A lane's elements of one tile of A (`side` 0) or B, as vectors where they lie so."""
        context, writer = self.context, self.context.writer
        region = self.node.operands[1 + side]
        access = Access(context, context.storages[region.buffer], region)
        apart = block * (1 if self.dealt[side] else SIDE)
        other = self._existing(self.first[side] + apart, region.valid[side])
        along = self.along + step * self.chunk * GROUPS
        count, dtype = self.chunk, access.storage.dtype

        def at(k: Index) -> tuple[Index, Index]:
            return (other, along + k) if side == 0 else (along + k, other)

        lane = Var("@k")
        context.indices.bind(lane, None, 0, max(1, count - 1))
        width = access.width(at(Index.of(lane)), lane, count)
        widened = WIDENED.get(dtype)
        target, first = array, block * count
        if widened is not None:
            target, first = writer.allocate("v", count, dtype), 0
        for start in range(0, count, width):
            place = access.lower(at(Index.of(start)), width)
            value = writer.load(access.storage.flat, place, width)
            writer.store(target, first + start, value, width)
        if widened is not None:
            for n in range(count):
                value = context.arithmetic.convert(writer.load(target, n), widened)
                writer.store(array, block * count + n, value)

    def _existing(self, at: Index, limit: Index) -> Index:
        """A row or column, but none beyond those that exist: nobody stores what comes of it."""
        indices = self.context.indices
        if indices.surely_below(at, limit):
            return at
        last = minimum(at, limit - 1)
        last = last if indices.bounds(limit)[0] > 0 else maximum(0, last)
        return self.context.variable("other", last)
