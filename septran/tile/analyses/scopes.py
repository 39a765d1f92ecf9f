"""Scopes: the body to which a buffer or a channel's ring belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from septran.ir.index import Var
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

Path = tuple[int, ...]
"""The positions from the program's body down to a node."""


@dataclass(frozen=True)
class Block:
    """A body with the buffers and channels of its scope."""

    steps: tuple[Step, ...]
    buffers: tuple[str, ...]
    """Buffers of this scope; each has a fresh instance each time the body runs."""
    channels: tuple[str, ...]
    """Channels whose fills are counted from this body's start to its end."""


@dataclass(frozen=True)
class Step:
    """A node, or neighbouring roles that run beside each other, in a body."""

    nodes: tuple[Node, ...]
    """One node, or all roles of the group."""
    inner: tuple[Block | None, ...]
    """The bodies of loops and roles; None for other nodes."""
    born: tuple[str, ...]
    """Buffers of this scope whose first use is here."""
    path: Path


def blocks(program: TileProgram) -> Block:
    """Return the program's body, with every buffer and channel at the body it belongs to.

    A scope is the smallest body that holds all uses. A buffer's is also outside of three kinds of
    loops: those over which all its stages count (one whose index is in some of them only has rings
    of another length in each iteration), the loop over units that each have a part of it, and
    those over whose iterations it keeps its content.
    """
    params = frozenset(program.params)
    uses: dict[str, list[Path]] = {}
    outside: dict[str, frozenset[Var]] = {}
    for path, node in _paths(program.body, ()):
        # Only an index that is in the stage of every use stays in `outside`.
        for name, counted in _names(node):
            uses.setdefault(name, []).append(path)
            outside[name] = outside.get(name, counted) & counted
    kept = ((v, buffer.name) for buffer in program.buffers for v in buffer.kept)
    for variable, name in (*_spread(program), *kept):
        outside[name] = outside.get(name, frozenset()) | {variable}
    loops = {n.variable: path for path, n in _paths(program.body, ()) if isinstance(n, For)}
    homes: dict[Path, list[str]] = {}
    for name, paths in uses.items():
        if name in params:
            continue
        # The home is the deepest body around all uses that is also outside of these loops.
        tops = [loops[v][:-1] for v in outside.get(name, ()) if v in loops]
        home = _common([p[:-1] for p in paths] + [t for t in tops if _above(t, paths)])
        homes.setdefault(home, []).append(name)
    first = {name: min(paths) for name, paths in uses.items()}
    return _block(program.body, (), homes, first, _rings(program))


def _rings(program: TileProgram) -> frozenset[str]:
    return frozenset(f"~{c.name}" for c in program.channels)


def _names(node: Node) -> Iterator[tuple[str, frozenset[Var]]]:
    """The buffers and channels (behind a tilde) that a node uses, and the indices of its stage."""
    for region in regions(node):
        yield region.buffer, region.stage.variables()
    yield from ((name, frozenset()) for name in tables(node))
    match node:
        case Copy(channel=str(channel)):
            yield f"~{channel}", frozenset()
        case Acquire() | Commit() | Wait() | Release():
            yield f"~{node.channel}", frozenset()


def _spread(program: TileProgram) -> Iterator[tuple[Var, str]]:
    """Yield loops over units, with the buffers of which each unit has its part.

    They are in a memory that the units share, and are addressed by the unit's index. A temporary
    that the logic makes inside of the loop is not among them: the valid extent of a ragged tile of
    it depends on the index, too.
    """
    depth, params = program.machine.depth, set(program.params)
    owners = {m.name: depth(m.visible_to) for m in program.machine.memories}
    for loop in nodes(program.body):
        if not isinstance(loop, For) or loop.processor is None:
            continue
        level = depth(loop.processor)
        common = {
            b.name
            for b in program.buffers
            if owners[b.memory] < level and loop.variable not in b.own
        } - params
        for region in (r for n in nodes(loop.body) for r in regions(n)):
            name, mine = region.buffer, loop.variable
            if name not in common or not any(mine in e.variables() for e in region.index):
                continue
            yield mine, name


def _paths(body: tuple[Node, ...], above: Path) -> Iterator[tuple[Path, Node]]:
    for number, node in enumerate(body):
        path = (*above, number)
        yield path, node
        if isinstance(node, For | Role):
            yield from _paths(node.body, path)


def _above(scope: Path, paths: Iterable[Path]) -> bool:
    """Return whether a loop's surrounding body holds every use (else the index is another's)."""
    return all(path[: len(scope)] == scope for path in paths)


def _common(paths: list[Path]) -> Path:
    common = paths[0]
    for path in paths[1:]:
        length = 0
        while length < min(len(common), len(path)) and common[length] == path[length]:
            length += 1
        common = common[:length]
    return common


def _block(
    body: tuple[Node, ...],
    path: Path,
    homes: Mapping[Path, list[str]],
    first: Mapping[str, Path],
    rings: frozenset[str],
) -> Block:
    mine = homes.get(path, [])
    buffers = [name for name in mine if name not in rings and not name.startswith("~")]
    channels = [name[1:] for name in mine if name in rings]
    steps: list[Step] = []
    at = 0
    while at < len(body):
        end = at + 1
        # Neighbouring roles run at the same time, so they are one step.
        while isinstance(body[at], Role) and end < len(body) and isinstance(body[end], Role):
            end += 1
        inner = tuple(
            _block(n.body, (*path, at + k), homes, first, rings)
            if isinstance(n, For | Role)
            else None
            for k, n in enumerate(body[at:end])
        )
        born = tuple(b for b in buffers if at <= first[b][len(path)] < end)
        steps.append(Step(body[at:end], inner, born, (*path, at)))
        at = end
    return Block(tuple(steps), tuple(buffers), tuple(channels))
