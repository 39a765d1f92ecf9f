"""Copies from GLOBAL to SHARED that are under way in registers while the block computes.

A fill is loaded into registers where the tile program issues it, and written to its stage at the
wait for it, whose barrier shows it to all. The loads are plain ones: clang waits for them
(`s_waitcnt vmcnt`) where what they brought is written, thus behind the computation in between.

There are registers for one fill of a channel. Where the program has two under way, or fills a
stage by several copies, each is written to its stage where it is issued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tvm import tirx

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.fragment.fragments import Fragment, spread
from septran.targets.cuda.fragment.maps import emit_statement
from septran.targets.cuda.lowering import VECTOR_BYTES
from septran.targets.cuda.sync import channels
from septran.targets.cuda.sync.wait_counts import runs
from septran.targets.lower.statements import Statement
from septran.targets.lower.writer import flat_buffer
from septran.tile.layouts import ROW
from septran.tile.nodes import Acquire, Commit, Copy, Region, Wait, nodes

NAME = "through_registers"
"""The engine of machine files."""
Place = tuple[type, str, Index]
"""A kind of node, its channel, and its fill's number as the program has it."""


def copy(context: Context, node: Copy) -> None:
    """Load a tile into registers, or where there is no room for it straight into its stage."""
    if _writes(context, str(node.channel)) is None:
        # Zeros beyond the edge, as there are in registers: products read a row that does not exist.
        fills = channels.ring(context, node.channel).fills.values()
        filled = node.zero_fill or all(_simple(context, fill) for fill in fills)
        statement = Statement(node.target, ex.Load(node.source, ""), filled=filled)
        emit_statement(context, statement, _fragment(context, node))
        return
    held = _held(context, node)
    assert held.fragment is not None
    plain = Region.whole(held.name, held.shape)
    whole = Region(held.name, plain.index, plain.shape, plain.valid)
    emit_statement(context, Statement(whole, ex.Load(node.source, held.dtype)), held.fragment)


def acquire(context: Context, node: Acquire) -> None:
    """Wait until a stage is free; the fill before, if it is in registers, makes room."""
    channels.acquire(context, node)
    writes = _writes(context, node.channel)
    if writes is not None and writes[Acquire, node.channel, node.index]:
        _write(context, node.channel, node.index - 1)


def commit(context: Context, node: Commit) -> None:
    """Keep the loads of a fill where they are.

    To hold fewer registers clang would put them behind the products, and wait for them at once.
    """
    del node
    zero = tirx.IntImm("int32", 0)
    context.writer.evaluate(tirx.call_extern("void", "__builtin_amdgcn_sched_barrier", zero))


def wait(context: Context, node: Wait) -> None:
    """Write a fill to its stage, if it is still in registers, and meet."""
    writes = _writes(context, node.channel)
    if writes is not None and writes[Wait, node.channel, node.index]:
        _write(context, node.channel, node.index)
    context.sync()


def _write(context: Context, channel: str, index: Index) -> None:
    """Write the fill that is in registers to its stage."""
    found = channels.ring(context, channel)
    slot = context.indices.simplify(index % found.channel.stages)
    for node in next(iter(found.fills.values())):
        held = _held(context, node)
        assert held.fragment is not None
        target = replace(Region.all_of(context.buffer(node.target.buffer)), stage=slot)
        source = Region.whole(held.name, held.shape)
        statement = Statement(target, ex.Load(source, held.dtype))
        emit_statement(context, statement, held.fragment)


def _fragment(context: Context, node: Copy) -> Fragment:
    size = itemsize(context.buffer(node.target.buffer).dtype)
    return spread(node.target.shape, context.threads.count, VECTOR_BYTES // size)


def _held(context: Context, node: Copy) -> Storage:
    """The registers for the fills of a buffer, which the kernel has from its start to its end."""
    name = f"%{node.channel}.{node.target.buffer}"
    if name not in context.storages:
        fragment = _fragment(context, node)
        buffer, label = context.buffer(node.target.buffer), f"{node.target.buffer}_held"
        flat = flat_buffer(
            context.writer.name(label), fragment.registers, buffer.dtype, 16, "local"
        )
        context.opening.append(tirx.AllocBuffer(flat))
        shape = node.target.shape
        context.storages[name] = Storage(
            name, "REGISTER", shape, buffer.dtype, ROW, flat, fragment=fragment
        )
    return context.storages[name]


def _writes(context: Context, channel: str) -> Mapping[Place, bool] | None:
    """Whether the last fill is in registers at each acquire and wait; None where it may differ."""
    known: dict[str, Mapping[Place, bool] | None] = context.state.in_registers
    if channel not in known:
        found = channels.ring(context, channel)
        fills = list(found.fills.values())
        names = {tuple(node.target.buffer for node in fill) for fill in fills}
        plain = len(names) == 1 and all(_simple(context, fill) for fill in fills)
        known[channel] = _followed(context, channel) if plain else None
    return known[channel]


def _simple(context: Context, fill: tuple[Copy, ...]) -> bool:
    """Whether each buffer of a fill is filled by one copy, as a whole."""
    names = [node.target.buffer for node in fill]
    return len(set(names)) == len(names) and all(
        node.target.is_plain and node.target.shape == context.buffer(node.target.buffer).shape
        for node in fill
    )


def _followed(context: Context, channel: str) -> Mapping[Place, bool] | None:
    """Run the program on its handshake alone: fills that were issued, and not waited for yet."""
    found: dict[Place, bool] = {}
    for run in runs(context):
        for place, still in _still(channel, run):
            if found.setdefault(place, still) != still:
                return None
    # Loops that turn as often as the caller's integers say may not have turned in any run.
    places = {
        (Acquire if isinstance(node, Commit) else Wait, channel, node.index)
        for node in nodes(context.state.body)
        if isinstance(node, Commit | Wait) and node.channel == channel
    }
    return found if places == found.keys() else None


def _still(channel: str, run: Iterator[Commit | Wait]) -> Iterator[tuple[Place, bool]]:
    under_way = 0
    for node in run:
        if node.channel != channel:
            continue
        if isinstance(node, Commit):
            yield (Acquire, channel, node.index), under_way > 0
            under_way += 1
        else:
            yield (Wait, channel, node.index), under_way == 1
            under_way -= 1
