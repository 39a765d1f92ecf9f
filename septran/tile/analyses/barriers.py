"""Insertion of barriers where units of a level share a buffer that some write and others read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from septran.machine.model import Machine
from septran.tile.nodes import (
    Barrier,
    Compute,
    Copy,
    For,
    Node,
    Region,
    Role,
    TileProgram,
    nodes,
    reads,
    tables,
    writes,
)

Twins = Mapping[str, frozenset[str]]
"""For a buffer, those that lie in the same place at other times."""


def barriers(
    program: TileProgram, body: tuple[Node, ...], twins: Twins = MappingProxyType({})
) -> tuple[Node, ...]:
    """Return `body` with a barrier wherever one unit may use what another one wrote.

    A write to a buffer also overwrites its `twins`, so all units must be done with those, too.
    Barriers are needed only in code that runs on a unit made of several innermost ones (a block of
    threads): they share its memories, while each of their own is private. Buffers that a channel
    fills are ordered by its handshake.
    """
    # Below the host it takes two levels for a unit that is made of several.
    if len(program.machine.processors) < 3:
        return body
    return tuple(_outside(program, node, twins) for node in body)


def _outside(program: TileProgram, node: Node, twins: Twins) -> Node:
    """Find where the code of one unit begins, and insert its barriers."""
    if not isinstance(node, For | Role):
        return node
    machine = program.machine
    if _is_unit(machine, node):
        shared = frozenset(b.name for b in program.buffers if _is_shared(machine, b.memory))
        inside, _ = _Unit(program, shared, twins).walk(node.body, _Touched())
        return replace(node, body=inside)
    return replace(node, body=tuple(_outside(program, n, twins) for n in node.body))


def _is_unit(machine: Machine, node: For | Role) -> bool:
    """Return whether the node's body is the code of one unit that is made of several.

    A parallel loop over no level is spread over units, too, if no loop inside it is; and if there
    is more in it than one parallel loop: one unit then does all of that, in turns.
    """
    if node.processor is None:
        inner = [n for n in nodes(node.body) if isinstance(n, For | Role)]
        spread = any(_is_unit(machine, n) for n in inner if n.processor is not None)
        return _is_parallel(node) and not (spread and _is_nest(node))
    return 0 < machine.depth(node.processor) < len(machine.processors) - 1


def _is_parallel(node: Node) -> bool:
    return isinstance(node, For) and node.kind == "parallel"


def _is_nest(node: For | Role) -> bool:
    """Return whether a body is one parallel loop, so that both are a grid of units."""
    return len(node.body) == 1 and _is_parallel(node.body[0])


def _is_shared(machine: Machine, memory: str) -> bool:
    return machine.depth(machine.memory(memory).visible_to) < len(machine.processors) - 1


@dataclass(frozen=True)
class _Touched:
    """The buffers read and written since the last barrier, each with the node that did so."""

    read: frozenset[tuple[str, Node]] = field(default_factory=frozenset)
    written: frozenset[tuple[str, Node]] = field(default_factory=frozenset)

    def __or__(self, other: _Touched) -> _Touched:
        return _Touched(self.read | other.read, self.written | other.written)

    def conflict(self, node: Node, read: Iterable[str], written: Iterable[str]) -> str | None:
        """Return the buffer over which `node` needs a barrier, None if it needs none."""
        mine, own = set(read), set(written)
        for name, other in sorted(self.written, key=lambda pair: pair[0]):
            if name in mine | own and not _same_units(other, node, name):
                return name
        for name, other in sorted(self.read, key=lambda pair: pair[0]):
            if name in own and not _same_units(other, node, name):
                return name
        return None


def _same_units(a: Node, b: Node, name: str) -> bool:
    """Return whether each unit uses its own part: the same node again, or its copy in a drain."""
    if a == b:
        return True
    if not (isinstance(a, Compute) and isinstance(b, Compute) and a.primitive == b.primitive):
        return False
    ours, theirs = a.operands[0], b.operands[0]
    alone = all(r.buffer != name for r in (*a.operands[1:], *b.operands[1:]))
    same = (ours.index, ours.shape, ours.stage) == (theirs.index, theirs.shape, theirs.stage)
    return alone and same and a.instruction == b.instruction and ours.buffer == name


@dataclass
class _Unit:
    program: TileProgram
    shared: frozenset[str]
    twins: Twins

    def walk(self, body: tuple[Node, ...], before: _Touched) -> tuple[tuple[Node, ...], _Touched]:
        """Return the body with its barriers, and the buffers touched after the last one."""
        result: list[Node] = []
        now = begin = before
        for position, node in enumerate(body):
            match node:
                case For():
                    name = now.conflict(node, self._tables(node), ())  # who reads how often it runs
                    if name is not None:
                        result.append(self._barrier(name, node))
                        now = _Touched()
                    inside, now, ahead = self._loop(node, now)
                    now = now | _Touched(read=frozenset((n, node) for n in self._tables(node)))
                    result += [*ahead, inside]
                case Role():
                    if position == 0 or not isinstance(body[position - 1], Role):
                        begin = now  # roles side by side share through channels only
                    inner, after = self.walk(node.body, begin)
                    result.append(replace(node, body=inner))
                    now = now | after
                case Copy() | Compute():
                    read, written = self._touches(node)
                    name = now.conflict(node, read, written) or self._twin(node, now)
                    if name is not None:
                        result.append(self._barrier(name, node))
                        now = _Touched()
                    if isinstance(node, Copy) and node.channel is not None:
                        read = []  # the engine reads, and who writes next waits for it
                    now = now | _Touched(
                        frozenset((r, node) for r in read), frozenset((w, node) for w in written)
                    )
                    result.append(node)
                case Barrier():
                    now = _Touched()
                    result.append(node)
                case _:
                    result.append(node)
        return tuple(result), now

    def _twin(self, node: Copy | Compute, before: _Touched) -> str | None:
        """Return a buffer touched before whose place the node overwrites as another buffer."""
        over = {t for r in writes(node) for t in self.twins.get(r.buffer, ())}
        return min((n for n, _ in before.read | before.written if n in over), default=None)

    def _loop(self, loop: For, before: _Touched) -> tuple[For, _Touched, list[Node]]:
        """Insert the barriers of a loop, and return those to put before it."""
        # The first walk finds what an iteration leaves behind, the second one lets the next
        # iteration meet it.
        _, last = self.walk(loop.body, _Touched())
        # Parallel iterations do not meet, unless a unit does those of its own level in turns.
        turns = loop.processor is not None and _is_unit(self.program.machine, loop)
        if loop.kind == "parallel" and not turns:
            last = _Touched()
        inside, after = self.walk(loop.body, last)
        name, node = self._first_conflict(inside, before)
        ahead: list[Node] = []
        if name is not None and node is not None:  # once before it, not in each iteration
            ahead = [self._barrier(name, node)]
            before = _Touched()
        return replace(loop, body=inside), before | after, ahead

    def _first_conflict(
        self, body: tuple[Node, ...], before: _Touched
    ) -> tuple[str | None, Copy | Compute | None]:
        """Return the first node up to a barrier that conflicts with accesses before the body."""
        for node in body:
            if isinstance(node, Barrier):
                return None, None
            if isinstance(node, For | Role):
                name, inner = self._first_conflict(node.body, before)
                if name is not None:
                    return name, inner
            elif isinstance(node, Copy | Compute):
                name = before.conflict(node, *self._touches(node)) or self._twin(node, before)
                if name is not None:
                    return name, node
        return None, None

    def _touches(self, node: Copy | Compute) -> tuple[list[str], list[str]]:
        """Return the shared buffers that the units themselves read and write in a node."""
        read = [*self._names(reads(node)), *self._tables(node)]
        if isinstance(node, Copy) and node.channel is not None:
            return read, []  # whoever needs what it writes waits for the channel
        return read, self._names(writes(node))

    def _tables(self, node: Node) -> list[str]:
        """Return the shared buffers whose elements the units read as indices or counts."""
        return [name for name in tables(node) if name in self.shared]

    def _names(self, regions: Iterable[Region]) -> list[str]:
        return [r.buffer for r in regions if r.buffer in self.shared]

    def _barrier(self, name: str, node: Copy | Compute | For) -> Barrier:
        inner = self.program.machine.processors[-1].name
        rule = f"{inner}s share {name}, so all are done with it before it is used again"
        return Barrier(inner, replace(node.origin, rule=rule))
