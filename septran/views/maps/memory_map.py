"""The buffers of each memory over the lines of a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from septran.tile.interpret.storage import size_bytes
from septran.tile.nodes import Buffer, For, Node, Role, TileProgram, regions
from septran.tile.printer import node_text
from septran.tile.records import Placement
from septran.tile.verify.places import spread
from septran.views.text.origin_text import why_of


@dataclass(frozen=True)
class Line:
    """One node of the program as a line of text."""

    number: int
    """In program order, from 0."""
    indent: int
    text: str
    node: Node


@dataclass(frozen=True)
class HeldBuffer:
    """One buffer in a memory."""

    buffer: Buffer
    offset: int
    """Bytes from the memory's start."""
    size: int
    """Bytes, all stages together."""
    first: int
    """Number of the first line that uses it."""
    last: int
    uses: tuple[int, ...]
    """Numbers of the lines that touch it."""


@dataclass(frozen=True)
class MemoryMap:
    """All planned memories of a program against their capacity."""

    program: TileProgram

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The program's nodes, one a line."""
        return tuple(
            Line(number, indent, node_text(node, self.program), node)
            for number, (node, indent) in enumerate(_indented(self.program.body, 0))
        )

    @cached_property
    def memories(self) -> dict[str, tuple[HeldBuffer, ...]]:
        """The buffers of each memory, by address."""
        found: dict[str, list[HeldBuffer]] = {}
        for place in self.program.plan:
            found.setdefault(place.memory, []).append(self._held(place))
        return {name: tuple(sorted(held, key=lambda h: h.offset)) for name, held in found.items()}

    def _held(self, place: Placement) -> HeldBuffer:
        uses = tuple(n.number for n in self.lines if place.buffer in self._names(n.node))
        buffer = self.program.buffer(place.buffer)
        return HeldBuffer(
            buffer, place.offset_bytes, place.size_bytes, place.first, place.last, uses
        )  # fmt: skip

    @cached_property
    def _channels(self) -> dict[str, tuple[str, ...]]:
        return {channel.name: channel.buffers for channel in self.program.channels}

    def _names(self, node: Node) -> frozenset[str]:
        """The buffers that a node touches, or waits for."""
        waited = self._channels.get(getattr(node, "channel", None) or "", ())
        touched = {region.buffer for region in regions(node)}
        return frozenset(touched or waited)

    def capacity(self, memory: str) -> int | None:
        """Bytes that the program's buffers may take of a memory; None without a limit."""
        model = self.program.machine.memory(memory)
        if model.capacity_bytes is None:
            return None
        return model.capacity_bytes * spread(self.program, model)

    def live(self, memory: str, line: int) -> int:
        """Bytes of a memory's buffers that are in use at a line."""
        held = self.memories.get(memory, ())
        return sum(h.size for h in held if h.first <= line <= h.last)

    def peak(self, memory: str) -> int:
        """The most bytes that are in use at any line."""
        return max((self.live(memory, line.number) for line in self.lines), default=0)

    def elsewhere(self) -> tuple[Buffer, ...]:
        """Buffers that have no planned address: parameters, and what caches hold."""
        planned = {place.buffer for place in self.program.plan}
        return tuple(b for b in self.program.buffers if b.name not in planned)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "title": f"{self.program.name} on {self.program.machine.name}",
            "lines": [_line(line) for line in self.lines],
            "memories": [self._memory(name) for name in self.memories],
            "elsewhere": [
                {**_facts(buffer), "memory": buffer.memory, "size": size_bytes(buffer)}
                for buffer in self.elsewhere()
            ],
        }

    def _memory(self, name: str) -> dict[str, Any]:
        held = self.memories[name]
        return {
            "name": name,
            "owner": self.program.machine.memory(name).visible_to,
            "capacity": self.capacity(name),
            "used": max(h.offset + h.size for h in held),
            "peak": self.peak(name),
            "live": [self.live(name, line.number) for line in self.lines],
            "buffers": [
                {**_facts(h.buffer), "offset": h.offset, "size": h.size, "first": h.first,
                 "last": h.last, "uses": list(h.uses)}
                for h in held
            ],
        }  # fmt: skip

    def explore(self) -> Any:
        """The interactive view of it."""
        from septran.views.live import explore

        return explore(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """A static table."""
        from septran.views.maps.memory_panel import memory_panel

        del include, exclude
        return {"text/html": str(memory_panel(self)), "text/plain": str(self)}

    def __str__(self) -> str:
        if not self.memories:
            return f"{self.program.name} has no buffer with a planned address\n"
        return "\n".join(self._rows()) + "\n"

    def _rows(self) -> Iterator[str]:
        for name, held in self.memories.items():
            limit = self.capacity(name)
            share = f" of {limit:,} ({self.peak(name) / limit:.0%})" if limit else ""
            yield f"{name}: {self.peak(name):,} bytes in use at most{share}"
            for h in held:
                yield (
                    f"  {h.offset:>10,} +{h.size:>9,}  {h.buffer.name}  lines {h.first} to {h.last}"
                )


def _line(line: Line) -> dict[str, Any]:
    why = why_of(line.node.origin)
    kind = type(line.node).__name__.lower()
    return {
        "text": line.text, "indent": line.indent, "kind": kind, "why": why["rule"],
        "places": why["places"], "keys": [f"node:{line.number}", *why["keys"]],
    }  # fmt: skip


def _facts(buffer: Buffer) -> dict[str, Any]:
    why = why_of(buffer.origin)
    shape = ", ".join(map(str, buffer.shape))
    return {
        "name": buffer.name, "tensor": buffer.tensor, "stages": buffer.stages,
        "type": f"{buffer.dtype}[{shape}]", "layout": str(buffer.layout), "why": why["rule"],
        "places": why["places"], "keys": [f"buffer:{buffer.name}", *why["keys"]],
    }  # fmt: skip


def _indented(body: tuple[Node, ...], indent: int) -> Iterator[tuple[Node, int]]:
    for node in body:
        yield node, indent
        if isinstance(node, For | Role):
            yield from _indented(node.body, indent + 1)
