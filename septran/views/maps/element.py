"""One element on its way: its tile, its tasks, and every place it is copied to or from.

All of it follows from the index maps of the tile program; no number is computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from septran.dtypes import itemsize
from septran.errors import CallError
from septran.ir.index import Var, axis, is_axis
from septran.tile.analyses.indirect import supposed, supposition
from septran.tile.interpret.storage import grid
from septran.tile.nodes import Compute, Copy, Region, TileProgram
from septran.tile.substitution import FIRST
from septran.views.maps.events import Event, record, touching

Coordinates = tuple[int, ...]


class NoSuchElementError(CallError):
    """A tensor that the kernel does not take, or coordinates outside of it."""

    code = "SEP653"


@dataclass(frozen=True)
class ElementPlace:
    """The place of an element at one time."""

    buffer: str
    memory: str
    at: Coordinates
    """Its coordinates in the buffer."""
    stage: int
    """The stage of the buffer that it is in."""
    home: int
    """Which instance of the buffer; 0 for a parameter."""
    address: int
    """Bytes from the start of the memory where the buffer's place is planned, else of it."""

    def __str__(self) -> str:
        stage = f"@{self.stage}" if self.stage else ""
        return f"{self.buffer}[{', '.join(map(str, self.at))}]{stage}"


@dataclass(frozen=True)
class ElementOperand:
    """A part of an operand that a computation reads to make one element."""

    first: ElementPlace
    last: ElementPlace
    """Its other corner, which is in it."""
    homes: tuple[ElementPlace, ElementPlace] | None = None
    """Where both corners were copied from in the first place; None if a computation made them."""

    def __str__(self) -> str:
        return _range_text(self.first, self.last)

    @property
    def home(self) -> str:
        """The part of a parameter that it came from: ``A[5, 64:128]``; may be empty."""
        return _range_text(*self.homes) if self.homes else ""


@dataclass(frozen=True)
class ElementEvent:
    """One thing that happened to the element."""

    event: Event
    kind: str
    """``copy``, ``reads`` (a computation takes it) or ``writes`` (one makes or changes it)."""
    source: ElementPlace | None
    target: ElementPlace | None
    operands: tuple[ElementOperand, ...] = ()
    """What a computation that writes it reads for it: ``A_SPM[5, 0:64]``."""


@dataclass(frozen=True)
class Journey:
    """An element's way through the memories, in the order in which it goes."""

    program: TileProgram
    tensor: str
    at: Coordinates
    output: bool
    """Whether the kernel makes it: then the way leads to it, else from it."""
    steps: tuple[ElementEvent, ...]
    supposition: str = ""
    """What tensors of indices and counts are supposed to hold, as there is no content here."""

    @property
    def copies(self) -> tuple[ElementEvent, ...]:
        """The copies among the steps."""
        return tuple(step for step in self.steps if step.kind == "copy")

    def explore(self) -> Any:
        """The interactive view of it: click another element to follow that one."""
        from septran.views.live import explore

        return explore(self)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        from septran.views.maps.element_data import journey_data

        return journey_data(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """A static table."""
        from septran.views.maps.element_data import journey_panel

        del include, exclude
        return {"text/html": str(journey_panel(self)), "text/plain": str(self)}

    def __str__(self) -> str:
        from septran.views.maps.element_data import journey_text

        return journey_text(self)


def follow(program: TileProgram, tensor: str, at: Coordinates) -> Journey:
    """The way of one element of a parameter: to it if the kernel writes it, else from it."""
    if tensor not in program.params:
        known = ", ".join(program.params)
        raise NoSuchElementError(f"{program.name} has no tensor {tensor!r}", hint=f"it has {known}")
    shape = program.buffer(tensor).shape
    if len(at) != len(shape) or not all(0 <= n < m for n, m in zip(at, shape, strict=True)):
        raise NoSuchElementError(f"{tensor} has no element {list(at)}", hint=f"its shape: {shape}")
    said = supposition(program)
    program = supposed(program)
    events = record(program, touching(program, tensor, at))
    output = tensor in program.outputs
    walk = _Walk(program)
    start = walk.param(tensor, at)
    steps = walk.backward(events, start) if output else walk.forward(events, start)
    return Journey(program, tensor, at, output, tuple(steps), said)


@dataclass(frozen=True)
class _Walk:
    program: TileProgram

    def param(self, tensor: str, at: Coordinates) -> ElementPlace:
        return ElementPlace(
            tensor, self.program.buffer(tensor).memory, at, 0, 0, self._address(tensor, at, 0)
        )

    def forward(self, events: tuple[Event, ...], start: ElementPlace) -> Iterator[ElementEvent]:
        """Every copy of the value, and every computation that takes it."""
        alive = {_key(start): start}
        for event in events:
            node = event.node
            if isinstance(node, Copy):
                # Before anything is forgotten, as a copy may move within one buffer.
                made = [
                    (place, self.place(event, node.target, local))
                    for place in self._at(event, node.source, alive)
                    for local in self.local(event, node.source, place)
                    if self._within(event, node.target, local)
                ]
                self._forget(event, node.target, alive)
                for source, target in made:
                    alive[_key(target)] = target
                    yield ElementEvent(event, "copy", source, target)
                continue
            # What a computation adds to, it reads as well.
            for region in node.operands[0 if node.accumulates else 1 :]:
                for place in self._at(event, region, alive):
                    yield ElementEvent(event, "reads", place, None)
            self._forget(event, node.operands[0], alive)

    def backward(self, events: tuple[Event, ...], end: ElementPlace) -> list[ElementEvent]:
        """Return what made the value: copies back to computations, and what those read."""
        wanted = {_key(end): end}
        steps: list[ElementEvent] = []
        # Backwards in time, as only what was wanted by then can have made the value.
        for number in range(len(events) - 1, -1, -1):
            event = events[number]
            node = event.node
            target = node.target if isinstance(node, Copy) else node.operands[0]
            for place in list(self._at(event, target, wanted)):
                # A target's map is one to one, so the first is the only one.
                for local in self.local(event, target, place)[:1]:
                    if isinstance(node, Copy):
                        found = self._copied(event, place, local)
                    else:
                        found = self._made(events, number, place, local)
                    for step, sources, kept in found:
                        steps.append(step)
                        if not kept:
                            wanted.pop(_key(place), None)
                        wanted |= {_key(s): s for s in sources}
        return steps[::-1]

    def _copied(
        self, event: Event, place: ElementPlace, local: Coordinates
    ) -> Iterator[tuple[ElementEvent, list[ElementPlace], bool]]:
        assert isinstance(event.node, Copy)
        if not self._within(event, event.node.source, local):
            return  # this part of the target is not in the source
        source = self.place(event, event.node.source, local)
        yield ElementEvent(event, "copy", source, place), [source], False

    def _made(
        self, events: tuple[Event, ...], number: int, place: ElementPlace, local: Coordinates
    ) -> Iterator[tuple[ElementEvent, list[ElementPlace], bool]]:
        event = events[number]
        node = event.node
        assert isinstance(node, Compute)
        reads, operands = [], []
        for region in node.operands[1:]:
            ends = self._ends(event, region, local)
            # Element by element: the value comes from the same place of the operand.
            if node.expression is not None and region.shape == node.operands[0].shape:
                ends = (local, local)
                reads.append(self.place(event, region, local))
            first, last = (self.place(event, region, end) for end in ends)
            homes = [self.home(events, number, end) for end in (first, last)]
            both = (homes[0], homes[1]) if homes[0] and homes[1] else None
            operands.append(ElementOperand(first, last, both))
        # A sum's element is wanted on: earlier steps added to it, too.
        kept = node.accumulates and not _first(event)
        yield ElementEvent(event, "writes", None, place, tuple(operands)), reads, kept

    def _ends(
        self, event: Event, region: Region, local: Coordinates
    ) -> tuple[Coordinates, Coordinates]:
        """The corners of the part of an operand that one element of the result takes."""
        node = event.node
        assert isinstance(node, Compute)
        fixed: dict[int, int] = {}
        # One element of C takes a row of A and a column of B; both operands may have batch axes.
        if node.primitive == "gemm" and region.rank >= 2 and len(local) >= 2:
            place = region.rank - 2 if region is node.operands[1] else region.rank - 1
            fixed = {place: local[-2] if region is node.operands[1] else local[-1]}
        extents = [max(1, valid.evaluate(event.values)) for valid in region.valid]
        first = tuple(fixed.get(n, 0) for n in range(region.rank))
        return first, tuple(fixed.get(n, extent - 1) for n, extent in enumerate(extents))

    def home(
        self, events: tuple[Event, ...], before: int, place: ElementPlace
    ) -> ElementPlace | None:
        """The parameter's element that copies brought to `place`; None where one was computed."""
        if place.buffer in self.program.params:
            return place
        for number in range(before - 1, -1, -1):
            event, node = events[number], events[number].node
            target = node.target if isinstance(node, Copy) else node.operands[0]
            if target.buffer != place.buffer or not list(self._at(event, target, {(): place})):
                continue
            # Computed here, so that no parameter holds this value.
            if not isinstance(node, Copy):
                return None
            (local, *_) = self.local(event, target, place)
            if not self._within(event, node.source, local):
                return None
            return self.home(events, number, self.place(event, node.source, local))
        return None

    def _at(
        self, event: Event, region: Region, known: dict[tuple[Any, ...], ElementPlace]
    ) -> Iterator[ElementPlace]:
        """Those of some places that a region holds now."""
        home, stage = event.homes.get(region.buffer, 0), None
        for place in list(known.values()):
            if place.buffer != region.buffer or place.home != home:
                continue
            stage = region.stage.evaluate(event.values) if stage is None else stage
            if place.stage == stage and self.local(event, region, place):
                yield place

    def _forget(
        self, event: Event, region: Region, alive: dict[tuple[Any, ...], ElementPlace]
    ) -> None:
        """Drop the elements that a write to a region replaces."""
        for place in self._at(event, region, alive):
            del alive[_key(place)]

    def local(self, event: Event, region: Region, place: ElementPlace) -> list[Coordinates]:
        """The coordinates in the region that are the element at `place`."""
        return located_in(region, place.at, event.values)

    def _within(self, event: Event, region: Region, local: Coordinates) -> bool:
        return all(
            n < valid.evaluate(event.values) for n, valid in zip(local, region.valid, strict=True)
        )

    def place(self, event: Event, region: Region, local: Coordinates) -> ElementPlace:
        """The place of an element of a region."""
        at = _evaluated(region, local, event.values)
        stage = region.stage.evaluate(event.values)
        buffer = self.program.buffer(region.buffer)
        home = event.homes.get(region.buffer, 0)
        address = self._address(region.buffer, at, stage)
        return ElementPlace(region.buffer, buffer.memory, at, stage, home, address)

    def _address(self, name: str, at: Coordinates, stage: int) -> int:
        buffer = self.program.buffer(name)
        width = itemsize(buffer.dtype)
        one = buffer.layout.elements(buffer.shape) * width if buffer.shape else width
        start = next((p.offset_bytes for p in self.program.plan if p.buffer == name), 0)
        inside = buffer.layout.swizzled_offset(at, buffer.shape, width) * width if at else 0
        return start + stage * one + inside


def located_in(region: Region, at: Coordinates, values: Mapping[Var, int]) -> list[Coordinates]:
    """All coordinates of a region that are its buffer's element `at`, within what exists."""
    extents = [max(0, valid.evaluate(values)) for valid in region.valid]
    choices: list[set[int] | None] = [None] * region.rank
    joint: list[tuple[tuple[int, ...], set[Coordinates]]] = []
    for entry, wanted in zip(region.index, at, strict=True):
        axes = sorted(n for n in range(region.rank) if axis(n) in entry.variables())
        base = {v: values[v] for v in entry.variables() if not is_axis(v)}
        if not axes:
            if entry.evaluate(base) != wanted:
                return []
            continue
        # Axes that occur in one entry together (windows, merged axes) are searched together.
        shape = tuple(extents[n] for n in axes)
        renamed = entry.substitute({axis(n): axis(k) for k, n in enumerate(axes)})
        hits = (grid(renamed, shape, base) == wanted).nonzero()
        found = set(zip(*(hit.tolist() for hit in hits), strict=True))
        joint.append((tuple(axes), found))
        for k, n in enumerate(axes):
            mine = {hit[k] for hit in found}
            known = choices[n]
            choices[n] = mine if known is None else known & mine
    lists = [
        sorted(choice) if choice is not None else range(min(1, extent))
        for choice, extent in zip(choices, extents, strict=True)
    ]
    return [
        # The axes' candidates one by one are too many where entries share axes: their pairs decide.
        local for local in itertools.product(*lists)
        if all(tuple(local[n] for n in axes) in found for axes, found in joint)
    ]  # fmt: skip


def _evaluated(region: Region, local: Coordinates, values: Mapping[Var, int]) -> Coordinates:
    return tuple(entry.evaluate(values) for entry in region.at(local))


def _range_text(first: ElementPlace, last: ElementPlace) -> str:
    pairs = zip(first.at, last.at, strict=True)
    parts = [str(a) if a == b else f"{min(a, b)}:{max(a, b) + 1}" for a, b in pairs]
    stage = f"@{first.stage}" if first.stage else ""
    return f"{first.buffer}[{', '.join(parts)}]{stage}"


def _key(place: ElementPlace) -> tuple[Any, ...]:
    return (place.buffer, place.at, place.stage, place.home)


def _first(event: Event) -> bool:
    """Whether a contraction overwrites its target this time rather than adding to it."""
    first = dict(event.node.attributes).get(FIRST) if isinstance(event.node, Compute) else None
    return first is not None and (first == "" or event.values.get(Var(str(first))) == 0)
