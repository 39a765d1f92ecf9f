"""How far apart the uses of the same data are: the bytes that are touched in between.

A program is seen as loops around steps. What a step touches in one iteration, and touched in the
one before or a step before touched, is found in the smallest cache that holds what was touched
meanwhile; in a first iteration, what the last call of the kernel left. Mattson, Gecsei, Slutz,
Traiger: Evaluation techniques for storage hierarchies, IBM Systems Journal 9 (2), 1970.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from septran.dtypes import itemsize
from septran.ir.bounds import bounds_if_known, greatest
from septran.ir.index import Index, Range, Var, axis, is_axis
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    Region,
    Role,
    TileProgram,
    reads,
    writes,
)


@dataclass(frozen=True)
class TimedStep:
    """Neighbouring nodes that are done together, and the loops around them."""

    nodes: tuple[Compute | Copy, ...]
    loops: tuple[For, ...]


@dataclass(frozen=True)
class Nest:
    """A loop with what is in it; None: the program's own body."""

    loop: For | None
    parts: tuple[Nest | TimedStep, ...]


@dataclass(frozen=True)
class Use:
    """Bytes that a step uses, and how many bytes were touched since they were last used."""

    size: float
    distance: float


def nest_of(program: TileProgram) -> Nest:
    """The program as loops around steps."""
    return Nest(None, tuple(_parts(program.body, ())))


def steps_of(nest: Nest) -> Iterator[tuple[TimedStep, tuple[Nest, ...]]]:
    """Every step with the nests around it, the program's body first."""
    for part in nest.parts:
        if isinstance(part, TimedStep):
            yield part, (nest,)
        else:
            for step, around in steps_of(part):
                yield step, (nest, *around)


def _parts(body: Sequence[Node], loops: tuple[For, ...]) -> Iterator[Nest | TimedStep]:
    """Neighbouring tensor expressions are one step: they are done row by row."""
    waiting: list[Compute | Copy] = []
    for node in body:
        if waiting and not (_mapped(node) and _mapped(waiting[-1])):
            yield TimedStep(tuple(waiting), loops)
            waiting = []
        if isinstance(node, Compute | Copy):
            waiting.append(node)
        elif isinstance(node, For):
            yield Nest(node, tuple(_parts(node.body, (*loops, node))))
        elif isinstance(node, Role):
            yield from _parts(node.body, loops)
    if waiting:
        yield TimedStep(tuple(waiting), loops)


def _mapped(node: Node) -> bool:
    return isinstance(node, Compute) and node.primitive != "gemm"


@dataclass
class Reuse:
    """Distances of one program, where a unit runs `trip_counts` of each loop's iterations."""

    program: TileProgram
    trip_counts: Mapping[Var, int]
    """Iterations of each loop that one unit runs."""
    _touched: dict[tuple[int, tuple[Var, ...]], dict[str, float]] = field(default_factory=dict)
    _buffers: dict[str, Buffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._buffers = {b.name: b for b in self.program.buffers}

    def uses(self, region: Region, step: TimedStep, around: Sequence[Nest]) -> Iterator[Use]:
        """What all calls of a step use of a region, by distance."""
        own: Nest | TimedStep = step
        missing = before = self.size(region, ())
        inside: list[Var] = []
        times = math.prod(self.trip_counts[loop.variable] for loop in step.loops)
        # Outwards: what is found near in an inner loop is not looked for in an outer one.
        for nest in reversed(around):
            earlier, distance = self._earlier(nest, own, region.buffer)
            found = min(missing, earlier)
            if found:
                yield Use(found * times, distance)
            missing -= found
            if nest.loop is None or missing <= 0:
                break
            count = self.trip_counts[nest.loop.variable]
            inside.append(nest.loop.variable)
            distinct = self.size(region, inside)
            # From here on not calls of the step, but runs of this loop.
            times //= max(1, count)
            # The part that is new in each iteration; the rest was touched one iteration before.
            kept = min(1.0, distinct / (before * count)) if before and count else 1.0
            if kept < 1:
                yield Use(missing * count * (1 - kept) * times, self.footprint(nest))
            missing, before, own = missing * count * kept, distinct, nest
        # Nothing in the program touched it before: the last call of the kernel did.
        if missing > 0:
            yield Use(missing, self.footprint(around[0]))

    def footprint(self, part: Nest | TimedStep) -> float:
        """Different bytes that one iteration of a nest's body, or a call of a step, touches."""
        parts = part.parts if isinstance(part, Nest) else (part,)
        return self._together([self._of(p) for p in parts])

    def size(self, region: Region, varying: Sequence[Var]) -> float:
        """Different bytes of a region in all iterations over some indices."""
        buffer = self._buffers[region.buffer]
        known: dict[Var, Range] = {
            v: (0, max(0, (self.trip_counts[v] if v in varying else 1) - 1))
            for v in self.trip_counts
        }
        shape = [
            max(0, min(n, greatest(v, known)))
            for n, v in zip(region.shape, region.valid, strict=True)
        ]
        known |= {axis(n): (0, max(0, extent - 1)) for n, extent in enumerate(shape)}
        count = math.prod(
            _distinct(entry, extent, known)
            for entry, extent in zip(region.index, buffer.shape, strict=True)
        )
        # Bounds of single coordinates may allow more than there are calls for.
        most = math.prod(shape) * math.prod(self.trip_counts[v] for v in varying)
        return min(count, most) * itemsize(buffer.dtype)

    def _earlier(self, nest: Nest, own: Nest | TimedStep, name: str) -> tuple[float, float]:
        """Bytes of a buffer that the nearest part before `own` touched, and how far back."""
        at = next(n for n, part in enumerate(nest.parts) if part is own)
        for number in range(at - 1, -1, -1):
            touched = self._of(nest.parts[number])
            if name in touched:
                between = [self._of(part) for part in nest.parts[number : at + 1]]
                return touched[name], self._together(between)
        return 0.0, 0.0

    def _together(self, parts: Sequence[Mapping[str, float]]) -> float:
        most: dict[str, float] = {}
        for part in parts:
            for name, size in part.items():
                most[name] = max(most.get(name, 0.0), size)
        return sum(most.values())

    def _of(self, part: Nest | TimedStep, varying: tuple[Var, ...] = ()) -> dict[str, float]:
        """Bytes of each buffer that a part touches while the loops around it stand still."""
        key = (id(part), varying)
        if key in self._touched:
            return self._touched[key]
        found: dict[str, float] = {}
        if isinstance(part, Nest):
            assert part.loop is not None
            for inner in part.parts:
                for name, size in self._of(inner, (*varying, part.loop.variable)).items():
                    found[name] = max(found.get(name, 0.0), size)
        else:
            every = {r for node in part.nodes for r in (*reads(node), *writes(node))}
            for region in every:
                found[region.buffer] = found.get(region.buffer, 0.0) + self.size(region, varying)
        for name, size in found.items():
            # Regions may overlap: no part touches more than all of a buffer.
            buffer = self._buffers[name]
            found[name] = min(
                size, math.prod(buffer.shape) * itemsize(buffer.dtype) * buffer.stages
            )
        self._touched[key] = found
        return found


def _distinct(entry: Index, extent: int, known: Mapping[Var, Range]) -> int:
    """Values that a coordinate takes where its variables go over their ranges."""
    reach = bounds_if_known(entry, known)
    width = extent if reach is None else reach[1] - reach[0] + 1
    choices = math.prod(known[v][1] + 1 for v in entry.variables() if v in known or is_axis(v))
    return max(1, min(width, choices, extent))
