"""Check that writes reach the tensor they belong to: no copy back goes out too early.

A tensor is often in several memories at one time, each copy of it staged from the one before. A
write to a staged copy is lost if nobody reads it before the copy is refilled, or at all: then it
was copied back too early, or along the wrong path. This is a liveness analysis, which follows the
elements still to be read backwards through the program (live variables, as in Aho, Lam, Sethi,
Ullman, Compilers, 2nd edition, 9.2.5), by regions where they are affine and else by buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from septran.errors import TileError
from septran.ir.bounds import greatest
from septran.ir.index import Range, Var
from septran.tile.analyses.indirect import IndexReads
from septran.tile.analyses.loops import covers, depends, may_overlap, ranges
from septran.tile.interpret.channel_state import located
from septran.tile.nodes import (
    Buffer,
    Copy,
    For,
    Node,
    Region,
    Role,
    TileProgram,
    nodes,
    reads,
    writes,
)


class LostWriteError(TileError):
    """A write to a staged copy of an output never reaches the output."""

    code = "SEP440"
    of_passes = True


def check_lost_writes(program: TileProgram, chosen: IndexReads) -> Iterator[TileError]:
    """Yield an error for each write to a staged output that nobody reads.

    `chosen` is what nodes read as indices or counts, besides their regions.
    """
    yield from _Search(program, chosen).found()


@dataclass(frozen=True)
class _Live:
    """The elements that are read later, before they are refilled."""

    regions: frozenset[Region] = frozenset()
    buffers: frozenset[str] = frozenset()
    """Buffers any part of which may be read, as another iteration reads them."""

    def __or__(self, other: _Live) -> _Live:
        return _Live(self.regions | other.regions, self.buffers | other.buffers)

    def reading(self, regions: Iterable[Region]) -> _Live:
        """Return the set before a node that reads these regions, too."""
        return _Live(self.regions | frozenset(regions), self.buffers)

    def without(self, region: Region, buffer: Buffer) -> _Live:
        """Return the set before a copy that refills all of `region`."""
        # A copy fills one stage only, so of a buffer with several just this very region is gone.
        whole = buffer.stages == 1 and covers(region, buffer.shape)
        gone = {r for r in self.regions if r == region or (whole and r.buffer == buffer.name)}
        return _Live(self.regions - gone, self.buffers - {buffer.name} if whole else self.buffers)

    def outside(self, loop: For) -> _Live:
        """Return the set outside of a loop, where its index has no meaning."""
        inside = {r for r in self.regions if depends(r, loop.variable)}
        return _Live(self.regions - inside, self.buffers | {r.buffer for r in inside})

    def of_other_iterations(self, loop: For, buffers: Mapping[str, Buffer]) -> _Live:
        """The elements that further iterations read; a parallel one has buffers of its own."""
        seen = self.outside(loop)
        own = {name for name, b in buffers.items() if loop.variable in b.own}
        kept = frozenset(r for r in seen.regions if r.buffer not in own)
        return _Live(kept, seen.buffers - own)

    def touches(self, region: Region, known: Mapping[Var, Range]) -> bool:
        """Return whether any element of `region` is read."""
        if region.buffer in self.buffers:
            return True
        return any(may_overlap(region, r, known) for r in self.regions)


@dataclass
class _Search:
    """One backward pass through a program."""

    program: TileProgram
    chosen: IndexReads
    exposed: dict[int, _Live] = field(default_factory=dict)
    """For each body, by its node's identity, the elements that it reads from before it."""

    def __post_init__(self) -> None:
        self.buffers = {b.name: b for b in self.program.buffers}
        self.known = ranges(self.program.body)
        self.hops = self._hops()
        self.owed = self.hops.keys() - set(self.program.params)
        self.lost: list[Node] = []

    def found(self) -> Iterator[TileError]:
        """Yield the errors, in the program's order."""
        self._before(self.program.body, _Live(), report=True)
        for node in reversed(self.lost):
            target = writes(node)[0]
            tensor = self.buffers[target.buffer].tensor
            message = (
                f"what is written to {target} is lost: nobody reads it before {target.buffer} "
                f"ends or is filled again, so {tensor} does not get it"
            )
            yield located(LostWriteError, message, node.origin)

    def _before(self, body: tuple[Node, ...], live: _Live, report: bool) -> _Live:
        """Return the elements that are live before `body`, given those that are live after it."""
        roles = [n for n in body if isinstance(n, Role)]
        for role in roles:  # they run at one time, so each may read what any other one writes
            live |= _Live(
                buffers=frozenset(r.buffer for n in nodes(role.body) for r in self._reads(n))
            )
        for node in reversed(body):
            if isinstance(node, For | Role):
                live = self._before_body(node, live, report)
                continue
            if report and self._to_be_read(node) and not live.touches(writes(node)[0], self.known):
                self.lost.append(node)
            # Other writes end nothing's life here: with too much alive fewer writes are refused.
            if isinstance(node, Copy) and self._same_tensor(node):
                live = live.without(node.target, self.buffers[node.target.buffer])
            live = live.reading(self._reads(node))
        return live

    def _before_body(self, node: For | Role, live: _Live, report: bool) -> _Live:
        """Return the elements that are live before a loop or role.

        A loop may run no iteration at all: what is live after it is live before it.
        """
        if isinstance(node, For) and greatest(node.extent, self.known) <= 0:
            return live  # it never turns, as one over T - 1 rows where a call has one of T
        if id(node) not in self.exposed:
            # No fixed point is needed: what an iteration itself reads from before it does not
            # depend on what is live at its end.
            self.exposed[id(node)] = self._before(node.body, _Live(), report=False)
        reading = self.exposed[id(node)]
        if isinstance(node, For):
            inside = live | reading.of_other_iterations(node, self.buffers)
            reading = reading.outside(node)
        else:
            inside = live
        if report:
            self._before(node.body, inside, report=True)
        return (live | reading).reading(self._reads(node))

    def _reads(self, node: Node) -> tuple[Region, ...]:
        return (*reads(node), *self.chosen[id(node)])

    def _hops(self) -> dict[str, int]:
        """Return buffers that hold elements of an output, and how many copies away from it.

        A logic may compute values that it never uses, as a state's last update, so nothing can be
        said of temporaries. But the last write to any copy of an output is for the caller.
        """
        pairs = [
            {n.source.buffer, n.target.buffer}
            for n in nodes(self.program.body)
            if isinstance(n, Copy) and self._same_tensor(n)
        ]
        hops = dict.fromkeys(self.program.outputs, 0)
        while more := {name for pair in pairs if pair & hops.keys() for name in pair - hops.keys()}:
            hops |= dict.fromkeys(more, max(hops.values()) + 1)
        return hops

    def _to_be_read(self, node: Node) -> bool:
        written = writes(node)
        if not written or written[0].buffer not in self.owed:
            return False
        # A loop that reads what was brought in before it may have no iteration: the output has what
        # nobody read.
        if isinstance(node, Copy) and self._same_tensor(node) and self._inwards(node):
            return False
        # A region that is empty in every iteration has nothing to lose.
        return all(greatest(extent, self.known) > 0 for extent in written[0].valid)

    def _inwards(self, copy: Copy) -> bool:
        return self.hops[copy.source.buffer] < self.hops[copy.target.buffer]

    def _same_tensor(self, copy: Copy) -> bool:
        tensor = self.buffers[copy.target.buffer].tensor
        return bool(tensor) and tensor == self.buffers[copy.source.buffer].tensor
