"""Every copy and synchronisation of a tile program, numbered, with the reason it exists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from septran.dtypes import itemsize
from septran.format_units import size_text
from septran.location import Location
from septran.tile.analyses.loops import bytes_of, trips, walk
from septran.tile.analyses.tallies import amount
from septran.tile.nodes import (
    Acquire,
    Barrier,
    Commit,
    Copy,
    For,
    Node,
    Origin,
    Release,
    TileProgram,
    Wait,
)
from septran.tile.printer import node_text

Moving = Copy | Acquire | Commit | Wait | Release | Barrier


@dataclass(frozen=True)
class Movement:
    """One copy, wait or other synchronisation."""

    number: int
    """Its place among them, from 1, in program order."""
    kind: str
    """``copy``, ``wait``, ``acquire``, ``commit``, ``release`` or ``barrier``."""
    text: str
    """The node as the printer writes it."""
    node: Moving
    origin: Origin
    trips: int
    """How often it runs, each loop at its greatest extent."""
    bytes: int = 0
    """Bytes of one trip, of a full tile; 0 for what only synchronises."""
    total_bytes: int = 0
    """Bytes of all trips, ragged tiles counted as they are."""


def movements(program: TileProgram) -> tuple[Movement, ...]:
    """All of a program, in program order."""
    found: list[Movement] = []
    for node, loops in walk(program.body):
        if isinstance(node, Moving):
            found.append(_movement(len(found) + 1, node, loops, program))
    return tuple(found)


def _movement(number: int, node: Moving, loops: tuple[For, ...], program: TileProgram) -> Movement:
    kind, text = type(node).__name__.lower(), node_text(node, program)
    if not isinstance(node, Copy):
        return Movement(number, kind, text, node, node.origin, trips(loops))
    width = itemsize(program.buffer(node.source.buffer).dtype)
    count, elements = amount(node.source, loops)
    size = bytes_of(node.source, width)
    return Movement(number, kind, text, node, node.origin, count, size, elements * width)


def to_text(program: TileProgram) -> str:
    """A paragraph for each: what it is, the rule, the logic line and the mapping line."""
    found = movements(program)
    if not found:
        return "no copies and no waits: every tensor is used where it is\n"
    return "\n".join(line for movement in found for line in _paragraph(movement)) + "\n"


def amount_of(movement: Movement) -> str:
    """Return how often, and of how many bytes: ``12 x 4 KiB``, at most where tiles are ragged."""
    if not movement.bytes:
        return "once" if movement.trips == 1 else f"{movement.trips:,} times"
    full = movement.bytes * movement.trips == movement.total_bytes
    return f"{movement.trips:,} x {'' if full else 'at most '}{size_text(movement.bytes)}"


def _paragraph(movement: Movement) -> Iterator[str]:
    yield f"{movement.number}. {movement.text}  ({amount_of(movement)})"
    yield f"   because  {movement.origin.rule}"
    yield f"   logic    {place_text(movement.origin.logic)}"
    yield f"   mapping  {place_text(movement.origin.mapping)}"


def place_text(where: Location | None) -> str:
    """A place and the line that is there; says so where a default decided."""
    if where is None:
        return "(a default: no line asks for it)"
    return f"{where}  {where.text.strip()}".rstrip()


def synchronises(node: Node) -> bool:
    """Whether a node only orders others."""
    return isinstance(node, Acquire | Commit | Wait | Release | Barrier)
