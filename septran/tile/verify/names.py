"""Check that a tile program only uses names that it declares, and gives each node an origin."""

from __future__ import annotations

from collections.abc import Iterator

from septran.errors import TileError, nearest
from septran.ir.index import Var, is_axis
from septran.ir.primitives import PRIMITIVES
from septran.tile.analyses.loops import walk
from septran.tile.interpret.channel_state import located
from septran.tile.nodes import (
    Acquire,
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
    reads,
    regions,
    tables,
    writes,
)
from septran.tile.substitution import FIRST


class UnknownNodeNameError(TileError):
    """A node names a buffer, channel, loop index or primitive that there is not."""

    code = "SEP425"
    of_passes = True


class MissingOriginError(TileError):
    """A node does not say where it comes from and by which rule."""

    code = "SEP426"
    of_passes = True


class UnwrittenBufferError(TileError):
    """A buffer is read before anything is written to it."""

    code = "SEP427"


def check_names(program: TileProgram) -> Iterator[TileError]:
    """Yield unknown names, missing origins, and reads of buffers that nobody wrote."""
    buffers = {b.name for b in program.buffers}
    known = {"buffer": buffers, "channel": {c.name for c in program.channels}}
    known["primitive"] = {*PRIMITIVES, "map"}
    for name in program.params:
        if name not in buffers:
            yield UnknownNodeNameError(f"parameter {name!r} has no buffer")
    if len(buffers) != len(program.buffers):
        yield UnknownNodeNameError("two buffers have one name")
    for node, loops in walk(program.body):
        if not node.origin.rule or node.origin.logic is node.origin.mapping is None:
            yield located(MissingOriginError, f"{_kind(node)} has no origin", node.origin)
        for kind, name in dict.fromkeys(_names(node)):
            if name not in known[kind]:
                yield _unknown(kind, name, known[kind], node)
        yield from _indices(node, {loop.variable for loop in loops})
    yield from _unwritten(program)


def _names(node: Node) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of each thing that a node uses."""
    for region in regions(node):
        yield "buffer", region.buffer
    for name in tables(node):
        yield "buffer", name
    match node:
        case Copy(channel=str(name)):
            yield "channel", name
        case Acquire() | Commit() | Wait() | Release():
            yield "channel", node.channel
        case Compute(meaning=None):
            yield "primitive", node.primitive


def _kind(node: Node) -> str:
    return type(node).__name__


def _indices(node: Node, known: set[Var]) -> Iterator[TileError]:
    used: set[Var] = set()
    for region in regions(node):
        for entry in (*region.index, *region.valid, region.stage):
            used |= {v for v in entry.variables() if not is_axis(v)}
    match node:
        case Acquire() | Commit() | Wait() | Release():
            used |= node.index.variables()
        case For():
            used |= node.extent.variables()
            if node.variable in known:
                message = f"loop index {node.variable} is that of an outer loop, too"
                yield located(UnknownNodeNameError, message, node.origin)
    for variable in sorted(used - known, key=str):
        yield _unknown("loop index", str(variable), set(map(str, known)), node)


def _unknown(kind: str, name: str, known: set[str], node: Node) -> TileError:
    message = f"{_kind(node)} names {kind} {name!r}, which there is not"
    return located(UnknownNodeNameError, message, node.origin, hint=nearest(name, known))


def _unwritten(program: TileProgram) -> Iterator[TileError]:
    """Yield reads before any write, except of what roles exchange, and unwritten outputs."""
    declared = {b.name for b in program.buffers} - set(program.params)
    # Roles run beside each other: program order says nothing of what one writes for another.
    written = _exchanged(program)
    for node in nodes(program.body):
        fresh = ({r.buffer for r in reads(node)} & declared) - written
        chosen_by = (declared & set(tables(node))) - written
        for name in sorted(chosen_by):
            message = (
                f"{name} holds indices or counts, and is read before anything is written to it"
            )
            yield located(UnwrittenBufferError, message, node.origin)
        written |= chosen_by  # so that each buffer is reported once
        fresh -= chosen_by
        if isinstance(node, Copy) and node.target.buffer in declared:
            if not fresh:  # to move what is undefined makes nothing of it
                written.add(node.target.buffer)
            continue
        if isinstance(node, Compute) and FIRST in dict(node.attributes):
            # A product that overwrites in its first step needs nothing in its target before.
            fresh -= {node.operands[0].buffer}
        for name in sorted(fresh):
            message = f"{name} is read before anything is written to it"
            yield located(UnwrittenBufferError, message, node.origin)
        written |= {r.buffer for r in writes(node)} | fresh
    for buffer in program.buffers:
        if buffer.name in program.outputs and buffer.name not in written and 0 not in buffer.shape:
            message = f"nothing is ever written to the output {buffer.name}"
            yield located(UnwrittenBufferError, message, buffer.origin)


def _exchanged(program: TileProgram) -> set[str]:
    """Return buffers that one role writes and another one touches."""
    writers: dict[str, set[int]] = {}
    users: dict[str, set[int]] = {}
    for number, role in enumerate(n for n in nodes(program.body) if isinstance(n, Role)):
        for node in nodes(role.body):
            for name in (*(r.buffer for r in regions(node)), *tables(node)):
                users.setdefault(name, set()).add(number)
            for region in writes(node):
                writers.setdefault(region.buffer, set()).add(number)
    return {name for name in writers if len(users[name]) > 1}
