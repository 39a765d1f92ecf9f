"""Liveness: the range of nodes over which a buffer must keep its content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from septran.tile.analyses.scopes import Block, Path, blocks
from septran.tile.nodes import (
    Acquire,
    Commit,
    Copy,
    For,
    Node,
    Release,
    Role,
    TileProgram,
    Wait,
    nodes,
    regions,
    tables,
)


@dataclass(frozen=True)
class Life:
    """A buffer's live range in node numbers (program order, loops before their bodies)."""

    buffer: str
    first: int
    last: int
    roles: tuple[tuple[Path, Path], ...] = ()
    """The roles around its scope, each with the first role of its group."""
    spread: tuple[str, ...] = ()
    """The processor levels of the loops around its scope: each unit has its own instance."""

    def meets(self, other: Life) -> bool:
        """Return whether both must keep their content at one time."""
        if self.first <= other.last and other.first <= self.last:
            return True
        beside = dict(other.roles)  # roles run at the same time, whatever their order
        return any(
            other_role != role
            for group, role in self.roles
            if (other_role := beside.get(group)) is not None
        )


def liveness(program: TileProgram) -> tuple[Life, ...]:
    """Return the live range of every buffer that is used and not a parameter.

    A copy in flight uses its source and target from its issue to its last wait or release. A
    buffer used in a loop is live in all of the loop, unless it is fresh in each iteration. Roles
    side by side use what they share all the time.
    """
    spans = _spans(program.body, (), 0)
    homes = dict(_homes(blocks(program)))
    lives: dict[str, tuple[int, int]] = {}
    for path, name in _uses(program):
        if name not in homes:
            continue
        home = homes[name]
        # Seen from its scope, all of a loop's nodes count as one: the next iteration reads again.
        held = path[: len(home) + 1] if path[: len(home)] == home else path
        first, last = spans[held]
        known = lives.get(name, (first, last))
        lives[name] = (min(first, known[0]), max(last, known[1]))
    return tuple(
        Life(b.name, *lives[b.name], *_around(program.body, homes[b.name]))
        for b in program.buffers
        if b.name in lives
    )


def _spans(body: tuple[Node, ...], above: Path, start: int) -> dict[Path, tuple[int, int]]:
    """First and last node number of every node; neighbouring roles have one span together."""
    spans: dict[Path, tuple[int, int]] = {}
    number = start
    for position, node in enumerate(body):
        path = (*above, position)
        first, number = number, number + 1
        if isinstance(node, For | Role):
            spans |= _spans(node.body, path, number)
            number += sum(1 for _ in nodes(node.body))
        spans[path] = (first, number - 1)
    # Roles side by side run at the same time, so each lives as long as all of them.
    for group in role_groups(body):
        span = (spans[(*above, group[0])][0], spans[(*above, group[-1])][1])
        spans |= {(*above, position): span for position in group}
    return spans


def role_groups(body: tuple[Node, ...]) -> Iterator[list[int]]:
    """Yield the positions of roles that stand side by side."""
    group: list[int] = []
    for position, node in enumerate(body):
        if isinstance(node, Role):
            group.append(position)
        elif group:
            yield group
            group = []
    if group:
        yield group


def _homes(block: Block) -> Iterator[tuple[str, Path]]:
    if block.steps:
        home = block.steps[0].path[:-1]
        yield from ((name, home) for name in block.buffers)
    for step in block.steps:
        for inner in step.inner:
            if inner is not None:
                yield from _homes(inner)


def _around(
    body: tuple[Node, ...], home: Path
) -> tuple[tuple[tuple[Path, Path], ...], tuple[str, ...]]:
    """Return the roles and the processor levels of loops on the path to a node."""
    roles: list[tuple[Path, Path]] = []
    levels: list[str] = []
    for depth, position in enumerate(home):
        node = body[position]
        if isinstance(node, Role):
            group = next(g for g in role_groups(body) if position in g)
            roles.append(((*home[:depth], group[0]), home[: depth + 1]))
        assert isinstance(node, For | Role)
        if isinstance(node, For) and node.processor is not None:
            levels.append(node.processor)
        body = node.body
    return tuple(roles), tuple(levels)


def _uses(program: TileProgram) -> Iterator[tuple[Path, str]]:
    """Yield every use of a buffer: by a node itself, or by the handshake of a copy's channel."""
    moved: dict[str, set[str]] = {}
    for node in nodes(program.body):
        if isinstance(node, Copy) and node.channel is not None:
            moved.setdefault(node.channel, set()).update(r.buffer for r in regions(node))
    yield from _used(program.body, (), moved)


def _used(
    body: tuple[Node, ...], above: Path, moved: Mapping[str, set[str]]
) -> Iterator[tuple[Path, str]]:
    for position, node in enumerate(body):
        path = (*above, position)
        match node:
            case Acquire() | Commit() | Wait() | Release():
                yield from ((path, name) for name in sorted(moved.get(node.channel, ())))
            case For() | Role():
                yield from ((path, name) for name in tables(node))
                yield from _used(node.body, path, moved)
            case _:
                yield from ((path, region.buffer) for region in regions(node))
                yield from ((path, name) for name in tables(node))
