"""cp.async: chunks of 4, 8 or 16 bytes from GLOBAL to SHARED, zeros where nothing exists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.ir.index import Index, axis
from septran.targets.cuda.addresses import CHUNK, Access
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import spread
from septran.targets.cuda.fragment.registers import RegisterLoop, primary, register_digits
from septran.targets.cuda.text.ptx import ptx
from septran.targets.cuda.unsupported import unsupported
from septran.targets.cuda.writer import ROLLED
from septran.targets.lower.writer import Expr, both
from septran.tile.analyses.engine_limits import chunk_bytes
from septran.tile.nodes import Copy

UNROLLED = 16
"""Chunks of a thread whose addresses are known beside each other, at most."""
RESERVED, PER_CHUNK = 24, 4
"""Registers of a role's thread for all else, and for one chunk."""


def copy(context: Context, node: Copy) -> None:
    """Issue the chunks of a copy, each by one thread."""
    engine = context.program.machine.engine(node.engine)
    size = chunk_bytes(context.program, node, engine)
    if isinstance(size, str):
        raise unsupported(node.origin, f"{node.engine} cannot copy it: {size}")
    region = node.source
    whole = replace(region, valid=tuple(map(Index.of, region.shape)))
    last = [Index.of(extent - 1) for extent in region.shape]
    inside = both(*map(context.indices.below, last, region.valid))
    if inside is None or size == CHUNK:
        _Chunks(context, node, size).issue()
        return
    with context.writer.body() as quick:  # many small chunks: each without a look at its edge
        _Chunks(context, replace(node, source=whole), size).issue()
    with context.writer.body() as edge:
        _Chunks(context, node, size).issue()
    context.writer.choose(inside, quick, edge)


class _Chunks:
    def __init__(self, context: Context, node: Copy, size: int) -> None:
        self.context, self.node, self.size = context, node, size
        source = context.storages[node.source.buffer]
        target = context.storages[node.target.buffer]
        self.source = Access(context, source, node.source)
        self.target = Access(context, target, node.target)
        self.width = itemsize(source.dtype)
        self.lanes = max(1, size // self.width)
        # A chunk lies along the tile's rows, whichever axis of the copy that is.
        near = node.target.index[-1]
        axes = (n for n in range(node.target.rank) if near.coefficient(axis(n)) == 1)
        self.along = next(axes, node.target.rank - 1)

    def issue(self) -> None:
        """Chunks over the threads: along the rows first."""
        context = self.context
        shape = list(self.node.target.shape)
        shape[self.along] = -(-shape[self.along] // self.lanes)
        order = [n for n in range(len(shape)) if n != self.along] + [self.along]
        layout = spread([shape[n] for n in order], context.threads.count, 1)
        walk = RegisterLoop(context, layout)
        with context.writer.when(primary(context, layout)), self._over(walk):
            chunk = [Index()] * len(shape)
            inside: Expr | None = None
            for position, axis in enumerate(order):
                chunk[axis] = context.variable("c", walk.coordinate(position))
                inside = both(inside, context.indices.below(chunk[axis], shape[axis]))
            chunk[self.along] = chunk[self.along] * self.lanes
            with context.writer.when(inside):
                self._one(tuple(chunk))

    @contextmanager
    def _over(self, walk: RegisterLoop) -> Iterator[None]:
        """Loops over a thread's chunks, of which so many are unrolled that registers suffice."""
        context, digits = self.context, register_digits(walk.fragment)
        given = context.state.registers
        most = UNROLLED
        if given is not None:
            most = min(UNROLLED, max(1, (given - RESERVED) // PER_CHUNK))
        if prod(d.extent for d in digits) <= most:
            with walk.over(digits):
                yield
            return
        first, rest = digits[0], digits[1:]
        room = max(1, most // prod(d.extent for d in rest))
        # A divisor of the extent: no part of the loop is left over for code of its own.
        step = max(n for n in range(1, room + 1) if first.extent % n == 0)
        # Unrolled by the compiler, all its addresses would be in registers at one time.
        context.writer.note(ROLLED)
        parts = context.loop("part", Index.of(first.extent // step))
        with (
            parts as part,
            context.loop("r", Index.of(step), unrolled=True) as number,
            walk.over(rest),
        ):
            walk.steps[first] = part * step + number
            yield

    def _one(self, at: tuple[Index, ...]) -> None:
        context = self.context
        here = self.target.lower(at)
        place = self.target.storage.flat.ptr_to([here])
        exists, count = self.source.exists(at), self._count(at)
        there = self.source.lower(at)
        if exists is not None:  # nothing is read there, but the address must be one
            there = T.Select(exists, there, context.writer.index(0))
            count = T.Select(exists, count, T.uint32(0))
        pointer = self.source.storage.flat.ptr_to([there])
        # PTX ISA, cp.async: `.cg`, which leaves L1 out, is for 16 bytes; 4 and 8 go by `.ca`.
        kind = "cp.async.cg.shared.global.L2::128B" if self.size == 16 else \
            "cp.async.ca.shared.global"  # fmt: skip
        ptx(context, kind, place, pointer, self.size, count)

    def _count(self, at: tuple[Index, ...]) -> Expr:
        """Bytes of a chunk that exist."""
        indices = self.context.indices
        left = indices.simplify(self.node.source.valid[self.along] - at[self.along])
        if self.lanes == 1 or indices.bounds(left)[0] >= self.lanes:
            return T.uint32(self.size)
        # PTX ISA, cp.async: the bytes of the chunk beyond the source's count become zero.
        some = T.max(T.min(indices.lower(left), self.lanes), 0) * self.width
        return T.Cast("uint32", some)
