"""The events of a tile program: the nodes that run, in order, with their indices.

The program is walked as hardware would, roles and channels included, but copies and
computations only leave a note. Iterations that do not matter can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from septran.errors import CallError
from septran.ir.index import Range, Var, axis
from septran.tile.analyses.indirect import supposed
from septran.tile.analyses.loops import ranges, used, walk
from septran.tile.analyses.scopes import Block
from septran.tile.interpret.channel_state import Fill, Flight, Thread
from septran.tile.interpret.execution import Execution, Schedule, ThreadState
from septran.tile.nodes import Compute, Copy, For, Node, Region, Role, TileProgram, nodes, regions

MOST = 400_000
"""Events that are kept; a program with more is walked in part only."""

Keep = Callable[[For, Mapping[Var, int]], Iterable[int] | None]
"""The iterations of a loop that matter; None for all."""


class TooManyEventsError(CallError):
    """A program runs too many nodes to follow them one by one."""

    code = "SEP652"


@dataclass(frozen=True)
class Event:
    """One copy or computation that was carried out."""

    number: int
    """The node's number in program order."""
    node: Copy | Compute
    values: Mapping[Var, int]
    """The loop indices around it."""
    homes: Mapping[str, int]
    """Which instance of each buffer it saw; parameters are not in it."""
    thread: str
    """``the program``, a role's name, ..."""


def record(program: TileProgram, keep: Keep | None = None) -> tuple[Event, ...]:
    """All copies and computations in an order in which they may run.

    Where data choose rows or count iterations, the nodes are those of `supposed`.
    """
    program = supposed(program)
    recorder = _Recorder(program, keep or (lambda loop, values: None))
    Execution(program, recorder, Schedule.of("early")).run({})
    return tuple(recorder.events)


@dataclass
class _Recorder:
    """Effects that leave notes; see `septran.tile.interpret.execution.Effects`."""

    program: TileProgram
    keep: Keep
    events: list[Event] = field(default_factory=list)
    born_count: int = 0

    def __post_init__(self) -> None:
        around = list(walk(self.program.body))
        self.numbers = {id(node): n for n, (node, _) in enumerate(around)}
        self.loops = {id(node): [x.variable for x in loops] for node, loops in around}

    def _note(self, node: Copy | Compute, frame: ThreadState) -> None:
        if len(self.events) >= MOST:
            raise TooManyEventsError(
                f"{self.program.name} carries out more than {MOST:,} nodes",
                hint="follow it at smaller shapes: the index maps are the same",
            )
        number = self.numbers[id(node)]
        thread = frame.thread.name
        values = {v: frame.values[v] for v in self.loops[id(node)]}  # not of loops that are over
        self.events.append(Event(number, node, values, frame.memory, thread))

    def enter(self, block: Block, frame: ThreadState) -> ThreadState:
        homes = dict(frame.memory)
        for name in block.buffers:
            self.born_count += 1
            # A scope that is entered again has other buffers: elements of iterations stay apart.
            homes[name] = self.born_count
        return replace(frame, memory=homes)

    def trips(self, node: For, extent: int, frame: ThreadState) -> Iterable[int]:
        # Iterations of sequential loops hand values on and are never left out.
        chosen = self.keep(node, frame.values) if node.kind == "parallel" else None
        return range(extent) if chosen is None else [n for n in chosen if n < extent]

    def copy(self, node: Copy, frame: ThreadState) -> None:
        self._note(node, frame)

    def issue(self, node: Copy, frame: ThreadState, land_now: bool) -> Flight:
        self._note(node, frame)
        return Flight(node, lambda: None)

    def compute(self, node: Compute, frame: ThreadState) -> None:
        self._note(node, frame)

    def absorb(self, node: For, frame: ThreadState) -> bool:
        return False

    def unit(self, node: For | Role, frame: ThreadState) -> ThreadState:
        return frame

    def born(self, buffers: tuple[str, ...], frame: ThreadState) -> None:
        """Contents do not matter here."""

    def hand_over(self, kind: str, fill: Fill, frame: ThreadState) -> None:
        """The order is the walk's own."""

    def fork(self, parent: Thread, children: list[Thread]) -> None:
        """See `hand_over`."""

    def join(self, parent: Thread, children: list[Thread]) -> None:
        """See `hand_over`."""

    def meet(self, threads: list[Thread]) -> None:
        """See `hand_over`."""


def touching(program: TileProgram, tensor: str, at: tuple[int, ...]) -> Keep:
    """Only iterations of parallel loops in which an element of a parameter may be touched.

    A loop that hands something else on to what follows it is walked in full.
    """
    outside = _handed_on(program)

    def keep(loop: For, values: Mapping[Var, int]) -> Iterable[int] | None:
        if outside.get(id(loop), True):
            return None
        known = {v: (n, n) for v, n in values.items()}
        extent = max(0, loop.extent.evaluate(values))
        mine = [r for node in nodes(loop.body) for r in regions(node) if r.buffer == tensor]
        return [
            n for n in range(extent)
            if any(may_hold(r, at, {**ranges(loop.body, {**known, loop.variable: (n, n)}),
                                    **known, loop.variable: (n, n)}) for r in mine)
        ]  # fmt: skip

    return keep


def may_hold(region: Region, at: tuple[int, ...], known: Mapping[Var, Range]) -> bool:
    """Whether a region may hold an element of its buffer, by the bounds of its map."""
    inside = {**known, **{axis(n): (0, extent - 1) for n, extent in enumerate(region.shape)}}
    for entry, coordinate in zip(region.index, at, strict=True):
        low, high = entry.bounds(inside)
        if not low <= coordinate <= high:
            return False
    return True


def _handed_on(program: TileProgram) -> dict[int, bool]:
    """For each loop, whether it touches a buffer, no parameter, that is used outside of it."""
    params = set(program.params)
    found: dict[int, bool] = {}

    def visit(body: tuple[Node, ...], around: frozenset[str]) -> None:
        for n, node in enumerate(body):
            if not isinstance(node, For | Role):
                continue
            others = used(body[:n] + body[n + 1 :]) | around
            if isinstance(node, For):
                found[id(node)] = bool((used(node.body) & others) - params)
            visit(node.body, others)

    visit(program.body, frozenset())
    return found


def loop_values(event: Event) -> dict[str, int]:
    """The loop indices around an event, by name."""
    return {str(variable): value for variable, value in event.values.items()}
