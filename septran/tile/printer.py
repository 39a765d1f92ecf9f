"""The text of a tile program, which reads like the program that it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from septran.ir.expression_text import expression_text
from septran.ir.index import Index, axis, is_axis
from septran.ir.size_names import name_sizes
from septran.ir.views import View, transposition_text
from septran.tile.layouts import ROW
from septran.tile.nodes import (
    Acquire,
    Barrier,
    Buffer,
    Channel,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Origin,
    Region,
    Release,
    Role,
    TileProgram,
    Wait,
    nodes,
    views,
)

_INDENT = "    "


def to_text(program: TileProgram, *, origins: bool = False) -> str:
    """Return the text of a program; `origins` adds to each line, as a comment, why it is there."""
    printer = _Printer(program, origins=origins)
    found = (view for node in nodes(program.body) for view in views(node))
    sizes, body = name_sizes(list(printer.body(program.body)), found)
    lines = [f"program {program.name} on {program.machine.name}:"]
    lines += [f"{_INDENT}{line}" for line in printer.declarations()]
    why = "  # extents at a ragged edge, here by a name" if origins else ""
    lines += [f"{_INDENT}size {size}{why}" for size in sizes]
    if lines[1:] and program.body:
        lines.append("")
    lines += [f"{_INDENT}{line}" for line in body]
    return "\n".join(lines) + "\n"


def node_text(node: Node, program: TileProgram) -> str:
    """Return one node on one line, without its body, and with sizes in full."""
    return _Printer(program, origins=False).head(node)


@dataclass(frozen=True)
class _Printer:
    program: TileProgram
    origins: bool

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {b.name: b.shape for b in self.program.buffers}

    def declarations(self) -> Iterator[str]:
        for name in self.program.params:
            way = "out" if name in self.program.outputs else "in"
            yield f"{way} {self._buffer(self.program.buffer(name))}"
        for scalar in self.program.scalars:
            default = "" if scalar.default is None else f" = {scalar.default}"
            yield f"scalar {scalar.name}: {scalar.dtype}{default}"
        for buffer in self.program.buffers:
            if buffer.name not in self.program.params:
                yield f"buffer {self._buffer(buffer)}"
        for channel in self.program.channels:
            yield f"channel {self._channel(channel)}"

    def _buffer(self, buffer: Buffer) -> str:
        shape = ", ".join(map(str, buffer.shape))
        text = f"{buffer.name}: {buffer.dtype}[{shape}] in {buffer.memory}"
        if buffer.layout != ROW:
            text += f" as {buffer.layout}"
        if buffer.stages != 1:
            text += f" x {buffer.stages} stages"
        for place in self.program.plan:
            if place.buffer == buffer.name:
                text += f" at {place.offset_bytes}"
        return self._commented(text, buffer.origin)

    def _channel(self, channel: Channel) -> str:
        buffers = ", ".join(channel.buffers)
        text = f"{channel.name}: {channel.engine} x {channel.stages} stages of {buffers}"
        return self._commented(text, channel.origin)

    def _commented(self, text: str, why: Origin | None) -> str:
        return f"{text}  # {why}" if self.origins and why is not None else text

    def body(self, nodes: tuple[Node, ...]) -> Iterator[str]:
        for node in nodes:
            yield self._commented(self.head(node), node.origin)
            if isinstance(node, For | Role):
                inside = list(self.body(node.body)) or ["pass"]
                yield from (f"{_INDENT}{line}" for line in inside)

    def head(self, node: Node) -> str:
        match node:
            case Copy():
                return self._copy(node)
            case Compute():
                return self._compute(node)
            case For():
                return _for(node)
            case Role():
                count = "" if node.count == 1 else f" x {node.count}"
                registers = f" with {node.registers} registers" if node.registers else ""
                pingpong = " in ping-pong" if node.pingpong else ""
                return f"role {node.name} on {node.processor}{count}{registers}{pingpong}:"
            case Acquire():
                return f"acquire({node.channel}, {node.index})"
            case Commit():
                return f"commit({node.channel}, {node.index})"
            case Wait():
                return f"wait({node.channel}, {node.index})"
            case Release():
                return f"release({node.channel}, {node.index})"
            case Barrier():
                return f"barrier({node.processor})"

    def _copy(self, node: Copy) -> str:
        zero = ", zero_fill" if node.zero_fill else ""
        channel = f" on {node.channel}" if node.channel else ""
        many = f", multicast to {node.receivers} blocks" if node.multicast else ""
        source, target = self._region(node.source), self._region(node.target)
        return f"{target} = copy({source}{zero})  by {node.engine}{channel}{many}"

    def _compute(self, node: Compute) -> str:
        target = self._region(node.operands[0])
        if node.expression is not None:
            value = expression_text(node.expression, self._view)
            return f"{target} = {value}  by {node.instruction}"
        parts = [self._region(o) for o in node.operands]
        parts += [f"{key}={_value(value)}" for key, value in node.attributes]
        name = node.meaning.variant if node.meaning else node.primitive
        return f"{name}({', '.join(parts)})  by {node.instruction}"

    def _view(self, view: View) -> str:
        return self._region(view) if isinstance(view, Region) else str(view)

    def _region(self, region: Region) -> str:
        """Return a whole buffer by its name alone, else the part of it; ``:`` is a whole axis."""
        shape = self.shapes.get(region.buffer, ())
        if len(shape) != len(region.index):
            return str(region)
        parts = [_part(region, n, extent) for n, extent in enumerate(shape)]
        inside = "" if set(parts) <= {":"} else f"[{', '.join(parts)}]"
        stage = "" if region.stage == Index() else f"@{_bracket(region.stage)}"
        return f"{region.buffer}{inside}{stage}{transposition_text(region)}"


def _part(region: Region, position: int, size: int) -> str:
    """Return one axis of a buffer: ``:``, ``:rows``, ``64*i:+64`` or the map itself."""
    entry = region.index[position]
    for number, extent in enumerate(region.shape):
        start = entry - axis(number)
        if entry.coefficient(axis(number)) != 1 or any(map(is_axis, start.variables())):
            continue
        valid = region.valid[number]
        if start == Index() and extent == size:
            return ":" if valid == Index.of(size) else f":{valid}"
        return f"{start}:+{valid}"
    return str(entry)


def _bracket(index: Index) -> str:
    text = str(index)
    return f"({text})" if " " in text and not text.startswith("(") else text


def _for(node: For) -> str:
    variable, extent = node.variable, node.extent
    match node.kind:
        case "parallel":
            over = f" over {node.processor}" if node.processor else ""
            over += " of a cluster" if node.cluster else ""
            line = f"for {variable} in parallel({extent}){over}"
        case "unrolled":
            line = f"for {variable} in unrolled({extent})"
        case _:
            over = f" over {node.processor}" if node.processor else ""
            line = f"for {variable} in range({extent}){over}"
    stages = f" in {node.pipeline} stages" if node.pipeline > 1 else ""
    return f"{line}{stages}:"


def _value(value: object) -> str:
    return repr(value) if isinstance(value, str) else f"{value}"
