"""The number of stages that fit, and the remark where the mapping asks for more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from septran.machine.model import Machine, Memory
from septran.mapping.keys import PIPELINE, WARPSPECIALIZE, Key
from septran.tile.nodes import Copy, For, Node, Remark, TileProgram, nodes
from septran.tile.passes.layout.plan_memory import bytes_of, capacity, peak, placements, table
from septran.tile.records import LoopSchedule

NAME = "pipeline_loops"


@dataclass(frozen=True)
class StagedCopies:
    """Copies of one loop that share a channel, with the stages that they were given."""

    loop: For
    """The loop before pipelining."""
    buffers: tuple[str, ...]
    load: bool
    stages: int
    asked: int
    step: int
    """The elements by which a copy advances in an iteration; 0 when unclear."""


@dataclass(frozen=True)
class Excess:
    """A memory that is too small for its buffers."""

    memory: Memory
    needed: int
    limit: int
    what: str
    """The sum of the needed bytes, buffer by buffer."""


def excess(program: TileProgram) -> Excess | None:
    """Return the first memory of a finished program that does not hold its buffers, if any."""
    plan = placements(program)
    for memory in program.machine.memories:
        limit = capacity(program, memory)
        needed = peak(plan, memory.name)
        if limit is not None and not memory.cached and needed > limit:
            return Excess(memory, needed, limit, table(program, plan, memory))
    return None


def deepest(
    program: TileProgram, rings: Iterable[StagedCopies], memory: Memory
) -> StagedCopies | None:
    """Return the ring to take a stage from: the one with most, stores first."""
    inside = [r for r in rings if any(program.buffer(b).memory == memory.name for b in r.buffers)]
    return max(inside, key=lambda r: (r.stages, not r.load), default=None)


def lowered(program: TileProgram, ring: StagedCopies, over: Excess, stages: int) -> Remark:
    """Return a remark why a ring has fewer stages than the mapping asks, and what would help."""
    why = f"{over.memory.name} would need {over.needed:,} bytes of {over.limit:,} ({over.what})"
    request = program.request(ring.loop.origin.task)
    if ring.load:
        message = f"pipeline {ring.asked} lowered to {stages}: {why}"
    else:
        held = " and ".join(ring.buffers)
        message = f"{held} has no second stage, so each {ring.loop.variable} waits for it to leave"
        message += f": {why}"
    hint = _hint(program, ring, over, request)
    return Remark("missed", request.task, message, hint, request.where(PIPELINE), NAME)


def _hint(
    program: TileProgram, ring: StagedCopies, over: Excess, request: LoopSchedule
) -> str | None:
    """Return the half, quarter, ... of the step at which all stages would fit."""
    staged = (replace(program.buffer(b), stages=ring.stages) for b in ring.buffers)
    held = sum(bytes_of(program, b) for b in staged)
    # A step half as long makes tiles, and so a ring, of half the bytes.
    step, part = ring.step // 2, held // 2
    while step > 0:
        if over.needed - held + part <= over.limit:
            return f"`{_tunable(program, ring, request)}: {step}` would fit"
        step, part = step // 2, part // 2
    return "smaller tiles of what else is in it would leave room"


def _tunable(program: TileProgram, ring: StagedCopies, request: LoopSchedule) -> str:
    """Return the tunable that sets the step, if its value identifies it; else the loop index."""
    others = (r for r in program.requests if r.task != request.task)
    for candidate in (request, *others):
        names = [name for name, value in candidate.tunables if value == ring.step]
        if names:
            return next((n for n in names if n[-1:].upper() == "K"), names[0])
    return f"step along {ring.loop.variable}"


def ineffective(
    program: TileProgram, rings: Sequence[StagedCopies], body: tuple[Node, ...]
) -> list[Remark]:
    """Return a remark for each request for pipelining or roles that changes nothing."""
    served = {r.loop.origin.task for r in rings}
    loops = [n for n in nodes(body) if isinstance(n, For)]
    split = {n.origin.task for n in loops if n.specialize}
    around = {n.origin.task for n in loops if any(_is_split(m) for m in nodes(n.body))}
    copies = _asynchronous(program)
    remarks: list[Remark] = []

    def say(request: LoopSchedule, key: Key[Any], why: str) -> None:
        message = f"`{key.path}` has no effect: {why}"
        remarks.append(Remark("no-effect", request.task, message, None, request.where(key), NAME))

    for request in program.requests:
        why = _not_ahead(program.machine, request.task, copies)
        if request.get(PIPELINE) > 1 and request.task not in served:
            say(request, PIPELINE, why)
        if request.get(WARPSPECIALIZE) and request.task not in split:
            if request.task in around:
                why = "a loop inside of it has roles of its own"
            elif request.task in served:
                why = f"no units of {program.machine.name} could take roles there"
            elif request.get(PIPELINE) <= 1 and copies.get(request.task):
                why = "it takes `pipeline: 2` or more"
            say(request, WARPSPECIALIZE, why)
    return remarks


def _not_ahead(machine: Machine, task: str, copies: Mapping[str, int]) -> str:
    """Return why no copy of a task runs ahead of its reader."""
    if not any(e.asynchronous for e in machine.engines):
        return f"{machine.name} copies synchronously"
    if not copies.get(task):
        return f"no loop of {task} copies by an asynchronous engine"
    return f"no copy in a loop of {task} can go ahead"


def _is_split(node: Node) -> bool:
    return isinstance(node, For) and node.specialize


def _asynchronous(program: TileProgram) -> Mapping[str, int]:
    """Return the number of copies by asynchronous engines directly in the loops of each task."""
    counts: dict[str, int] = {}
    for loop in nodes(program.body):
        if isinstance(loop, For):
            found = [
                n
                for n in loop.body
                if isinstance(n, Copy) and program.machine.engine(n.engine).asynchronous
            ]
            counts[loop.origin.task] = counts.get(loop.origin.task, 0) + len(found)
    return counts
