"""Channels of asynchronous copies: the handshake between who fills and who reads.

Boxes (TMA), and chunks (cp.async) that another role reads, complete on mbarriers: one that
is full and one that is empty for each stage. Their parity comes from the fill's number; where
the fills of a channel begin anew in each iteration of a loop, both sides keep the parity of
each stage in a register instead. Chunks that their own threads read complete by counting
groups; stores (TMA) by counting bulk groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.ir.index import Index, Var
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import GROUP, WARP
from septran.targets.cuda.gemm.wgmma import NAMES
from septran.targets.cuda.shared import pointer
from septran.targets.cuda.sync.clusters import Over, meet, remote_arrive
from septran.targets.cuda.sync.wait_counts import pending
from septran.targets.cuda.text.ptx import FENCES, proxy_fence, ptx
from septran.targets.lower.writer import Expr
from septran.tile.analyses.engine_limits import BOX
from septran.tile.nodes import (
    Acquire,
    Barrier,
    Channel,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Release,
    Role,
    TileProgram,
    Wait,
    nodes,
)

GATHER = "gather"
"""The engine of copies through registers."""


@dataclass
class BarrierRing:
    """A channel as a kernel has it."""

    channel: Channel
    boxes: bool
    """Whether its copies are boxes, not chunks."""
    inward: bool
    roles: bool
    """Whether one role fills and others read."""
    restarts: bool
    """Whether its fills begin anew in each iteration of a loop of the kernel."""
    barriers: int = 0
    """Byte of shared memory where its mbarriers begin: full ones, then empty ones."""
    arrivals: int = 1
    """On a full barrier, a fill."""
    readers: int = 1
    """Warps that release a fill."""
    peers: tuple[Mapping[Var, int], ...] = ()
    """Steps to the blocks of the cluster whose copies write here, itself first; () if alone."""
    threads_read: bool = True
    """Whether threads read its stages themselves, and not wgmma alone."""
    peer: Any = None
    """The rank at whose mbarrier this lane arrives when its warp has released a fill."""
    fills: Mapping[tuple[str, Index], tuple[Copy, ...]] = field(default_factory=dict)
    parities: dict[str, Any] = field(default_factory=dict)
    """Registers of parities: of the ``full`` barriers and of the ``empty`` ones."""

    @property
    def gathers(self) -> bool:
        """Whether threads write what they have read: it is there when they arrive."""
        return self.inward and self.channel.engine == GATHER

    @property
    def mbarriers(self) -> bool:
        """Whether it has mbarriers."""
        return self.inward and (self.boxes or self.roles)

    def full(self, context: Context, slot: Index) -> Any:
        """Pointer to the full barrier of a stage."""
        return pointer(context, context.lower(slot * 8 + self.barriers))

    def empty(self, context: Context, slot: Index) -> Any:
        """Pointer to the empty barrier of a stage."""
        return self.full(context, slot + self.channel.stages)


def begin(context: Context, body: tuple[Node, ...]) -> None:
    """Find the channels of a kernel's body and make their mbarriers."""
    rings = {c.name: r for c in context.program.channels if (r := _ring(context, c, body))}
    context.state.rings = rings
    made = [r for r in rings.values() if r.mbarriers]
    if not made:
        return
    for ring in made:
        ring.barriers = context.reserve(2 * ring.channel.stages * 8, 8)
    # One thread makes them, and no other goes on before the barrier below.
    with context.writer.when(context.number == context.writer.index(0)):
        for ring in made:
            for stage in range(ring.channel.stages):
                slot = Index.of(stage)
                init = "mbarrier.init.shared.b64"
                ptx(context, init, ring.full(context, slot), T.uint32(ring.arrivals))
                arrivals = ring.readers * max(1, len(ring.peers))
                ptx(context, init, ring.empty(context, slot), T.uint32(arrivals))
        # The first fence is for arrivals of other blocks, the second one for TMA.
        ptx(context, "fence.mbarrier_init.release.cluster")
        ptx(context, "fence.proxy.async.shared::cta")
    if any(r.peers for r in made):
        context.writer.note("no block of the cluster writes to another before its barriers are")
        meet(context)
    else:
        context.writer.evaluate(T.cuda.cta_sync())


def end(context: Context) -> None:
    """At the end of a kernel: no block goes while others of its cluster may write to it."""
    if any(r.peers for r in context.state.rings.values()):
        context.writer.note("no block of the cluster ends before all are done with its memory")
        meet(context)


def ring(context: Context, channel: str | None) -> BarrierRing:
    """The channel of that name in the current kernel."""
    assert channel is not None
    return context.state.rings[channel]


def enter(context: Context, body: tuple[Node, ...]) -> None:
    """At the start of a role (or of a kernel without roles): registers for parities, ranks."""
    for found in context.state.rings.values():
        if found.peers and any(
            isinstance(n, Release) and n.channel == found.channel.name for n in nodes(body)
        ):
            found.peer = _peer(context, found)
        if not (found.mbarriers and found.restarts):
            continue
        # Who reads keeps the parities of the full barriers, who fills those of the empty ones.
        sides: dict[str, type[Wait | Acquire]] = {"full": Wait, "empty": Acquire}
        for side, kind in sides.items():
            if any(isinstance(n, kind) and n.channel == found.channel.name for n in nodes(body)):
                bits = context.writer.allocate(f"{found.channel.name}_{side}", 1, "uint32")
                context.writer.store(bits, 0, T.uint32(0))
                found.parities[side] = bits


def _peer(context: Context, found: BarrierRing) -> Expr:
    """The rank of the block that each lane's number stands for."""
    ranks = [context.lower(context.cluster.rank(steps)) for steps in found.peers]
    # Lane n arrives at peer n, so that a warp reaches all of them by one instruction.
    lane, value = context.number % context.writer.index(WARP), ranks[-1]
    for number, rank in reversed(list(enumerate(ranks[:-1]))):
        value = T.if_then_else(lane == context.writer.index(number), rank, value)
    return context.writer.bind("peer", value)


def _ring(context: Context, channel: Channel, body: tuple[Node, ...]) -> BarrierRing | None:
    program = context.program
    mine = [n for n in nodes(body) if isinstance(n, Copy) and n.channel == channel.name]
    if not mine:
        return None
    boxes = program.machine.engine(channel.engine).completes_by == BOX
    inward = mine[0].target.buffer in channel.buffers
    holders = [n for n in nodes(body) if isinstance(n, Role)]
    readers = [r for r in holders if _has(r, Release, channel.name)]
    fillers = [r for r in holders if _has(r, Commit, channel.name)]
    apart = bool(readers) and readers != fillers
    found = BarrierRing(channel, boxes, inward, apart, _restarts(channel, body))
    found.readers = (GROUP * sum(r.count for r in readers) or context.block) // WARP
    if not boxes:
        found.arrivals = GROUP * sum(r.count for r in fillers) if fillers else context.block
    # A warp arrives once for all its lanes (`_gathered`).
    if found.gathers:
        found.arrivals //= WARP
    found.fills = dict(_fills(channel.name, body))
    found.threads_read = _threads_read(channel.buffers, body)
    shared: list[Over] = [c.multicast for c in mine if c.multicast]
    if shared:
        found.peers = context.cluster.peers(shared)
    return found


def _threads_read(buffers: Iterable[str], body: tuple[Node, ...]) -> bool:
    """Whether anything but wgmma reads some of these buffers."""
    names = set(buffers)
    return any(
        node.source.buffer in names
        if isinstance(node, Copy)
        else isinstance(node, Compute)
        and node.instruction not in NAMES
        and any(r.buffer in names for r in node.operands)
        for node in nodes(body)
    )


def _has(role: Role, kind: type[Any], channel: str) -> bool:
    return any(isinstance(n, kind) and n.channel == channel for n in nodes(role.body))


def _restarts(channel: Channel, body: tuple[Node, ...]) -> bool:
    """Whether some loop of the kernel numbers a channel's fills anew in each iteration."""
    return any(
        isinstance(n, For)
        and n.extent != Index.of(1)
        and any(True for _ in _handshake(channel, n.body))
        and not _goes_round(channel, n)
        for n in nodes(body)
    )


def _goes_round(channel: Channel, loop: For) -> bool:
    """Whether the numbers of a loop's fills go on from one iteration to the next.

    Where they begin anew, the last ones may depend on the iteration as well: on how often a loop
    inside turns. The first ones do not.
    """
    numbers = (n.index for n in _handshake(channel, loop.body))
    return all(loop.variable in index.variables() for index in numbers)


def _handshake(
    channel: Channel, body: tuple[Node, ...]
) -> Iterator[Acquire | Commit | Wait | Release]:
    for node in nodes(body):
        if isinstance(node, Acquire | Commit | Wait | Release) and node.channel == channel.name:
            yield node


def _fills(
    channel: str, body: tuple[Node, ...]
) -> Iterator[tuple[tuple[str, Index], tuple[Copy, ...]]]:
    """The copies of each fill, by the fill's number."""
    copies: list[Copy] = []
    for node in body:
        if isinstance(node, For | Role):
            yield from _fills(channel, node.body)
        elif isinstance(node, Copy) and node.channel == channel:
            copies.append(node)
        elif isinstance(node, Commit) and node.channel == channel:
            yield (channel, node.index), tuple(copies)
            copies = []


def read_by_proxy(program: TileProgram, buffers: Iterable[str]) -> bool:
    """Whether wgmma or TMA read some of these buffers: not as threads read them."""
    names = set(buffers)
    for node in nodes(program.body):
        if isinstance(node, Compute) and node.instruction in NAMES:
            if names & {r.buffer for r in node.operands}:
                return True
        elif isinstance(node, Copy) and node.source.buffer in names and _is_box(program, node):
            return True
    return False


def filled_by_proxy(program: TileProgram, buffers: Iterable[str]) -> bool:
    """Whether TMA fills bytes where some of these buffers lie.

    Then it may come later than a thread's write, which it would be overtaken by (PTX ISA,
    asynchronous proxy): tiles that live one after the other have the same bytes.
    """
    places = {p.buffer: p for p in program.plan}
    copies = (n for n in nodes(program.body) if isinstance(n, Copy) and _is_box(program, n))
    filled = {c.target.buffer for c in copies}
    return any(
        places[a].memory == places[b].memory
        and places[a].offset_bytes < places[b].offset_bytes + places[b].size_bytes
        and places[b].offset_bytes < places[a].offset_bytes + places[a].size_bytes
        for a, b in itertools.product(filled & places.keys(), set(buffers) & places.keys())
    )


def _is_box(program: TileProgram, copy: Copy) -> bool:
    return program.machine.engine(copy.engine).completes_by == BOX


def barrier(context: Context, node: Barrier) -> None:
    """All threads that run this body meet; wgmma and TMA see what they wrote, too."""
    if context.state.fences is None:
        program = context.program
        found = [(text, written(program, memory)) for memory, text in FENCES.items()]
        context.state.fences = tuple(
            text
            for text, names in found
            if read_by_proxy(program, names) or filled_by_proxy(program, names)
        )
    for text in context.state.fences:
        ptx(context, text)
    context.sync()


def written(program: TileProgram, memory: str) -> set[str]:
    """Buffers in a memory that threads write themselves."""
    found: set[str] = set()
    for node in nodes(program.body):
        if isinstance(node, Copy) and node.channel is None:
            found.add(node.target.buffer)
        elif isinstance(node, Compute):
            found.add(node.operands[0].buffer)
    return {name for name in found if program.buffer(name).memory == memory}


# ---- the handshake


def place(context: Context, found: BarrierRing, index: Index, side: str) -> tuple[Index, Expr]:
    """The stage of a fill, and the parity that its barrier has once it is as wanted."""
    stages = found.channel.stages
    slot = context.indices.simplify(index % stages)
    if side in found.parities:
        bits = found.parities[side][0]
        shift = T.Cast("uint32", context.lower(slot))
        parity = T.Cast("int32", T.bitwise_and(T.shift_right(bits, shift), T.uint32(1)))
        return slot, parity ^ T.int32(1) if side == "empty" else parity
    # PTX ISA, mbarrier: a wait for the parity of the phase before the current one passes at once,
    # so the first fill of each stage waits for nobody.
    turn = context.indices.simplify(index // stages + (1 if side == "empty" else 0))
    return slot, context.lower(turn % 2)


def flip(context: Context, found: BarrierRing, slot: Index, side: str) -> None:
    """Note that a barrier was waited for, where parities are kept."""
    if side in found.parities:
        bit = T.shift_left(T.uint32(1), T.Cast("uint32", context.lower(slot)))
        array = found.parities[side]
        context.writer.store(array, 0, T.bitwise_xor(array[0], bit))


def await_barrier(context: Context, found: BarrierRing, index: Index, side: str) -> Index:
    """Wait for a barrier of a fill; the fill's stage."""
    slot, parity = place(context, found, index, side)
    at = found.full(context, slot) if side == "full" else found.empty(context, slot)
    # Threads of another block have read what is overwritten next: see `ARRIVALS`.
    remote = found.peers and side == "empty" and found.threads_read
    wait = T.cuda.mbarrier_wait_acquire_cluster if remote else T.cuda.mbarrier_wait
    context.writer.evaluate(wait(at, parity))
    flip(context, found, slot, side)
    return slot


def wait(context: Context, node: Wait) -> None:
    """Wait until a fill has landed."""
    found = ring(context, node.channel)
    if found.mbarriers:
        await_barrier(context, found, node.index, "full")
        # Threads wrote it, by cp.async or themselves, and wgmma reads it by the async proxy.
        if not found.boxes and read_by_proxy(context.program, found.channel.buffers):
            proxy_fence(context)
    elif found.inward:
        # A group is complete for the thread that issued it; behind the barrier it is for all.
        ptx(context, "cp.async.wait_group", pending(context, node))
        if read_by_proxy(context.program, found.channel.buffers):
            proxy_fence(context)
        context.sync()
    else:
        with leader(context):
            # Bulk groups are of the thread that issued them; behind the barrier they hold for all.
            ptx(context, "cp.async.bulk.wait_group.read", pending(context, node))
        context.sync()


def release(context: Context, node: Release) -> None:
    """A warp is done with a fill."""
    found = ring(context, node.channel)
    if not found.mbarriers:
        return  # who fills the stage again meets its readers first
    slot = context.indices.simplify(node.index % found.channel.stages)
    # TMA writes there next. Without a fence the arrival overtakes ldmatrix, which has been issued
    # and has not read yet: on an H100 one sum in 56,000 had elements of the next fill.
    if found.boxes and found.threads_read:
        proxy_fence(context)
    # All lanes have read before one of them arrives for the warp.
    context.writer.evaluate(T.cuda.warp_sync())
    if found.peers:
        has_peer = context.lower(context.thread % WARP) < context.writer.index(len(found.peers))
        with context.writer.when(has_peer):
            empty = found.empty(context, slot)
            remote_arrive(context, empty, found.peer, found.threads_read)
        return
    first = context.lower(context.thread % WARP) == context.writer.index(0)
    with context.writer.when(first):
        ptx(context, "mbarrier.arrive.shared.b64", found.empty(context, slot), T.uint32(1))


@contextmanager
def leader(context: Context) -> Iterator[None]:
    """Statements inside are for one of the threads that run the body: boxes are issued once."""
    alone = None if context.state.one_thread else context.lower(context.thread)
    first = None if alone is None else alone == context.writer.index(0)
    with context.writer.when(first):
        yield


def acquire(context: Context, node: Acquire) -> None:
    """Wait until a stage may be filled, and say how many bytes will come."""
    from septran.targets.cuda.copy.tma import fill_bytes

    found = ring(context, node.channel)
    if not found.mbarriers:
        _meet_readers(context, found, node)
        return
    if not found.boxes:
        await_barrier(context, found, node.index, "empty")
        return
    with leader(context):
        slot = await_barrier(context, found, node.index, "empty")
        # The one arrival of the phase, and the bytes after which it is complete.
        expect = "mbarrier.arrive.expect_tx.shared.b64"
        size = sum(fill_bytes(context, c) for c in found.fills[node.channel, node.index])
        ptx(context, expect, found.full(context, slot), T.uint32(size))


def _meet_readers(context: Context, found: BarrierRing, node: Acquire) -> None:
    """A barrier before a stage is filled again, where the one of a wait does not do."""
    # Before its first fill nobody reads a stage.
    fresh = not found.restarts and context.indices.bounds(node.index)[1] < found.channel.stages
    if not fresh and id(node) not in context.state.covered:
        context.sync()


def commit(context: Context, node: Commit) -> None:
    """Close the group of copies that make a fill."""
    found = ring(context, node.channel)
    if not found.inward:
        with leader(context):
            ptx(context, "cp.async.bulk.commit_group")
    elif found.boxes:
        return  # the bytes that the barrier expects close it
    elif found.gathers:
        _gathered(context, found, node)
    elif found.mbarriers:
        slot = context.indices.simplify(node.index % found.channel.stages)
        # `noinc`: the arrivals of all filling threads are in the barrier's count from the start.
        arrive = "cp.async.mbarrier.arrive.noinc.shared.b64"
        ptx(context, arrive, found.full(context, slot))
    else:
        ptx(context, "cp.async.commit_group")


def _gathered(context: Context, found: BarrierRing, node: Commit) -> None:
    """Commit what threads wrote: each warp arrives at the mbarrier, or all meet."""
    if not found.mbarriers:
        ptx(context, "cp.async.commit_group")  # of no copies: groups are counted over channels
        return
    if read_by_proxy(context.program, found.channel.buffers):
        proxy_fence(context)
    context.writer.evaluate(T.cuda.warp_sync())
    slot = context.indices.simplify(node.index % found.channel.stages)
    first = context.lower(context.thread % WARP) == context.writer.index(0)
    with context.writer.when(first):
        ptx(context, "mbarrier.arrive.shared.b64", found.full(context, slot), T.uint32(1))
