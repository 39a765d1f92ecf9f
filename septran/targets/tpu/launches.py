"""The kernels of a program: what one call of a kernel runs, reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from septran.ir import expressions as ex
from septran.tile.nodes import (
    Acquire,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Release,
    TileProgram,
    Wait,
    nodes,
    regions,
    tables,
    writes,
)


@dataclass(frozen=True)
class PallasLaunch:
    """One kernel: a nest of parallel loops, whose iterations are its grid, or statements."""

    grid: tuple[For, ...]
    body: tuple[Node, ...]

    def touched(self, program: TileProgram) -> tuple[str, ...]:
        """The buffers that it moves or computes with, in the program's order."""
        found = {r.buffer for node in nodes(self.body) for r in regions(node)}
        return tuple(b.name for b in program.buffers if b.name in found)

    def written(self) -> frozenset[str]:
        """The buffers that it writes."""
        return frozenset(r.buffer for node in nodes(self.body) for r in writes(node))

    def tables(self) -> tuple[str, ...]:
        """The tensors of integers whose elements it uses as indices."""
        every = (*self.grid, *nodes(self.body))
        return tuple(dict.fromkeys(name for node in every for name in tables(node)))

    def channels(self, program: TileProgram) -> tuple[str, ...]:
        """The channels that its copies go through."""
        found = {name for node in nodes(self.body) if (name := _channel(node)) is not None}
        return tuple(c.name for c in program.channels if c.name in found)

    def scalars(self, program: TileProgram) -> tuple[str, ...]:
        """The run-time scalars that it reads."""
        found = {
            part.name
            for node in nodes(self.body)
            if isinstance(node, Compute) and node.expression is not None
            for part in ex.walk(node.expression)
            if isinstance(part, ex.Scalar)
        }
        return tuple(s.name for s in program.scalars if s.name in found)


def _channel(node: Node) -> str | None:
    match node:
        case Copy(channel=name):
            return name
        case Acquire(channel=name) | Commit(channel=name) | Wait(channel=name):
            return name
        case Release(channel=name):
            return name
    return None


def launches(program: TileProgram) -> tuple[PallasLaunch, ...]:
    """The kernels in their order: each parallel nest is one, and what is between them.

    Statements that share vector memory or a channel are in one kernel.
    """
    groups: list[list[Node]] = []
    for node in program.body:
        plain = not _parallel(node)
        if groups and plain and not any(map(_parallel, groups[-1])):
            groups[-1].append(node)
        else:
            groups.append([node])
    return tuple(map(_launch, _merged(program, groups)))


def _merged(program: TileProgram, groups: list[list[Node]]) -> list[list[Node]]:
    last: dict[str, int] = {}
    for number, group in enumerate(groups):
        last.update((name, number) for name in _held(program, group))
    found: list[list[Node]] = []
    end = -1
    for number, group in enumerate(groups):
        if number <= end:
            found[-1] += group
        else:
            found.append(list(group))
        end = max([end, *(last[name] for name in _held(program, group))])
    return found


def _held(program: TileProgram, body: list[Node]) -> Iterator[str]:
    """What stays in a core between statements: buffers and channels."""
    main = program.machine.main_memory.name
    for node in nodes(tuple(body)):
        yield from (r.buffer for r in regions(node) if program.buffer(r.buffer).memory != main)
        name = _channel(node)
        if name is not None:
            yield f"channel {name}"


def _launch(group: list[Node]) -> PallasLaunch:
    grid: list[For] = []
    body = tuple(group)
    while len(body) == 1 and isinstance(body[0], For) and _parallel(body[0]):
        grid.append(body[0])
        body = body[0].body
    return PallasLaunch(tuple(grid), body)


def _parallel(node: Node) -> bool:
    return isinstance(node, For) and node.kind == "parallel" and node.extent.is_constant
