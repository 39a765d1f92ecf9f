"""The data-movement ledger: every copy with its bytes, its trips and its reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from septran.dtypes import itemsize
from septran.format_units import size_text
from septran.location import Location
from septran.stage import Displayable, view
from septran.tile.analyses.loops import bytes_of, walk
from septran.tile.analyses.tallies import amount
from septran.tile.handovers import TaskHandover, handovers
from septran.tile.nodes import (
    Commit,
    Copy,
    For,
    Node,
    RemovedCopy,
    Role,
    TileProgram,
    Wait,
    nodes,
    reads,
    writes,
)

HIDDEN, EXPOSED, REMOVED = "hidden", "exposed", "removed"


@dataclass(frozen=True)
class Entry:
    """One copy of the program, or one that a pass took out."""

    tensor: str
    source: str
    """The source memory."""
    target: str
    """The target memory."""
    bytes: int
    """Bytes of one trip of a full tile; for a multicast, the part that one block copies."""
    trips: int
    total_bytes: int
    """Bytes of all trips, with ragged tiles counted as they are; 0 where it was removed."""
    engine: str
    state: str
    """``hidden`` behind computation, ``exposed``, or ``removed``."""
    reason: str
    logic: Location | None
    mapping: Location | None
    saved_bytes: int = 0
    """The bytes that a removed copy would have moved."""
    by: str = ""
    """The pass that removed it; empty for others."""

    @property
    def edge(self) -> str:
        """The memory edge: ``DRAM -> L2``."""
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True)
class Ledger(Displayable):
    """All movement of a tile program, compared with the compulsory traffic of its logic."""

    name: str
    rows: tuple[Entry, ...]
    """The copies in program order, removed ones last."""
    main_memory: str
    least_bytes: int
    """The compulsory traffic in bytes: each input is read once, each output is written once."""
    in_place: tuple[str, ...]
    """The parameters that are used where they are, without any copy."""
    in_place_bytes: int
    """The part of `least_bytes` of those parameters."""
    handovers: tuple[TaskHandover, ...] = ()
    """What tasks hand to each other through main memory."""

    @property
    def edges(self) -> Mapping[str, int]:
        """Return the bytes by memory edge, in order of first use."""
        sums: dict[str, int] = {}
        for row in self.rows:
            if row.state != REMOVED:
                sums[row.edge] = sums.get(row.edge, 0) + row.total_bytes
        return sums

    @property
    def main_memory_bytes(self) -> int:
        """The bytes that copies move from and to main memory; tensors used in place count once."""
        # A copy within main memory counts twice: it is read there and written there.
        moved = (
            row.total_bytes * [row.source, row.target].count(self.main_memory) for row in self.rows
        )
        return sum(moved) + self.in_place_bytes

    @property
    def ratio(self) -> float:
        """The main-memory traffic over the compulsory traffic; 1 is perfect."""
        return self.main_memory_bytes / self.least_bytes if self.least_bytes else 1.0

    def records(self) -> list[dict[str, Any]]:
        """Return one flat dict for each row: ``pandas.DataFrame(ledger.records())``."""
        places = ("logic", "mapping")
        return [
            {**asdict(row), "edge": row.edge}
            | {place: _place(getattr(row, place)) for place in places}
            for row in self.rows
        ]

    def explore(self) -> Any:
        """Return the copies as an interactive graph: memories, bands, and why each is there."""
        return view(self, "live")

    def __str__(self) -> str:
        if not self.rows:
            nothing = f"{self.name} copies nothing: every tensor is used where it is"
            return "\n\n".join(filter(None, [nothing, self.between_tasks])) + "\n"
        lines = _table([_HEAD, *_rows(self.rows)])
        moved = ", ".join(f"{edge} {_bytes(count)}" for edge, count in self.edges.items())
        lines += ["", f"moved: {moved}", f"compulsory traffic: {_bytes(self.least_bytes)}"]
        traffic = f"{self.main_memory} traffic: {_bytes(self.main_memory_bytes)}"
        lines.append(f"{traffic}, {self.ratio:.2f} times the least")
        if self.in_place:
            lines.append(f"used in place: {', '.join(self.in_place)}")
        return "\n\n".join(filter(None, ["\n".join(lines), self.between_tasks])) + "\n"

    @property
    def between_tasks(self) -> str:
        """The table of `handovers`: who writes and reads each, its bytes, and what one task saves.

        It is empty where tasks hand nothing to each other through main memory.
        """
        if not self.handovers:
            return ""
        rows = [
            [
                h.tensor,
                f"{h.bytes:,}",
                *map(", ".join, (h.writers, h.readers)),
                f"{h.saved_bytes:,}",
            ]
            for h in self.handovers
        ]
        return "\n".join(_table([_BETWEEN, *rows]))


def ledger(program: TileProgram) -> Ledger:
    """Return the ledger of `program`: every copy, its bytes and its reason; removed ones, too."""
    others = _by_roles(program.body)
    rows = [
        _entry(program, node, loops, any(node is other for other in others))
        for node, loops in walk(program.body)
        if isinstance(node, Copy)
    ]
    rows += [_removed(program, removed) for removed in program.removed]
    copied = {r.buffer for n in nodes(program.body) if isinstance(n, Copy)
              for r in (n.source, n.target)}  # fmt: skip
    needs = {name: _least(program, name) for name in program.params}
    in_place = tuple(n for n in program.params if n not in copied and needs[n])
    return Ledger(
        program.name,
        tuple(rows),
        program.machine.main_memory.name,
        sum(needs.values()),
        in_place,
        sum(needs[n] for n in in_place),
        handovers(program),
    )


def _entry(program: TileProgram, copy: Copy, loops: tuple[For, ...], in_role: bool) -> Entry:
    source, target = (program.buffer(r.buffer) for r in (copy.source, copy.target))
    width = itemsize(source.dtype)
    trips, elements = amount(copy.source, loops)
    many = copy.receivers
    return Entry(
        tensor=_tensor(program, copy),
        source=source.memory,
        target=target.memory,
        bytes=bytes_of(copy.source, width) // many,
        trips=trips,
        total_bytes=elements * width // many,
        engine=f"{copy.engine}, multicast to {many} blocks" if many > 1 else copy.engine,
        state=HIDDEN if _is_hidden(program, copy, loops, in_role) else EXPOSED,
        reason=copy.origin.rule,
        logic=copy.origin.logic,
        mapping=copy.origin.mapping,
    )


def _removed(program: TileProgram, removed: RemovedCopy) -> Entry:
    copy = removed.copy
    # The pass may have dropped the buffers of the copy as well: then only their names are left.
    memories = {b.name: b for b in program.buffers}
    source, target = memories.get(copy.source.buffer), memories.get(copy.target.buffer)
    width = itemsize((source or target or program.buffers[0]).dtype)
    size = bytes_of(copy.source, width)
    return Entry(
        tensor=_tensor(program, copy),
        source=source.memory if source else copy.source.buffer,
        target=target.memory if target else copy.target.buffer,
        bytes=size,
        trips=removed.trips,
        total_bytes=0,
        engine=copy.engine,
        state=REMOVED,
        reason=removed.reason,
        logic=copy.origin.logic,
        mapping=copy.origin.mapping,
        saved_bytes=size * removed.trips,
        by=removed.by,
    )


def _tensor(program: TileProgram, copy: Copy) -> str:
    """Return the logic's name of the tensor that a copy moves, a parameter's if one end is one."""
    ends = (copy.source.buffer, copy.target.buffer)
    names = {b.name: b.tensor for b in program.buffers}
    param = next((end for end in ends if end in program.params), None)
    return param or next((names[e] for e in ends if names.get(e)), ends[0])


def _is_hidden(program: TileProgram, copy: Copy, loops: tuple[For, ...], in_role: bool) -> bool:
    """Return whether computation goes on while a copy is in flight.

    It must be asynchronous, have a stage to spare, and be issued beside its reader: by another
    role, or in a loop that waits for an earlier fill than the one that the copy is part of.
    """
    if copy.channel is None or program.channel(copy.channel).stages < 2:
        return False
    if in_role:
        return True
    here = tuple(nodes(loops[-1].body)) if loops else ()
    brought = {n.index for n in here if isinstance(n, Commit) and n.channel == copy.channel}
    awaited = {n.index for n in here if isinstance(n, Wait) and n.channel == copy.channel}
    # A loop that waits for the very fill that it issues waits for the copy at once.
    return not awaited <= brought


def _by_roles(body: tuple[Node, ...]) -> list[Copy]:
    """Return the asynchronous copies that a role issues."""
    found: list[Copy] = []
    for role in (n for n in nodes(body) if isinstance(n, Role)):
        found += [n for n in nodes(role.body) if isinstance(n, Copy) and n.channel is not None]
    return found


def _least(program: TileProgram, name: str) -> int:
    """Return a parameter's compulsory bytes: once for reading and once for writing it, if done."""
    buffer = program.buffer(name)
    read = any(r.buffer == name for n in nodes(program.body) for r in reads(n))
    written = any(r.buffer == name for n in nodes(program.body) for r in writes(n))
    written = written and name in program.outputs
    # To read again what the program itself has written is not compulsory.
    if name in program.outputs and not _first_is_read(program, name):
        read = False
    return math.prod(buffer.shape) * itemsize(buffer.dtype) * (read + written)


def _first_is_read(program: TileProgram, name: str) -> bool:
    """Return whether an output's old content matters: it is read before it is written."""
    for node in nodes(program.body):
        if any(r.buffer == name for r in reads(node)):
            return True
        if any(r.buffer == name for r in writes(node)):
            return False
    return False


_BETWEEN = ["between tasks", "bytes", "written by", "read by", "one task saves"]
_HEAD = ["tensor", "edge", "bytes", "trips", "total", "engine", "state", "reason"]


def _rows(rows: Iterable[Entry]) -> Iterator[list[str]]:
    """Yield the cells of each row; a reason that an earlier row has is not said again."""
    said: set[tuple[str, str]] = set()
    for row in rows:
        *cells, reason = _cells(row)
        again = (row.tensor, reason) in said
        said.add((row.tensor, reason))
        yield [*cells, f"as that of {row.tensor} above" if again else reason]


def _bytes(count: int) -> str:
    """Return a number of bytes, in a unit that people use beside it."""
    unit = f" ({size_text(count)})" if count >= 1024 else ""
    return f"{count:,} bytes{unit}"


def _cells(row: Entry) -> list[str]:
    places = ", ".join(_place(p) for p in (row.logic, row.mapping) if p)
    total = f"-{row.saved_bytes:,}" if row.state == REMOVED else f"{row.total_bytes:,}"
    state = f"removed by {row.by}" if row.state == REMOVED else row.state
    reason = f"{row.reason} [{places}]" if places else row.reason
    cells = [row.tensor, row.edge, f"{row.bytes:,}", f"{row.trips:,}", total, row.engine]
    return [*cells, state, reason]


def _place(place: Location | None) -> str:
    return str(place) if place else ""


def _table(rows: list[list[str]]) -> list[str]:
    """Return columns aligned, with numbers to the right."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.rjust(width) if cell.lstrip("-").replace(",", "").isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
