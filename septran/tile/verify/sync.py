"""Check that handshakes order all conflicting accesses, whatever hardware chooses.

The program is walked once with a clock for every thread and a mark for every copy in flight
(vector clocks). Two accesses to the same elements, one of them a write, must be ordered by program
order, a wait, a release and acquire, or a barrier; as waits only depend on what was committed and
released, one schedule then speaks for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from septran.errors import TileError
from septran.ir.bounds import greatest, least
from septran.ir.index import Range, Var
from septran.tile.analyses.indirect import IndexReads
from septran.tile.analyses.loops import ends, walk
from septran.tile.analyses.scopes import Block
from septran.tile.interpret.channel_state import Fill, Flight, Thread, located
from septran.tile.interpret.execution import Execution, Schedule, ThreadState
from septran.tile.interpret.storage import PreparedRegion
from septran.tile.nodes import (
    Acquire,
    Barrier,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Region,
    Release,
    Role,
    TileProgram,
    Wait,
    nodes,
    reads,
    regions,
    writes,
)
from septran.tile.verify.footprint import Box, Cells, footprint, meet, scattered
from septran.tile.verify.loop_sampling import SkippedIterations


class OrderError(TileError):
    """Two accesses to the same elements are not ordered, and one of them writes."""

    code = "SEP433"
    of_passes = True


def check_sync(
    program: TileProgram, top: Block, full: bool, chosen: IndexReads
) -> Iterator[TileError]:
    """Yield the first error in the handshakes, if any; `chosen` is what is read as indices."""
    if not any(_ordering(n) for n in nodes(program.body)):
        return
    skipped = SkippedIterations(program, full)
    error = _walked(program, top, skipped, chosen)
    if skipped.uneven or (skipped.any and error is not None):  # not sure: leave out no fill
        error = _walked(program, top, SkippedIterations(program, full, rings=False), chosen)
    if error is not None:
        yield error


def _walked(
    program: TileProgram, top: Block, skipped: SkippedIterations, chosen: IndexReads
) -> TileError | None:
    """Return the error of a walk, which proves nothing where it was `skipped.uneven`."""
    try:
        Execution(program, _Clocks(program, skipped, chosen), Schedule(), top).run({})
    except TileError as error:
        return error
    return None


def _ordering(node: Node) -> bool:
    match node:
        case Copy():
            return node.channel is not None
        case Acquire() | Commit() | Wait() | Release() | Barrier() | Role():
            return True
        case _:
            return False


@dataclass
class _Clock:
    """The events that a thread knows to have happened."""

    seen: dict[Thread, int] = field(default_factory=dict)
    landed: set[Flight] = field(default_factory=set)

    def join(self, other: _Clock) -> None:
        for thread, time in other.seen.items():
            self.seen[thread] = max(self.seen.get(thread, 0), time)
        self.landed |= other.landed

    def copy(self) -> _Clock:
        return _Clock(dict(self.seen), set(self.landed))


@dataclass(frozen=True)
class _Event:
    """An access to a box of one stage of a buffer."""

    actor: Thread | Flight
    time: int
    stage: int
    box: Box
    written: bool
    region: Region
    node: Node
    cells: Cells | None = None
    """The numbers of the exact elements where the box includes others; None where it is exact."""


@dataclass
class _Handed:
    """The data of a fill: the clocks at its commit and at its releases."""

    committed: _Clock | None = None
    released: list[_Clock] = field(default_factory=list)


@dataclass(frozen=True)
class _Summary:
    """The elements that a loop without handshakes touches, over all of its iterations."""

    uses: tuple[tuple[Region, Node, bool], ...]
    spans: Mapping[Var, Range]


class _Clocks:
    """The effects that note each access with the clock of its thread."""

    def __init__(
        self, program: TileProgram, skipped: SkippedIterations, chosen: IndexReads
    ) -> None:
        self.program, self.skipped, self.chosen = program, skipped, chosen
        self.clocks: dict[Thread, _Clock] = {}
        self.shared = _shared(program, chosen)
        self.scattered = scattered(program) & self.shared
        self.accesses: dict[int, PreparedRegion] = {}
        self.summaries: dict[int, _Summary | None] = {}
        self.pages: dict[str, list[_Event]] = {name: [] for name in program.params}

    def enter(self, block: Block, frame: ThreadState) -> ThreadState:
        fresh: dict[str, list[_Event]] = {n: [] for n in block.buffers if n in self.shared}
        return replace(frame, memory={**frame.memory, **fresh}) if fresh else frame

    def born(self, buffers: tuple[str, ...], frame: ThreadState) -> None:
        """Do nothing: content does not matter here."""

    def unit(self, node: For | Role, frame: ThreadState) -> ThreadState:
        return frame

    def _clock(self, thread: Thread) -> _Clock:
        if thread not in self.clocks:
            self.clocks[thread] = _Clock({thread: 1})
        return self.clocks[thread]

    def copy(self, node: Copy, frame: ThreadState) -> None:
        self._touch_tables(node, frame, frame.thread)
        self._touch(node.source, node, frame, frame.thread, written=False)
        self._touch(node.target, node, frame, frame.thread, written=True)

    def compute(self, node: Compute, frame: ThreadState) -> None:
        self._touch_tables(node, frame, frame.thread)
        for region in reads(node):
            self._touch(region, node, frame, frame.thread, written=False)
        for region in writes(node):
            self._touch(region, node, frame, frame.thread, written=True)

    def issue(self, node: Copy, frame: ThreadState, land_now: bool) -> Flight:
        # The copy itself is the actor, not its thread: it may happen at any time until the wait.
        flight = Flight(node, lambda: None)
        self._touch_tables(node, frame, flight)
        self._touch(node.source, node, frame, flight, written=False)
        self._touch(node.target, node, frame, flight, written=True)
        return flight

    def _touch_tables(self, node: Node, frame: ThreadState, actor: Thread | Flight) -> None:
        """Note the reads of indices and counts; which elements they are only a call tells."""
        for region in self._tables(node):
            now = self._clock(frame.thread).seen[frame.thread]
            box = tuple((0, extent - 1) for extent in region.shape)
            read = _Event(actor, now, 0, box, written=False, region=region, node=node)
            self._note(read, frame)

    def _tables(self, node: Node) -> list[Region]:
        return [region for region in self.chosen[id(node)] if region.buffer in self.shared]

    def _touch(
        self,
        region: Region,
        node: Node,
        frame: ThreadState,
        actor: Thread | Flight,
        *,
        written: bool,
    ) -> None:
        if region.buffer not in self.shared:
            return
        access = self.accesses.get(id(region))
        if access is None or access.region is not region:
            access = self.accesses[id(region)] = PreparedRegion(region, node.origin)
        if region.buffer in self.scattered:
            shape = self.program.buffer(region.buffer).shape
            box, cells = footprint(region, shape, frame.values)
        else:
            box, cells = _box(access, frame.values), None
        stage = region.stage.evaluate(frame.values)
        now = self._clock(frame.thread).seen[frame.thread]
        self._note(_Event(actor, now, stage, box, written, region, node, cells), frame)

    def _note(self, event: _Event, frame: ThreadState) -> None:
        page = frame.memory.get(event.region.buffer)
        if page is None:
            page = self.pages.setdefault(event.region.buffer, [])
        clock = self._clock(frame.thread)
        kept: list[_Event] = []
        for other in page:
            conflict = (other.written or event.written) and other.stage == event.stage
            if conflict and _overlap(other.box, event.box) and meet(other.cells, event.cells):
                if not _before(other, clock):
                    raise _unordered(other, event, frame.thread)
                # An access that is ordered before a write of all its elements need not be kept:
                # whatever conflicts with it conflicts with the write, too.
                if event.written and event.cells is None and _covers(event.box, other.box):
                    continue
            kept.append(other)
        kept.append(event)
        page[:] = kept

    def hand_over(self, kind: str, fill: Fill, frame: ThreadState) -> None:
        clock = self._clock(frame.thread)
        if fill.data is None:
            fill.data = _Handed()
        handed: _Handed = fill.data
        match kind:
            case "commit":
                handed.committed = clock.copy()
            case "release":
                handed.released.append(clock.copy())
            case "wait":
                # Who waits knows all that the committing thread did before, and that the copies are
                # done.
                if handed.committed is not None:
                    clock.join(handed.committed)
                clock.landed.update(fill.flights)
            case "acquire":
                for known in handed.released:
                    clock.join(known)
        # Later events of this thread are unknown to whoever learns of this handshake.
        clock.seen[frame.thread] += 1

    def fork(self, parent: Thread, children: list[Thread]) -> None:
        clock = self._clock(parent)
        for child in children:
            self.clocks[child] = clock.copy()
            self.clocks[child].seen[child] = 1
        # What the parent does from here on, its children do not know.
        clock.seen[parent] += 1

    def join(self, parent: Thread, children: list[Thread]) -> None:
        for child in children:
            self._clock(parent).join(self.clocks[child])

    def meet(self, threads: list[Thread]) -> None:
        together = _Clock()
        for thread in threads:
            together.join(self._clock(thread))
        for thread in threads:
            self.clocks[thread].join(together)
            self.clocks[thread].seen[thread] += 1

    def absorb(self, node: For, frame: ThreadState) -> bool:
        """Treat a loop without handshakes as one access to all that it touches."""
        self._touch_tables(node, frame, frame.thread)
        if id(node) not in self.summaries:
            self.summaries[id(node)] = self._summary(node)
        summary = self.summaries[id(node)]
        if summary is None:
            return False
        # No handshake is inside of the loop, so all its accesses have the time of its start.
        now = self._clock(frame.thread).seen[frame.thread]
        known = {**{v: (n, n) for v, n in frame.values.items()}, **summary.spans}
        for region, user, written in summary.uses:
            stage, last = least(region.stage, known), greatest(region.stage, known)
            box = _wide_box(region, known)
            for number in range(stage, last + 1):
                event = _Event(frame.thread, now, number, box, written, region, user)
                self._note(event, frame)
        return True

    def _summary(self, node: For) -> _Summary | None:
        if any(_ordering(n) for n in nodes(node.body)):
            return None
        channels = {
            n.target.buffer for n in nodes(self.program.body) if isinstance(n, Copy) and n.channel
        }
        uses: list[tuple[Region, Node, bool]] = []
        spans: dict[Var, Range] = {}
        for inner, loops in walk((node,)):
            if isinstance(inner, For) and not inner.extent.is_constant:
                return None  # ragged: walk it
            for loop in (*loops, inner):
                if isinstance(loop, For):
                    spans[loop.variable] = (0, max(0, loop.extent.constant - 1))
            uses += [(region, inner, False) for region in self._tables(inner)]
            for region in regions(inner):
                if region.buffer in channels:
                    return None  # each read is set against its wait
                if region.buffer in self.shared:
                    uses += [(region, inner, False)] if region in reads(inner) else []
                    uses += [(region, inner, True)] if region in writes(inner) else []
        return _Summary(tuple(dict.fromkeys(uses)), spans)

    def trips(self, node: For, extent: int, frame: ThreadState) -> Iterable[int]:
        """Return the first and last iterations, with fill numbers counted on across the gap."""
        return self.skipped.trips(node, extent, frame)


def _shared(program: TileProgram, chosen: IndexReads) -> frozenset[str]:
    """Return buffers where order matters: written, and touched in flight or by several threads."""
    users: dict[str, set[int]] = {}
    written: set[str] = set()
    meeting = {n.processor for n in nodes(program.body) if isinstance(n, Barrier)}

    def visit(body: tuple[Node, ...], thread: int) -> None:
        for node in body:
            flying = isinstance(node, Copy) and node.channel is not None
            for name in (r.buffer for r in (*regions(node), *chosen[id(node)])):
                # A copy in flight counts as a thread of its own (-1): it runs beside the one that
                # issued it.
                users.setdefault(name, set()).update({thread, -1} if flying else {thread})
            written.update(r.buffer for r in writes(node))
            if isinstance(node, Role):
                visit(node.body, id(node))
            elif isinstance(node, For):
                visit(node.body, id(node) if node.processor in meeting else thread)

    visit(program.body, 0)
    # With barriers, iterations of one loop are threads, too, which `users` counts as one.
    several = {n for n, who in users.items() if len(who) > 1} if not meeting else set(users)
    return frozenset(several & written)


def _box(access: PreparedRegion, values: Mapping[Var, int]) -> Box:
    """Return first and last coordinate along each axis of the buffer, for an affine map."""
    extents = [max(0, v.evaluate(values)) for v in access.region.valid]
    return tuple(access.box(values, extents))


def _wide_box(region: Region, known: Mapping[Var, Range]) -> Box:
    # Where the map is not affine the box has no axes, and so overlaps every other one.
    found = ends(region) or []
    return tuple((least(low, known), greatest(high, known)) for low, high in found)


def _overlap(a: Box, b: Box) -> bool:
    return all(p[0] <= q[1] and q[0] <= p[1] for p, q in zip(a, b, strict=False))


def _covers(a: Box, b: Box) -> bool:
    return len(a) == len(b) > 0 and all(
        p[0] <= q[0] and q[1] <= p[1] for p, q in zip(a, b, strict=True)
    )


def _before(event: _Event, clock: _Clock) -> bool:
    # A copy is over only for who has waited for it, or has learned of that wait since.
    if isinstance(event.actor, Flight):
        return event.actor in clock.landed
    return clock.seen.get(event.actor, 0) >= event.time


def _unordered(first: _Event, second: _Event, thread: Thread) -> TileError:
    who = "a copy in flight" if isinstance(first.actor, Flight) else first.actor.name
    did = "writes" if first.written else "reads"
    does = "written" if second.written else "read"
    message = (
        f"{second.region} is {does} by {thread.name} while {who} still {did} {first.region}: "
        "nothing orders the two"
    )
    place = first.node.origin.logic or first.node.origin.mapping
    notes = [("the other access", place)] if place else []
    return located(OrderError, message, second.node.origin, notes=notes)
