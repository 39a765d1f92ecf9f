"""Memory planning: the place of each buffer, by live ranges, and the capacity."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

from septran.errors import CapacityRefusal, TileError, raise_all
from septran.machine.model import Memory
from septran.task.tree import TunableValue
from septran.tile.analyses.barriers import barriers
from septran.tile.analyses.liveness import Life, liveness
from septran.tile.analyses.temporaries import kept_for_temporaries
from septran.tile.interpret.storage import size_bytes
from septran.tile.nodes import Buffer, Remark, TileProgram
from septran.tile.records import Placement
from septran.tile.verify.places import spread

NAME = "plan_memory"


class OverCapacityError(CapacityRefusal, TileError):
    """The buffers that must be in a memory at one time do not fit in it."""

    code = "SEP403"


def plan_memory(program: TileProgram) -> TileProgram:
    """Give every buffer an offset in its memory; buffers that never meet share bytes."""
    plan = placements(program)
    errors: list[TileError] = []
    remarks: list[Remark] = []
    for memory in program.machine.memories:
        limit = capacity(program, memory)
        needed = peak(plan, memory.name)
        if limit is None or needed <= limit:
            continue
        kept = kept_for_temporaries(program, memory)
        beside = f" ({kept:,} are kept for temporaries)" if kept else ""
        message = (
            f"{memory.name} needs {needed:,} bytes of {limit:,}{beside}: "
            f"{table(program, plan, memory)}"
        )
        largest = program.buffer(_fullest(plan, memory.name)[0].buffer)
        where = (largest.origin.mapping or largest.origin.logic) if largest.origin else None
        if memory.cached:
            hint = "smaller tiles would stay in it"
            remarks.append(Remark("missed", largest.name, message, hint, where, NAME))
        else:
            error = OverCapacityError(message, where, hint=_hint(program, largest, needed - limit))
            errors.append(error.of(memory.name, needed, limit))
    raise_all(errors)
    twins = _twins(plan)
    if twins:  # the barriers move what comes behind them, but nothing to another place
        program = replace(program, body=barriers(program, program.body, twins))
        plan = placements(program)
    return replace(program, plan=plan).remark(*remarks)


def _twins(plan: Iterable[Placement]) -> dict[str, frozenset[str]]:
    """Return, for each buffer, those that share bytes with it."""
    found: dict[str, set[str]] = {}
    for a, b in itertools.permutations(plan, 2):
        first = max(a.offset_bytes, b.offset_bytes)
        last = min(a.offset_bytes + a.size_bytes, b.offset_bytes + b.size_bytes)
        if a.memory == b.memory and first < last:
            found.setdefault(a.buffer, set()).add(b.buffer)
    return {name: frozenset(others) for name, others in found.items()}


def _hint(program: TileProgram, largest: Buffer, excess: int) -> str:
    held = bytes_of(program, largest)
    fitting = [
        f"`{name}: {value}`"
        for request in program.requests
        for name, now in request.tunables
        if now in largest.shape and (value := _smaller(now, held, excess))
    ]
    if fitting:
        listed = " or ".join(dict.fromkeys(fitting))
        return f"{listed} would fit, if it sets the shape of {largest.name}"
    if largest.stages > 1:
        return f"lower `pipeline`, or the tunables that set the shape of {largest.name}"
    return f"lower the tunables that set the shape of {largest.name}, or map it to another memory"


def _smaller(value: TunableValue, held: int, excess: int) -> int:
    """Return the half, quarter, ... of an extent of a buffer that leaves `excess` bytes, or 0."""
    part = int(value) // 2 if isinstance(value, int) else 0
    while part and held - held * part // int(value) < excess:
        part //= 2
    return part


def capacity(program: TileProgram, memory: Memory) -> int | None:
    """Return the bytes that one unit's buffers may take of a memory; None when unbounded.

    A block's accumulators are in the registers of all its threads together. In the memory of
    vector expressions' temporaries, a share is reserved for these.
    """
    if memory.capacity_bytes is None:
        return None
    whole = memory.capacity_bytes * spread(program, memory)
    return whole - kept_for_temporaries(program, memory)


def placements(program: TileProgram) -> tuple[Placement, ...]:
    """Return a place for each buffer: first fit, largest first; no two live ones share a byte.

    First fit is not optimal, as memory allocation of intervals is NP-hard (Garey and Johnson,
    1979, SR2).
    """
    lives = {life.buffer: life for life in liveness(program)}
    held = [
        b for b in program.buffers if b.name in lives and _one_instance(program, b, lives[b.name])
    ]
    placed: dict[str, Placement] = {}
    # The sort is stable, so equal programs get equal plans: equals stay in the program's order.
    for buffer in sorted(held, key=lambda b: -bytes_of(program, b)):  # of one size, as made
        life = lives[buffer.name]
        around = [
            p for p in placed.values() if p.memory == buffer.memory and life.meets(lives[p.buffer])
        ]
        size = bytes_of(program, buffer)
        alignment = program.machine.memory(buffer.memory).alignment
        offset = _first_gap(around, size, alignment)
        placed[buffer.name] = Placement(
            buffer.name, buffer.memory, offset, size, life.first, life.last
        )
    return tuple(placed[b.name] for b in program.buffers if b.name in placed)


def bytes_of(program: TileProgram, buffer: Buffer) -> int:
    """Return the bytes of all stages of a buffer, each starting at the memory's alignment."""
    stage = size_bytes(replace(buffer, stages=1))
    if buffer.stages == 1:
        return stage
    return _aligned(stage, program.machine.memory(buffer.memory).alignment) * buffer.stages


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _first_gap(around: Iterable[Placement], size: int, alignment: int) -> int:
    offset = 0
    for other in sorted(around, key=lambda p: p.offset_bytes):
        if offset + size <= other.offset_bytes:
            break
        offset = max(offset, _aligned(other.offset_bytes + other.size_bytes, alignment))
    return offset


def peak(plan: Iterable[Placement], memory: str) -> int:
    """Return the bytes from the start of a memory to the end of its last buffer."""
    return max((p.offset_bytes + p.size_bytes for p in plan if p.memory == memory), default=0)


def _fullest(plan: Iterable[Placement], memory: str) -> list[Placement]:
    """Return the buffers in a memory when it is fullest, largest first."""
    mine = [p for p in plan if p.memory == memory]
    moments = [[q for q in mine if q.first <= p.first <= q.last] for p in mine]
    fullest = max(moments, key=lambda live: sum(q.size_bytes for q in live))
    return sorted(fullest, key=lambda p: (-p.size_bytes, p.buffer))


def table(program: TileProgram, plan: Iterable[Placement], memory: Memory) -> str:
    """Return the buffers that fill a memory: ``As 196,608 = 2 stages x 98,304, Cs 65,536``."""
    rows: list[str] = []
    for place in _fullest(plan, memory.name):
        stages = program.buffer(place.buffer).stages
        parts = f" = {stages} stages x {place.size_bytes // stages:,}" if stages > 1 else ""
        rows.append(f"{place.buffer} {place.size_bytes:,}{parts}")
    return ", ".join(rows)


def _one_instance(program: TileProgram, buffer: Buffer, life: Life) -> bool:
    """Return whether a buffer's memory belongs to the unit that uses it.

    A buffer of which each core has an instance in a memory that all cores share is the target's to
    allocate.
    """
    depth, memory = program.machine.depth, program.machine.memory(buffer.memory)
    return all(depth(memory.visible_to) >= depth(level) for level in life.spread)
