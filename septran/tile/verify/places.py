"""Check that everything fits: memories, processors, engines, layouts, clusters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from septran.errors import TileError, nearest
from septran.ir.primitives import PRIMITIVES
from septran.machine.model import Machine, Memory
from septran.tile.analyses.clusters import in_step, same_for_all, shareable
from septran.tile.analyses.loops import walk
from septran.tile.analyses.scopes import Block
from septran.tile.contracts import converts, demanded_layout
from septran.tile.interpret.channel_state import located
from septran.tile.interpret.storage import CapacityError, size_bytes
from septran.tile.layouts import ROW
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    Role,
    TileProgram,
    nodes,
    regions,
)
from septran.tile.verify.bijection import LayoutError, asked_for, check_layout


class ProcessorError(TileError):
    """Processors do not nest as the machine's, or do not see a memory they use."""

    code = "SEP428"


class PlacementError(TileError):
    """Two buffers that live at one time lie on the same bytes."""

    code = "SEP434"


class EngineError(TileError):
    """A copy's engine does not serve the copy's memory edge, or its channel."""

    code = "SEP429"


class PrivateMemoryError(TileError):
    """A role and the body around it share a buffer of which each unit has its own instance."""

    code = "SEP438"


def check_places(program: TileProgram, top: Block) -> Iterator[TileError]:
    """Errors of capacity, nesting, visibility, engines, and layouts that instructions demand."""
    unknown = list(_processors(program))
    if unknown:  # whose place in the machine the rest asks for
        yield from unknown
        return
    problems = list(_layouts(program))
    # A buffer's size follows from its layout, so capacity is asked only where all layouts fit.
    yield from problems or _capacity(program, top)
    yield from _overlaps(program)
    yield from _nesting(program.machine, program.body, program.machine.host.name)
    yield from _private(program)
    buffers = {b.name: b for b in program.buffers}
    channels = {c.name: c for c in program.channels}
    for node in nodes(program.body):
        match node:
            case Copy():
                ends = buffers[node.source.buffer].memory, buffers[node.target.buffer].memory
                engine = channels[node.channel].engine if node.channel else node.engine
                yield from _engine(program.machine, node, ends, engine)
                yield from _conversion(program, node)
                yield from _visible(program.machine, node, node.processor, buffers)
            case Compute():
                yield from _visible(program.machine, node, node.processor, buffers)
                yield from _demands(program, node, buffers)


def _processors(program: TileProgram) -> Iterator[TileError]:
    machine = program.machine
    for node in nodes(program.body):
        name = getattr(node, "processor", None)
        try:
            machine.depth(name or machine.host.name)
        except KeyError:
            message = f"{machine.name} has no processor {name!r}"
            hint = nearest(str(name), {p.name for p in machine.processors})
            yield located(ProcessorError, message, node.origin, hint=hint)


def _layouts(program: TileProgram) -> Iterator[TileError]:
    for buffer in program.buffers:
        try:
            check_layout(buffer)
        except LayoutError as error:
            yield error


def _capacity(program: TileProgram, top: Block) -> Iterator[TileError]:
    for memory in program.machine.memories:
        # What exceeds a cache is slow, not wrong; `plan_memory` remarks on it.
        if memory.capacity_bytes is None or memory.cached:
            continue
        needed, live = _peak(program, top, memory.name)
        limit = memory.capacity_bytes * spread(program, memory)
        if needed > limit:
            rows = [f"{name}: {size:,} bytes" for name, size in live]
            message = f"{memory.name} needs {needed:,} bytes and has {limit:,}: {', '.join(rows)}"
            first = program.buffer(live[0][0])
            yield located(CapacityError, message, first.origin)


def _peak(program: TileProgram, top: Block, memory: str) -> tuple[int, list[tuple[str, int]]]:
    """Return the bytes that a memory must have, and the buffers in it then, largest first."""
    placed = [p for p in program.plan if p.memory == memory]
    if placed:
        # A memory is fullest where some buffer begins: in between, buffers only end.
        peaks = [[q for q in placed if q.first <= p.first <= q.last] for p in placed]
        fullest = max(peaks, key=lambda live: max(q.offset_bytes + q.size_bytes for q in live))
        needed = max(p.offset_bytes + p.size_bytes for p in placed)
        rows = [(p.buffer, p.size_bytes) for p in fullest]
    else:
        sizes = {b.name: size_bytes(b) for b in program.buffers if b.memory == memory}
        rows = _fullest(top, sizes)
        needed = sum(size for _, size in rows)
    return needed, sorted(rows, key=lambda row: (-row[1], row[0]))


def _overlaps(program: TileProgram) -> Iterator[TileError]:
    for a, b in itertools.combinations(program.plan, 2):
        apart = a.memory != b.memory or a.last < b.first or b.last < a.first
        ends = a.offset_bytes + a.size_bytes, b.offset_bytes + b.size_bytes
        if apart or ends[0] <= b.offset_bytes or ends[1] <= a.offset_bytes:
            continue
        message = (
            f"{a.buffer} at {a.offset_bytes} and {b.buffer} at {b.offset_bytes} "
            f"share bytes of {a.memory} while both are in use"
        )
        yield located(PlacementError, message, program.buffer(a.buffer).origin)


def _fullest(block: Block, sizes: dict[str, int]) -> list[tuple[str, int]]:
    """Return the buffers of a body and of the inner bodies that need most at one time."""
    best: list[tuple[str, int]] = []
    for step in block.steps:
        inner = [row for b in step.inner if b is not None for row in _fullest(b, sizes)]
        if sum(size for _, size in inner) > sum(size for _, size in best):
            best = inner
    return [(name, sizes[name]) for name in block.buffers if name in sizes] + best


def spread(program: TileProgram, memory: Memory) -> int:
    """Return the number of instances of a memory over which a buffer in it is spread.

    A block's accumulators are in the registers of all its threads together.
    """
    machine = program.machine
    users = [
        node.processor
        for node in nodes(program.body)
        if isinstance(node, Copy | Compute)
        and any(program.buffer(r.buffer).memory == memory.name for r in regions(node))
    ]
    if not users:
        return 1
    # The host (depth 0) is not a level over whose units buffers are spread.
    outermost = max(1, min(map(machine.depth, users)))
    owner = machine.depth(memory.visible_to)
    inside = math.prod(p.count for p in machine.processors[outermost + 1 : owner + 1])
    return inside * (_sharing(program, memory) if owner >= outermost > 1 else 1)


def _sharing(program: TileProgram, memory: Memory) -> int:
    """The number of parallel roles with their own instances: consumers share a tile's rows."""
    names = {b.name for b in program.buffers if b.memory == memory.name}

    def most(body: tuple[Node, ...]) -> int:
        # Roles side by side run at one time, so they add up; of several loops the greatest counts.
        roles = [n for n in body if isinstance(n, Role)]
        using = sum(
            n.count
            for n in roles
            if any(r.buffer in names for m in nodes(n.body) for r in regions(m))
        )
        inner = [most(n.body) for n in body if isinstance(n, For)]
        return max([using, *inner], default=0)

    return max(1, most(program.body))


def _nesting(machine: Machine, body: tuple[Node, ...], around: str) -> Iterator[TileError]:
    for node in body:
        inner = getattr(node, "processor", None) or around
        depth = machine.depth(inner)
        if depth < machine.depth(around):
            message = f"{type(node).__name__} for {inner} is inside of what {around} runs"
            yield located(ProcessorError, message, node.origin)
        if isinstance(node, For | Role):
            yield from _nesting(machine, node.body, inner if depth else around)


def _private(program: TileProgram) -> Iterator[TileError]:
    """Yield an error where a buffer is private to a role's inner units, and used around the role.

    An accumulator in the registers of all of a block's threads is not its consumers' own.
    """
    machine, around, reported = program.machine, _outside(program.body), set[str]()
    for role in (n for n in nodes(program.body) if isinstance(n, Role)):
        for node in nodes(role.body):
            for name in (r.buffer for r in regions(node)):
                memory = machine.memory(program.buffer(name).memory)
                inside = machine.depth(memory.visible_to) > machine.depth(role.processor)
                if not inside or memory.cached or name in reported or name not in around:
                    continue
                reported.add(name)
                message = (
                    f"{name} is in {memory.name}, which each {memory.visible_to} has of its own, "
                    f"but both the {role.name} and the body around it use it"
                )
                other = around[name].origin.logic or around[name].origin.mapping
                notes = [("the body around it", other)] if other else []
                yield located(PrivateMemoryError, message, node.origin, notes=notes)


def _outside(body: tuple[Node, ...]) -> dict[str, Node]:
    """Return the first node outside of roles that uses each buffer."""
    found: dict[str, Node] = {}
    for node in body:
        if isinstance(node, For):
            found = _outside(node.body) | found
        elif not isinstance(node, Role):
            found = {r.buffer: node for r in regions(node)} | found
    return found


def _visible(
    machine: Machine, node: Node, processor: str, buffers: dict[str, Buffer]
) -> Iterator[TileError]:
    """An error for a memory that the host does not see; other levels see their units' memories."""
    for name in dict.fromkeys(r.buffer for r in regions(node)):
        memory = machine.memory(buffers[name].memory)
        if memory.cached or machine.sees(processor, memory.name) or machine.depth(processor) > 0:
            continue
        message = f"{processor} does not see {memory.name}, where {name} is"
        hint = f"{memory.name} is visible to {memory.visible_to}"
        yield located(ProcessorError, message, node.origin, hint=hint)


def _conversion(program: TileProgram, node: Copy) -> Iterator[TileError]:
    """Yield an error where a copy changes the layout and its engine cannot."""
    try:
        possible = converts(program, node)
    except KeyError:
        return  # an unknown engine is reported already
    if not possible:
        ends = [program.buffer(r.buffer) for r in (node.source, node.target)]
        source, target = (f"{b.name} ({b.layout})" for b in ends)
        message = f"{node.engine} cannot change the layout from {source} to {target}"
        hint = f"{node.engine} writes {', '.join(program.machine.engine(node.engine).layouts)}"
        more = asked_for(node.origin, *ends)
        yield located(LayoutError, message, node.origin, hint=hint, **more)


def _engine(
    machine: Machine, node: Copy, ends: tuple[str, str], channel: str
) -> Iterator[TileError]:
    edge = " to ".join(ends)
    try:
        engine = machine.engine(node.engine)
    except KeyError:
        message = f"{machine.name} has no engine {node.engine!r}"
        yield located(EngineError, message, node.origin)
        return
    if ends not in engine.moves:
        fit = ", ".join(e.name for e in machine.engines_for(*ends)) or "none"
        message = f"{node.engine} does not move from {edge}"
        yield located(EngineError, message, node.origin, hint=f"engines that do: {fit}")
    if node.channel is None:
        return
    if not engine.asynchronous:
        message = f"{node.engine} is synchronous, but its copy is waited for on {node.channel}"
        yield located(EngineError, message, node.origin)
    if channel != node.engine:
        message = f"{node.channel} is a channel of {channel}, not of {node.engine}"
        yield located(EngineError, message, node.origin)


def _demands(
    program: TileProgram, node: Compute, buffers: dict[str, Buffer]
) -> Iterator[TileError]:
    """Yield violations of an instruction's contract on its operands' memories and layouts."""
    try:
        instruction = program.machine.instruction(node.instruction)
    except KeyError:
        return  # a generic lowering of the target
    contract = PRIMITIVES.get(node.primitive)
    if contract is None or len(contract.operands) != len(node.operands):
        return
    for name, region in zip(contract.operands, node.operands, strict=True):
        buffer = buffers[region.buffer]
        allowed = instruction.operands.get(name)
        if allowed and buffer.memory not in {program.machine.memory(m).name for m in allowed}:
            message = (
                f"{instruction.name} takes {name} from {' or '.join(allowed)}, "
                f"but {buffer.name} is in {buffer.memory}"
            )
            yield located(EngineError, message, node.origin)
        wanted = demanded_layout(instruction, name, region, buffer)
        if wanted is None or buffer.name in program.params or buffer.layout == wanted:
            continue
        # Another kind that the mapping asks for is the emitter's to take or to refuse.
        chosen = buffer.asked is not None and buffer.layout != ROW
        if not chosen or buffer.layout.kind == wanted.kind:
            message = f"{instruction.name} reads {buffer.name} as {wanted}, not {buffer.layout}"
            yield located(LayoutError, message, node.origin, **asked_for(node.origin, buffer))


class ClusterError(TileError):
    """A cluster has no fixed number of blocks, or its blocks share a copy that differs by block."""

    code = "SEP435"


def check_clusters(program: TileProgram) -> Iterator[TileError]:
    """Check loops over the blocks of a cluster, and the copies that they make together."""
    for node, loops in walk(program.body):
        if isinstance(node, For) and node.cluster:
            if node.kind != "parallel" or not node.extent.is_constant:
                message = f"the loop over {node.variable} is a cluster of no fixed number of blocks"
                yield located(ClusterError, message, node.origin)
        elif isinstance(node, For) and node.processor is not None:
            if any(n.cluster and n.processor == node.processor for n in loops):
                message = f"the loop over {node.variable} is inside of a cluster of the same level"
                yield located(ClusterError, message, node.origin)
        elif isinstance(node, Copy) and node.multicast:
            why = _refusal(program, node, loops)
            if why is not None:
                yield located(ClusterError, f"{node.target} is multicast, but {why}", node.origin)


def _refusal(program: TileProgram, copy: Copy, loops: tuple[For, ...]) -> str | None:
    """Return why blocks cannot make a copy together; None where they can."""
    if copy.channel is None or not shareable(program, copy):
        return f"{copy.engine} cannot send it to several blocks"
    for variable, extent in copy.multicast:
        at = next((n for n, x in enumerate(loops) if x.variable == variable and x.cluster), None)
        if at is None or loops[at].extent.as_int() != extent:
            return f"{variable} is no loop over {extent} blocks of a cluster around it"
        if not same_for_all(copy, loops[at + 1 :], variable):
            return f"it is not the same for all blocks along {variable}"
        if not in_step(program, copy.channel, variable):
            return f"blocks along {variable} do not fill {copy.channel} equally often"
    return None
