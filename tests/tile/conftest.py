"""Tile programs built by hand, for the printer, the verifier and the interpreter."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from septran.ir.index import Index, IndexLike, Var, ceil_div
from septran.ir.views import View
from septran.location import Location
from septran.machine.model import Engine, Instruction, Machine, Memory, Processor
from septran.mapping.keys import CONSUMERS, PIPELINE, WARPSPECIALIZE
from septran.mapping.resolved import Setting, Settings
from septran.tile.layouts import ROW
from septran.tile.nodes import (
    Acquire,
    Buffer,
    Channel,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Origin,
    Region,
    Release,
    Role,
    TileProgram,
    Wait,
)
from septran.tile.records import LoopSchedule

MACHINE = Machine(
    name="toy",
    backend="dsa",
    processors=(Processor("HOST"), Processor("CORE", 4, "HOST"), Processor("LANE", 2, "CORE")),
    memories=(
        Memory("DRAM", "HOST"),
        Memory("SPM", "CORE", 64 * 1024),
        Memory("ACC", "LANE", 16 * 1024),
    ),
    engines=(
        Engine("DMA_IN", (("DRAM", "SPM"),), asynchronous=True, completes_by="event"),
        Engine("DMA_OUT", (("SPM", "DRAM"),), asynchronous=True, completes_by="event"),
        Engine("MOVE", (("SPM", "ACC"), ("ACC", "SPM"), ("DRAM", "DRAM"), ("ACC", "DRAM"),
                        ("DRAM", "SPM"), ("SPM", "DRAM")), layouts=("row", "panels")),
    ),
    instructions=(
        Instruction("mma", "gemm", operands={"C": ("ACC", "SPM", "DRAM")}),
        Instruction("vector", "map"),
    ),
)  # fmt: skip


ASKED = {"pipeline": PIPELINE, "specialize": WARPSPECIALIZE, "consumers": CONSUMERS}


def origin(rule: str) -> Origin:
    return Origin("toy", "toy", Location("toy.py", 1), Location("toy.yaml", 2), rule)


def region(
    buffer: Buffer, offsets=None, extents=None, *, valid=None, stage: IndexLike = 0
) -> Region:
    """A rectangular part of a buffer; all of it by default, clipped to what exists."""
    whole = View.whole(buffer.name, buffer.shape)
    base = Region(whole.tensor, whole.index, whole.shape, whole.valid)
    if offsets is not None:
        base = base.block(tuple(offsets), tuple(extents))
    if valid is not None:
        base = replace(base, valid=tuple(map(Index.of, valid)))
    return replace(base, stage=Index.of(stage))


@dataclass
class Build:
    """Makes nodes with origins and remembers buffers and channels."""

    machine: Machine = MACHINE
    buffers: dict[str, Buffer] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    requests: list[LoopSchedule] = field(default_factory=list)

    def buffer(self, name, memory, shape, dtype="float32", layout=ROW, stages=1) -> Buffer:
        made = Buffer(
            name, memory, tuple(shape), dtype, layout, stages, name, origin(f"holds {name}")
        )
        self.buffers[name] = made
        return made

    def channel(self, name, engine, stages, *buffers) -> Channel:
        made = Channel(
            name, engine, stages, tuple(b.name for b in buffers), origin(f"{name} is pipelined")
        )
        self.channels[name] = made
        return made

    def copy(self, target, source, engine="MOVE", channel=None, zero_fill=False) -> Copy:
        rule = f"{source.buffer} is copied to {target.buffer}"
        name = channel.name if channel else None
        return Copy(target, source, engine, "CORE", origin(rule), name, zero_fill)

    def gemm(self, c, a, b, **attributes) -> Compute:
        return Compute(
            "gemm", (c, a, b), "mma", "CORE", origin("toy calls gemm"),
            tuple(attributes.items()), accumulates=True,
        )  # fmt: skip

    def fill(self, target, value=0) -> Compute:
        why = origin(f"{target.buffer} starts as {value}")
        return Compute("fill", (target,), "vector", "CORE", why, (("value", value),))

    def move(self, target, source) -> Compute:
        return Compute("copy", (target, source), "vector", "CORE", origin("toy calls copy"))

    def loop(self, name, extent, *body, kind="sequential", over=None, **asked) -> For:
        """A loop; what a mapping asks for it makes it one of a task of its own."""
        why = origin(f"toy iterates {name}")
        values = {ASKED[key].path: Setting(value) for key, value in asked.items()}
        if any(value != ASKED[key].default for key, value in asked.items()):
            why = replace(why, task=f"toy/{name}")
            self.requests.append(LoopSchedule(why.task, Settings(values)))
        return For(Var(name), Index.of(extent), kind, over, tuple(body), why)

    def role(self, name, *body, count=1) -> Role:
        return Role(name, "CORE", count, tuple(body), origin(f"{name} has its own part"))

    def acquire(self, channel, index) -> Acquire:
        return Acquire(channel.name, Index.of(index), origin("the slot is filled again"))

    def commit(self, channel, index) -> Commit:
        return Commit(channel.name, Index.of(index), origin("the copies are one fill"))

    def wait(self, channel, index) -> Wait:
        return Wait(channel.name, Index.of(index), origin("what was copied is used"))

    def release(self, channel, index) -> Release:
        return Release(channel.name, Index.of(index), origin("its readers are done"))

    def program(self, params, outputs, *body: Node, name="toy") -> TileProgram:
        buffers, channels = tuple(self.buffers.values()), tuple(self.channels.values())
        return TileProgram(
            name, self.machine, tuple(params), tuple(outputs), (), buffers, tuple(body), channels,
            requests=tuple(self.requests),
        )  # fmt: skip


class Programs:
    """Correct programs, by name."""

    M, N, K, T = 20, 12, 40, 8

    def plain_gemm(self, m=M, n=N, k=K, tile=T, dtype="float32") -> TileProgram:
        """Tiles brought by synchronous copies."""
        b = Build()
        C, A, B = self._tensors(b, m, n, k, dtype)
        As, Bs = (
            b.buffer("As", "SPM", (tile, tile), dtype),
            b.buffer("Bs", "SPM", (tile, tile), dtype),
        )
        Cs = b.buffer("Cs", "ACC", (tile, tile), "float32")
        i, j, p = (Index.of(Var(v)) for v in "ijp")
        a = region(A, (i * tile, p * tile), (tile, tile))
        bb = region(B, (p * tile, j * tile), (tile, tile))
        c = region(C, (i * tile, j * tile), (tile, tile))
        part = self._part
        step = b.loop(
            "p", ceil_div(k, tile),
            b.copy(part(As, a), a), b.copy(part(Bs, bb), bb),
            b.gemm(part(Cs, c), part(As, a), part(Bs, bb)),
        )  # fmt: skip
        inner = b.loop("j", ceil_div(n, tile), b.fill(region(Cs)), step, b.copy(c, part(Cs, c)))
        outer = b.loop("i", ceil_div(m, tile), inner, kind="parallel", over="CORE")
        return b.program("CAB", "C", outer, name="gemm")

    def pipelined_gemm(self, stages=2, k=K, slots=True) -> TileProgram:
        """One thread that prefetches `stages - 1` tiles ahead."""
        b, tile, ahead = Build(), self.T, stages - 1
        C, A, B = self._tensors(b, self.M, self.N, k)
        As = b.buffer("As", "SPM", (tile, tile), stages=stages)
        Bs = b.buffer("Bs", "SPM", (tile, tile), stages=stages)
        Cs = b.buffer("Cs", "ACC", (tile, tile))
        ring = b.channel("ring", "DMA_IN", stages, As, Bs)
        steps = -(-k // tile)
        i, j, p = (Index.of(Var(v)) for v in "ijp")
        c = region(C, (i * tile, j * tile), (tile, tile))

        def fetch(at: IndexLike) -> list[Node]:
            number = Index.of(at)
            source_a = region(A, (i * tile, Index.of(at) * tile), (tile, tile))
            source_b = region(B, (Index.of(at) * tile, j * tile), (tile, tile))
            stage = number % stages
            taken = [b.acquire(ring, number)] if slots else []
            return [
                *taken,
                b.copy(self._part(As, source_a, stage), source_a, "DMA_IN", ring),
                b.copy(self._part(Bs, source_b, stage), source_b, "DMA_IN", ring),
                b.commit(ring, number),
            ]

        def use(at: IndexLike) -> list[Node]:
            number = Index.of(at)
            source_a = region(A, (i * tile, Index.of(at) * tile), (tile, tile))
            source_b = region(B, (Index.of(at) * tile, j * tile), (tile, tile))
            stage = number % stages
            left, right = self._part(As, source_a, stage), self._part(Bs, source_b, stage)
            freed = [b.release(ring, number)] if slots else []
            return [b.wait(ring, number), b.gemm(self._part(Cs, c), left, right), *freed]

        prologue = [n for q in range(min(ahead, steps)) for n in fetch(q)]
        main = b.loop("p", max(0, steps - ahead), *fetch(p + ahead), *use(p))
        epilogue = [n for q in range(max(0, steps - ahead), steps) for n in use(q)]
        body = [b.fill(region(Cs)), *prologue, main, *epilogue, b.copy(c, self._part(Cs, c))]
        nest = b.loop("i", ceil_div(self.M, tile), b.loop("j", ceil_div(self.N, tile), *body))
        return b.program("CAB", "C", nest, name="gemm")

    def roles_gemm(self, stages=2, k=K) -> TileProgram:
        """A producer and a consumer beside each other, fills counted over all tiles."""
        b, tile = Build(), self.T
        C, A, B = self._tensors(b, self.M, self.N, k)
        As = b.buffer("As", "SPM", (tile, tile), stages=stages)
        Bs = b.buffer("Bs", "SPM", (tile, tile), stages=stages)
        Cs = b.buffer("Cs", "ACC", (tile, tile))
        ring = b.channel("ring", "DMA_IN", stages, As, Bs)
        steps = -(-k // tile)

        def nest(suffix, *before_after):
            i, j, p = (Index.of(Var(v + suffix)) for v in "ijp")
            number = (i * -(-self.N // tile) + j) * steps + p
            a = region(A, (i * tile, p * tile), (tile, tile))
            bb = region(B, (p * tile, j * tile), (tile, tile))
            c = region(C, (i * tile, j * tile), (tile, tile))
            left = self._part(As, a, number % stages)
            right = self._part(Bs, bb, number % stages)
            return i, j, p, number, a, bb, c, left, right

        def loops(suffix, around, inner):
            before, after = around
            middle = b.loop("p" + suffix, steps, *inner)
            tiles = b.loop("j" + suffix, ceil_div(self.N, tile), *before, middle, *after)
            return b.loop("i" + suffix, ceil_div(self.M, tile), tiles)

        *_, number, a, bb, c, left, right = nest("")
        producer = loops("", ([], []), [
            b.acquire(ring, number), b.copy(left, a, "DMA_IN", ring),
            b.copy(right, bb, "DMA_IN", ring), b.commit(ring, number),
        ])  # fmt: skip
        *_, number, a, bb, c, left, right = nest("_1")
        consumer = loops("_1", ([b.fill(region(Cs))], [b.copy(c, self._part(Cs, c))]), [
            b.wait(ring, number), b.gemm(self._part(Cs, c), left, right), b.release(ring, number),
        ])  # fmt: skip
        roles = b.role("producer", producer), b.role("consumer", consumer)
        return b.program("CAB", "C", *roles, name="gemm")

    def copy_out(self, stages=2, rows=20, tile=4) -> TileProgram:
        """Rows doubled in a scratchpad and sent back while the next ones are computed."""
        b = Build()
        Y, X = b.buffer("Y", "DRAM", (rows, 8)), b.buffer("X", "DRAM", (rows, 8))
        Xs = b.buffer("Xs", "SPM", (tile, 8))
        Ys = b.buffer("Ys", "SPM", (tile, 8), stages=stages)
        ring = b.channel("out", "DMA_OUT", stages, Ys)
        steps = rows // tile
        i = Index.of(Var("i"))

        def work(at: IndexLike, ready: list[Node]) -> list[Node]:
            stage = Index.of(at) % stages
            x = region(X, (Index.of(at) * tile, 0), (tile, 8))
            y = region(Y, (Index.of(at) * tile, 0), (tile, 8))
            return [
                b.copy(region(Xs), x), *ready,
                b.move(region(Ys, stage=stage), region(Xs)),
                b.copy(y, region(Ys, stage=stage), "DMA_OUT", ring), b.commit(ring, at),
            ]  # fmt: skip

        first = [n for q in range(stages) for n in work(q, [])]
        main = b.loop("i", steps - stages, *work(i + stages, [b.wait(ring, i)]))
        last = [b.wait(ring, q) for q in range(steps - stages, steps)]
        return b.program("YX", "Y", *first, main, *last, name="copy_out")

    def unpipelined_gemm(self, m=M, n=N, k=K, *, pipeline=1, outer=1, specialize=False):
        """Synchronous as yet, over engines that can be asynchronous: what passes begin with."""
        b, t = Build(), self.T
        C, A, B = self._tensors(b, m, n, k)
        Cs, As, Bs = (b.buffer(x, "SPM", (t, t)) for x in ("Cs", "As", "Bs"))
        i, j, p = (Index.of(Var(v)) for v in "ijp")
        c = region(C, (i * t, j * t), (t, t))
        a = region(A, (i * t, p * t), (t, t))
        bb = region(B, (p * t, j * t), (t, t))
        into, left, right = self._part(Cs, c), self._part(As, a), self._part(Bs, bb)
        load = [b.copy(left, a, "DMA_IN"), b.copy(right, bb, "DMA_IN")]
        asked = {"pipeline": pipeline, "specialize": specialize}
        step = b.loop("p", ceil_div(k, t), *load, b.gemm(into, left, right), **asked)
        store = b.copy(c, into, "DMA_OUT")
        row = b.loop("j", ceil_div(n, t), b.fill(region(Cs)), step, store, pipeline=outer)
        loop = b.loop("i", ceil_div(m, t), row, kind="parallel", over="CORE")
        return b.program("CAB", "C", loop, name="gemm")

    def _tensors(self, b, m, n, k, dtype="float32"):
        C = b.buffer("C", "DRAM", (m, n))
        return C, b.buffer("A", "DRAM", (m, k), dtype), b.buffer("B", "DRAM", (k, n), dtype)

    def _part(self, buffer: Buffer, like: Region, stage: IndexLike = 0) -> Region:
        """The leading part of a staging buffer that `like` fills."""
        return region(buffer, valid=like.valid, stage=stage)


@pytest.fixture
def programs() -> Programs:
    return Programs()


@pytest.fixture
def build() -> Build:
    return Build()


@pytest.fixture
def part():
    """`part(buffer, offsets, extents, valid=, stage=)` is a region of it."""
    return region
