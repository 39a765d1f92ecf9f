"""Elimination of packing where few products read an operand, as packing would cost more.

Only copies that the mapping leaves to choice are dropped: ``mems: {B: [NONE, L2]}``. A copy into a
cache is no necessity, as a gemm reads its operands anywhere. It makes rows of B adjacent, which
pays where many rows of A use each of them, or where B's own rows would evict each other from the
caches. What lies as an instruction multiplies it needs none for any number of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

from septran.dtypes import itemsize
from septran.tile.analyses.groups import pitch_in_place
from septran.tile.analyses.loops import covers, ranges, trips, walk
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    Region,
    RemovedCopy,
    Role,
    TileProgram,
    nodes,
    reads,
    rewrite,
    writes,
)

NAME = "read_in_place"
FEW_ROWS = 12
"""The rows of A up to which B is read in place wherever its rows lie.

Packing touches B as often as so few rows do.
"""
NARROW_ROWS = 8
"""The rows of A up to which B's elements may be widened at each use."""
SOME_ROWS = 144
"""The rows of A up to which B is read in place where its rows stay in a cache.

For more rows, packing pays.
"""
LINE = 64
"""The bytes of a cache line, and the bytes that a gemm takes of a row of B at once."""
LINES_OF_PANEL = 3
"""The lines of a row of B up to which rows one behind the other are what packing would make:
those of the widest register tile."""
PART = 4
"""The reciprocal of the share of a larger cache that B may take."""
WAYS = 8
"""The associativity of a first-level cache: lines that it holds with the same index."""
WIDE = ("float32", "float64")
NARROW = ("float16", "bfloat16")
_B = 2
"""The position of the operand whose rows are read as vectors."""


def read_in_place(program: TileProgram) -> TileProgram:
    """Drop copies into caches of what gemms read as fast where it is."""
    work = _Work(program)
    body = work.inside(program.body, ())
    if not work.removed:
        return program
    names = {removed.copy.target.buffer for removed in work.removed}
    buffers = tuple(b for b in program.buffers if b.name not in names)
    removed = program.removed + tuple(work.removed)
    return replace(program, body=body, buffers=buffers, removed=removed)


@dataclass(frozen=True)
class _Use:
    """A gemm that reads the copy as B."""

    rows: int
    """The rows of A that are multiplied by each element."""
    along: bool
    """Whether the source's adjacent elements are steps of the summed axis."""


@dataclass
class _Work:
    program: TileProgram
    removed: list[RemovedCopy] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = ranges(self.program.body)

    def inside(self, body: tuple[Node, ...], loops: tuple[For, ...]) -> tuple[Node, ...]:
        """Return a body without such copies, its gemms reading their sources."""
        result: list[Node] = []
        rest = list(body)
        while rest:
            node = rest.pop(0)
            if isinstance(node, Copy) and (reason := self._reason(node, tuple(rest))):
                self.removed.append(RemovedCopy(node, NAME, reason, trips(loops)))
                rest = list(rewrite(tuple(rest), partial(_redirected, node)))
                continue
            if isinstance(node, For | Role):
                around = (*loops, node) if isinstance(node, For) else loops
                node = replace(node, body=self.inside(node.body, around))
            result.append(node)
        return tuple(result)

    def _reason(self, copy: Copy, following: tuple[Node, ...]) -> str | None:
        """Return why a copy is not worth its time; None where it may be."""
        if not self._optional(copy):
            return None
        if taken := self._taken_in_groups(copy, following):
            return f"it lies in groups, as {taken} multiplies them"
        if not self._by_rows(copy):
            return None
        uses = self._uses(copy, following)
        rows = sum(use.rows for use in uses)
        along = any(use.along for use in uses)
        narrow = self._source(copy).dtype in NARROW
        if not uses:
            return None
        if rows <= (NARROW_ROWS if narrow else FEW_ROWS):
            return f"only {rows} rows are multiplied by it"
        if not along and not narrow and self._panel(copy.source):
            return "its rows lie one behind the other, as those of a panel"
        if not along and not narrow and rows <= SOME_ROWS and self._stays(copy.source):
            return f"its rows stay in a cache for the {rows} that are multiplied by them"
        return None

    def _uses(self, copy: Copy, following: tuple[Node, ...]) -> list[_Use]:
        """Return the gemms that multiply by a copy; none where it has other uses."""
        name, uses = copy.target.buffer, list[_Use]()
        for node, loops in walk(following):
            if name not in _names(node):
                continue
            if not isinstance(node, Compute) or node.primitive != "gemm":
                return []
            c, a, b = node.operands
            if name in (c.buffer, a.buffer) or not self._sums_as(copy, c):
                return []
            # A loop that only cuts the rows short, as a causal mask does, reads the same ones.
            moving = {v for part in (*b.index, b.stage) for v in part.variables()}
            again = [loop for loop in loops if loop.variable not in moving]
            strides = copy.source.compose(b).strides()
            along = strides is not None and strides[-1] == {0: 1}
            uses.append(_Use(a.shape[0] * trips(again, self.known), along))
        everywhere = sum(name in _names(n) for n in nodes(self.program.body))
        return uses if everywhere == len(uses) + 1 else []

    def _sums_as(self, copy: Copy, c: Region) -> bool:
        """Whether the sums have the operand's type, or the wider one that each use widens it to."""
        dtype, sums = self._source(copy).dtype, self.program.buffer(c.buffer).dtype
        return sums == ("float32" if dtype in NARROW else dtype)

    def _taken_in_groups(self, copy: Copy, following: tuple[Node, ...]) -> str:
        """Return the instruction that takes all of the copy in groups that its source lies in."""
        name, found = copy.target.buffer, set[str]()
        for node in nodes(following):
            if name not in _names(node):
                continue
            if not isinstance(node, Compute) or node.primitive != "gemm":
                return ""
            c, a, b = node.operands
            panels = self.program.machine.instruction(node.instruction).panels
            given = copy.source.compose(b)
            pitch = pitch_in_place(given, self._source(copy), panels, self.known)
            if name in (c.buffer, a.buffer) or not pitch:
                return ""
            found.add(node.instruction)
        everywhere = sum(name in _names(n) for n in nodes(self.program.body))
        inside = sum(name in _names(n) for n in nodes(following))
        return found.pop() if len(found) == 1 and everywhere == inside + 1 else ""

    def _optional(self, copy: Copy) -> bool:
        """Return whether a copy only packs a matrix of the caller's, which nobody changes."""
        target, source = self.program.buffer(copy.target.buffer), self._source(copy)
        if not self.program.machine.memory(target.memory).cached:
            return False
        if not copy.optional or copy.channel or copy.zero_fill:
            return False
        if copy.source.padded or copy.source.rank != 2:
            return False
        unchanged = source.name in self.program.params and all(
            r.buffer != source.name for n in nodes(self.program.body) for r in writes(n)
        )
        return source.dtype == target.dtype and unchanged and covers(copy.target, target.shape)

    def _by_rows(self, copy: Copy) -> bool:
        """Return whether it packs elements that are read as fast where they lie, side by side."""
        strides = copy.source.strides()
        return (
            self._source(copy).dtype in (*WIDE, *NARROW)
            and strides is not None
            and any(
                strides[-1] == {n: 1} and all(n not in row for row in strides[:-1]) for n in (0, 1)
            )
        )

    def _source(self, copy: Copy) -> Buffer:
        return self.program.buffer(copy.source.buffer)

    def _panel(self, source: Region) -> bool:
        """Whether it is stored as a panel: narrow rows, each right behind the one before."""
        width = source.shape[1] * itemsize(self.program.buffer(source.buffer).dtype)
        return width <= LINES_OF_PANEL * LINE and self._step(source) == width

    def _step(self, source: Region) -> int:
        """The bytes from one row of B to the next."""
        buffer, strides = self.program.buffer(source.buffer), source.strides()
        assert strides is not None
        return itemsize(buffer.dtype) * sum(
            row.get(0, 0) * math.prod(buffer.shape[n + 1 :]) for n, row in enumerate(strides)
        )

    def _stays(self, source: Region) -> bool:
        """Whether a line of each row fits the core's first cache, or B a part of its last one."""
        step = self._step(source)
        machine = self.program.machine
        core = machine.processors[-1].name
        caches = [m for m in machine.memories if m.cached and m.visible_to == core]
        sizes = sorted(m.capacity_bytes or 0 for m in caches)
        if not sizes or step == 0:
            return False
        # The set of a cache line repeats after a way's bytes, so rows `step` bytes apart fall on
        # way / gcd(step, way) different sets, of as many lines as there are ways.
        way = sizes[0] // WAYS
        places = min(way // LINE, way // math.gcd(step, way))
        rows = source.shape[0]
        return rows <= places * WAYS or rows * step <= sizes[-1] // PART


def _names(node: Node) -> set[str]:
    """Return the buffers that a node itself touches."""
    if isinstance(node, For | Role):
        return set()
    return {r.buffer for r in (*reads(node), *writes(node))}


def _redirected(copy: Copy, node: Node) -> tuple[Node, ...]:
    """Return a gemm that reads the source of `copy` in place of its target."""
    if not isinstance(node, Compute) or copy.target.buffer not in _names(node):
        return (node,)
    operands = list(node.operands)
    operands[_B] = copy.source.compose(operands[_B])
    return (replace(node, operands=tuple(operands)),)
