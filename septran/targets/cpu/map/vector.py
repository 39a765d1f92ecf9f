"""``map``, ``fill`` and ``copy`` on tiles: loops over vectors, neighbours fused row by row.

Statements of one leaf that depend on each other only within a row are done together, a
row at a time, so that the row stays in L1; within a row, those that depend on each other
only within a column share one loop over vectors. A temporary that nobody else uses
shrinks to a row, or to one element, which LLVM keeps in a register; one that only hands
vectors on within a loop is not stored at all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from septran.dtypes import compute_dtype, itemsize
from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.cpu.addresses import Access, Storage
from septran.targets.cpu.context import Context
from septran.targets.cpu.copy.copies import emit_copy, turns
from septran.targets.cpu.map.columns import emit_row, passing, row_loops
from septran.targets.cpu.map.elements import held_dtype
from septran.targets.cpu.map.narrowing import narrowed
from septran.targets.cpu.map.row_pipeline import (
    RowStage,
    emit_steps,
    rows_kept,
    stages_of,
    worthwhile,
)
from septran.targets.cpu.map.scans import emit_scan
from septran.targets.cpu.map.statements import RowRange, independent, recomputed
from septran.targets.cpu.map.windows import written_out
from septran.targets.cpu.simd import fence
from septran.targets.cpu.writer import LARGEST_ON_STACK
from septran.targets.lower.statements import Statement, regions_of, statements, value_of
from septran.tile.layouts import ROW
from septran.tile.nodes import Buffer, Compute, Copy, Region

Kept = Mapping[str, Mapping[int, int]]
"""For each buffer the axes of which it holds fewer elements than it has, and how many: an element
lies where its coordinate's remainder is."""
Part = tuple[list[Statement], "dict[str, int] | None"]
"""Statements in one loop over rows, with each buffer's axis along them; None: inner ones."""


def emit_maps(context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]) -> None:
    """Do the nodes in order; `private` buffers are used by no other node."""
    if nodes[0].primitive == "scan":
        emit_scan(context, nodes[0])
        return
    if len(nodes) == 1 and not private and (move := _move(nodes[0])) and turns(context, move):
        emit_copy(context, move)
        return
    mine = {b.name: b.dtype for b in private}
    nodes = [replace(n, expression=n.expression and written_out(n.expression)) for n in nodes]
    found, made = statements(nodes, lambda name: mine.get(name) or context.storages[name].dtype)
    own = {b.name: b for b in (*private, *made)}
    run, own = narrowed(recomputed(found, own), own, context.indices.ranges)
    fusion = _Fusion(context, own, _passing(run, own))
    fusion.level(run, 0, (), fusion.start())


def _move(node: Compute) -> Copy | None:
    """What a computation copies, where it does nothing else; it may still convert."""
    value, target = value_of(node), node.operands[0]
    if not isinstance(value, ex.Load) or not isinstance(value.view, Region):
        return None
    source = value.view
    alike = (source.shape, source.valid) == (target.shape, target.valid)
    if not alike or source.buffer == target.buffer or node.primitive == "accumulate":
        return None
    return Copy(target, source, "", node.processor, node.origin)


@dataclass
class _Fusion:
    context: Context
    private: dict[str, Buffer]
    passed: Collection[str]
    """Private buffers that are never stored."""
    storages: dict[str, Storage] = field(default_factory=dict)
    """Storage of the private buffers that have been allocated so far."""

    def start(self) -> Kept:
        """Return the guards that are decided before the first loop."""
        names = sorted(self.passed)
        gone = {n: dict.fromkeys(range(len(self.private[n].shape)), 1) for n in names}
        self._allocate(list(gone), gone)
        return gone

    def level(
        self,
        run: list[Statement],
        depth: int,
        at: tuple[Index, ...],
        shrunk: Kept,
    ) -> None:
        """Do `run` for the elements whose first `depth` coordinates are `at`."""
        parts = _parts(run, depth)
        homes = self._homes(parts)
        # What several parts use has to outlive each of them.
        self._allocate([n for n, home in homes.items() if home is None], shrunk)
        for number, (part, axes) in enumerate(parts):
            mine = [n for n, home in homes.items() if home == number]
            if axes is None:
                self._allocate(mine, shrunk)
                loops = row_loops(part, depth)
                emit_row(self.context, loops, at, self._accesses(part, shrunk), self.passed)
                continue
            deeper, extent = dict(shrunk), part[0].target.valid[depth]
            spread = not depth and self._worth(part)
            stages = () if spread else self._stages(part, depth + 1, extent)
            for name in mine:
                kept = {axes[name]: rows_kept(stages, name)} if name in axes else {}
                deeper[name] = {**shrunk.get(name, {}), **kept}
            if stages:
                self._allocate(mine, deeper)
                accesses = self._accesses(part, deeper)
                emit_steps(self.context, stages, at, extent, accesses, self.passed)
                continue
            if not spread:
                # One call of the runtime before the loop, not one for each row; iterations that run
                # at once each need their own.
                self._allocate([n for n in mine if not self._on_stack(n, deeper)], deeper)
            with self.context.loop("row", extent, spread) as row:
                self.level(part, depth + 1, (*at, row), deeper)
                if spread and any(self._streamed(s.target) for s in part):
                    fence(self.context.writer, self.context.unit)  # on each of the cores

    def _stages(self, part: list[Statement], depth: int, rows: Index) -> tuple[RowStage, ...]:
        """The loops of a row, where those of several rows are worth doing beside each other."""
        inner = _parts(part, depth)
        if len(inner) > 1 or inner[0][1] is not None:
            return ()
        most = self.context.indices.bounds(rows)[1]
        stages = stages_of(row_loops(part, depth), depth, most)
        return worthwhile(self.context, stages, depth)

    def _homes(self, parts: list[Part]) -> dict[str, int | None]:
        """For each private buffer without storage, the only part that uses it, or None."""
        homes: dict[str, int | None] = {}
        for number, (part, _) in enumerate(parts):
            for name in {r.buffer for s in part for r in regions_of(s)}:
                if name in self.private and name not in self.storages:
                    homes[name] = number if homes.get(name, number) == number else None
        return dict(sorted(homes.items()))

    def _allocate(self, names: list[str], shrunk: Kept) -> None:
        for name in names:
            shape, dtype, room = self._room(name, shrunk)
            held = held_dtype(dtype)
            flat = self.context.writer.scratch(name.replace("%", "reduced_"), room, held)
            self.storages[name] = Storage(name, shape, dtype, ROW, flat, held, owned=True)

    def _room(self, name: str, shrunk: Kept) -> tuple[tuple[int, ...], str, int]:
        """Return what a buffer shrinks to: its shape, element type and number of elements."""
        buffer = self.private[name]
        shape = shrink(buffer.shape, shrunk.get(name, {}))
        dtype = compute_dtype(buffer.dtype) if name.startswith("%") else buffer.dtype
        # A register's vector may go past the end: 64 lanes has the longest, of bytes in AVX-512.
        return shape, dtype, math.prod(shape) + (0 if math.prod(shape) == 1 else 64)

    def _on_stack(self, name: str, shrunk: Kept) -> bool:
        """Whether room for a buffer costs nothing; larger ones are a call of the runtime."""
        _, dtype, room = self._room(name, shrunk)
        return room * itemsize(held_dtype(dtype)) < LARGEST_ON_STACK

    def _accesses(self, run: list[Statement], shrunk: Kept) -> dict[Region, Access]:
        every = {r for s in run for r in regions_of(s)}
        return {r: self._access(r, shrunk) for r in sorted(every, key=str)}

    def _access(self, region: Region, shrunk: Kept) -> Access:
        """The region in its buffer, or in what its buffer shrank to."""
        if region.buffer not in self.storages:
            return self.context.access(region)
        kept = shrunk.get(region.buffer, {})
        index = tuple(e % kept[n] if n in kept else e for n, e in enumerate(region.index))
        storage = self.storages[region.buffer]
        return Access.of(storage, replace(region, index=index), self.context.indices.ranges)

    def _streamed(self, target: Region) -> bool:
        storage = self.context.storages.get(target.buffer)
        return storage is not None and storage.streamed

    def _worth(self, part: list[Statement]) -> bool:
        return self.context.spreads(max(math.prod(s.value.shape) for s in part))


def _passing(run: list[Statement], private: Collection[str], depth: int = 0) -> set[str]:
    """The buffers of which each vector goes from statement to statement of one inner loop."""
    found: set[str] = set()
    for part, axes in _parts(run, depth):
        inside = {id(s) for s in part}
        elsewhere = {r.buffer for s in run if id(s) not in inside for r in regions_of(s)}
        mine = set(private) - elsewhere
        if axes is None:
            found |= passing(row_loops(part, depth), depth, mine)
        else:
            found |= _passing(part, mine, depth + 1)
    return found


def _parts(run: list[Statement], depth: int) -> list[Part]:
    """Cut a run into loops over the axis `depth` (with each buffer's axis) and inner parts."""
    parts: list[Part] = []
    rest = list(run)
    while rest:
        loop, axes = _fusable(rest, depth)
        if loop and not all(s.inner(depth) for s in loop):
            parts.append((loop, axes))
            rest = rest[len(loop) :]
            continue
        inner = [rest.pop(0)]
        while rest and rest[0].inner(depth) and _starts_no_loop(rest, depth):
            inner.append(rest.pop(0))
        parts.append((inner, None))
    return parts


def _starts_no_loop(rest: list[Statement], depth: int) -> bool:
    outer = next((n for n, s in enumerate(rest) if not s.inner(depth)), None)
    if outer is None:
        return True
    # Where all up to the first statement with more axes can share that one's loop, a loop begins.
    return len(_fusable(rest[: outer + 1], depth)[0]) <= outer


def _fusable(rest: list[Statement], depth: int) -> tuple[list[Statement], dict[str, int] | None]:
    """The longest beginning whose rows along axis `depth` depend only on themselves."""
    rows, count = RowRange(depth), 0
    for statement in rest:
        first = rest[0].target
        if statement.rest(depth) < 1:
            break
        same = statement.target.shape[depth] == first.shape[depth]
        if not same or statement.target.valid[depth] != first.valid[depth]:
            break
        if not rows.take(statement):
            if count == 0:
                return rest[:1], {}  # one statement never depends on its own other rows
            break
        count += 1
    return rest[:count], independent(rest[:count], depth) if count else None


def shrink(shape: tuple[int, ...], kept: Mapping[int, int]) -> tuple[int, ...]:
    """`shape` with as many elements of some axes as are kept."""
    return tuple(kept.get(n, extent) for n, extent in enumerate(shape))
