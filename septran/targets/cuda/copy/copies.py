"""Copies through registers (`ld`, `st`), from any memory to any other."""

from __future__ import annotations

from dataclasses import replace

from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.conversions import begin, fetch, finish, invertible, scratch
from septran.targets.cuda.fragment.fragments import Fragment
from septran.targets.cuda.fragment.maps import emit_statement
from septran.targets.cuda.fragment.reductions import emit_reduction
from septran.targets.cuda.fragment.registers import declare_one, reachable
from septran.targets.cuda.gemm.masks import clear
from septran.targets.cuda.unsupported import unsupported
from septran.targets.lower.statements import Statement
from septran.tile.nodes import Buffer, Compute, Copy, Region


def emit_statements(context: Context, node: Compute | Copy) -> None:
    """The statements of a node, each in the layout that was inferred for it."""
    split, domains = context.state.splits[id(node)], context.state.domains
    if isinstance(node, Copy) and node.zero_fill:
        clear(context, node.source, range(node.source.rank))
    spare = {buffer.name: buffer for buffer in split.made}
    in_steps = isinstance(node, Compute) and node.primitive == "scan"
    for statement in split.statements:
        fragment = domains[id(statement)]
        if statement.function is not None:
            emit_reduction(context, statement, fragment)
        elif statement.target.buffer in spare:
            _emit_beside(context, statement, spare[statement.target.buffer], fragment)
        elif _reached(context, statement, fragment):
            emit_statement(context, statement, fragment)
        else:
            _emit_through_scratch(context, node, statement, fragment)
        if in_steps and _in_memory(context, statement) and statement is not split.statements[-1]:
            context.sync()  # other threads read in the next step what these have written


def _in_memory(context: Context, statement: Statement) -> bool:
    """Whether what is written is where other threads see it."""
    storage = context.storages.get(statement.target.buffer)
    return storage is not None and storage.memory != "REGISTER"


def _emit_beside(context: Context, statement: Statement, spare: Buffer, fragment: Fragment) -> None:
    """Compute what reads other elements than it writes: no thread writes before all have read."""
    declare_one(context, spare.name, spare.shape, spare.dtype, fragment)
    emit_statement(context, statement, fragment)
    context.sync()


def _reached(context: Context, statement: Statement, fragment: Fragment) -> bool:
    """Whether the threads that compute elements are those that hold them."""
    target = context.storages[statement.target.buffer]
    return target.memory != "REGISTER" or reachable(
        fragment, target, statement.target, statement.kept
    )


def _emit_through_scratch(
    context: Context, node: Compute | Copy, statement: Statement, fragment: Fragment
) -> None:
    """Compute into shared memory, from where the threads take what they hold."""
    region = statement.target
    # Each thread has to find the element of the region that a register of its own is.
    if not invertible(region):
        raise unsupported(
            node.origin,
            f"{region} in registers is written through an index map that is not a range",
            f"map {region.buffer} to SHARED",
        )
    target = context.storages[region.buffer]
    begin(context)
    room = scratch(context, "%out", region.shape, target.dtype)
    context.storages[room.name] = room
    whole = Region.whole(room.name, region.shape, statement.valid)
    out = Region(room.name, whole.index, whole.shape, whole.valid)
    # `keep`: operands that have to be staged, too, go behind the room that was just taken.
    emit_statement(context, replace(statement, target=out), fragment, keep=True)
    finish(context)
    fetch(context, room, target, replace(region, valid=statement.valid))
