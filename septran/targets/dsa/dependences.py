"""Dependences between queues beyond those that the channels' flags order.

Queues run side by side, so where two of them use the same bytes and one writes, a flag has
to order them. The program is walked in order with what is known so far: for every piece of
work, the queues whose next command comes after all of its runs. Loops are walked until that
no longer changes. What a channel's handshake orders is left to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from septran.ir.index import Index, Var
from septran.simulator.queues import Queues
from septran.targets.dsa.channels import ARRIVED, FREE, FlagRing, Flags
from septran.targets.dsa.steps import (
    Fence,
    Handover,
    MemoryUse,
    QueuedWork,
    Step,
    StepLoop,
    private,
    walk,
    works,
)
from septran.tile.analyses.indirect import indirect
from septran.tile.nodes import Acquire, Commit, Copy, Release, TileProgram, Wait, tables

Part = tuple[int, bool]
"""The uses of one piece of work in a core's memories (True) or in main memory (False)."""
Token = tuple[FlagRing, str, int, int, Index]
"""A flag that was set: its ring, its kind, from and to which queue, for which fill."""


@dataclass(frozen=True)
class Order:
    """Queue `after` goes on once queue `before` has done all that it was given so far."""

    before: int
    after: int
    why: str


@dataclass
class State:
    """The facts that are known at one place of the program."""

    ordered: dict[Part, frozenset[int]] = field(default_factory=dict)
    """For work done so far, the queues that come after all of it."""
    released: dict[Part, frozenset[FlagRing]] = field(default_factory=dict)
    """The rings whose slots were released after it."""
    tokens: dict[Token, frozenset[Part]] = field(default_factory=dict)
    """The work that was done before each flag was set."""

    def copy(self) -> State:
        """The same knowledge, to be changed apart."""
        return State(dict(self.ordered), dict(self.released), dict(self.tokens))

    def meet(self, other: State) -> State:
        """The facts that hold on both of two paths that meet here."""
        both = State()
        for part in {**self.ordered, **other.ordered}:
            ways = [s for s in (self, other) if part in s.ordered]
            both.ordered[part] = frozenset.intersection(*(s.ordered[part] for s in ways))
            rings = [s.released.get(part, frozenset()) for s in ways]
            both.released[part] = frozenset.intersection(*rings)
        for token in self.tokens.keys() & other.tokens.keys():
            mine, theirs = self.tokens[token], other.tokens[token]
            # A path that never did some work cannot set a flag before it.
            absent = {p for p in mine if p not in other.ordered}
            absent |= {p for p in theirs if p not in self.ordered}
            both.tokens[token] = (mine & theirs) | absent
        return both

    def run(self, parts: Sequence[Part], queue: int) -> None:
        """Work is done (again) on a queue."""
        for part in parts:
            self.ordered.pop(part, None)  # the last work done is the last one in it
            self.ordered[part] = frozenset([queue])
            self.released[part] = frozenset()
        for token, before in self.tokens.items():
            self.tokens[token] = before - set(parts)

    def order(self, before: int, after: int) -> None:
        """A flag makes one queue wait for all that another was given so far."""
        for part, queues in self.ordered.items():
            if before in queues:
                self.ordered[part] = queues | {after}

    def forget(self) -> None:
        """Everything done so far is over."""
        self.ordered.clear()
        self.released.clear()
        self.tokens.clear()

    def shifted(self, change: Mapping[Var, Index]) -> State:
        """The same knowledge with fills counted by other indices."""
        tokens = {_recounted(t, change): parts for t, parts in self.tokens.items()}
        return State(dict(self.ordered), dict(self.released), tokens)


@dataclass
class Dependences:
    """The orders to be kept, found by `orders`."""

    flags: Flags
    queues: Queues
    works: dict[int, QueuedWork]
    needed: dict[Step, tuple[Order, ...]] = field(default_factory=dict)
    """In front of each step."""

    def body(self, body: tuple[Step, ...], state: State) -> State:
        """Walk a body; gives what is known behind it."""
        for step in body:
            match step:
                case QueuedWork():
                    self._work(step, state)
                case Handover():
                    self._handover(step, state)
                case Fence():
                    state.forget()
                case StepLoop():
                    state = self._loop(step, state)
        return state

    def _loop(self, loop: StepLoop, state: State) -> State:
        # No iteration follows another, so what is known goes straight through.
        if loop.node.extent == Index.of(1):
            self.needed[loop] = ()
            return self.body(loop.body, state)
        inside = {w.number: w for w in works(loop.body)}
        # First, so that the walk below finds those orders kept already.
        self._ahead(loop, inside, state)
        variable = loop.node.variable
        first, again = {variable: Index()}, {variable: Index.of(variable) - 1}
        last = {variable: loop.node.extent - 1}
        head, end = state.copy(), State()
        # Until the same is known at the loop's head and behind an iteration.
        while True:
            end = self.body(loop.body, head.copy())
            back = end.shifted(again)
            if loop.node.kind == "parallel":  # other iterations touch other elements
                for number in inside:
                    back.ordered.pop((number, False), None)
            entry = state.copy()
            for token in back.tokens:
                # The fill of an iteration before the first was made in front of the loop.
                start = _recounted(token, first)
                if start in state.tokens:
                    entry.tokens[token] = state.tokens[start]
            joined = entry.meet(back)
            if joined == head:
                break
            head = joined
        # Behind the loop, its variable in the numbers of fills has the value that it had last.
        extent = loop.node.extent
        if extent.is_constant:
            return end.shifted(last) if extent.as_int() > 0 else state
        # A loop of no iterations leaves what was known before it.
        return state.meet(end.shifted(last))

    def _ahead(self, loop: StepLoop, inside: Mapping[int, QueuedWork], state: State) -> None:
        """Wait once in front of a loop for what was done before it, not in each iteration."""
        found: list[Order] = []
        for work in inside.values():
            found += self._orders(work, state, skip=inside)
        self._note(loop, found)

    def _work(self, work: QueuedWork, state: State) -> None:
        self._note(work, self._orders(work, state))
        parts = [(work.number, local) for local in {use.local for use in work.uses}]
        state.run(parts, work.queue)

    def _note(self, step: Step, found: Sequence[Order]) -> None:
        unique = {(o.before, o.after): o for o in reversed(found)}
        self.needed[step] = tuple(unique[key] for key in sorted(unique))

    def _orders(
        self, work: QueuedWork, state: State, skip: Mapping[int, QueuedWork] | None = None
    ) -> list[Order]:
        """The orders that a piece of work needs before it; from then on they are known."""
        found = []
        for part in list(state.ordered)[::-1]:  # the last work has often waited for the rest
            number, local = part
            known = state.ordered.get(part)
            if known is None or number in (skip or ()) or work.queue in known:
                continue
            before = self.works[number]
            clash = self._clash(before, work, local, state.released[part])
            if clash is not None:
                why = str(replace(work.node.origin, rule=clash))
                found.append(Order(before.queue, work.queue, why))
                self._apply(before.queue, work.queue, state)
        return found

    def _apply(self, before: int, after: int, state: State) -> None:
        if {before, after} & self.queues.synchronous:
            state.forget()
        else:
            state.order(before, after)

    def _clash(
        self, before: QueuedWork, after: QueuedWork, local: bool, released: frozenset[FlagRing]
    ) -> str | None:
        """Why two pieces of work conflict in a way that no channel orders; None if not."""
        for one in before.uses:
            for other in after.uses:
                clash = one.local == local and one.conflicts(other)
                if clash and not self._handled(before, one, after, other, released):
                    return _why(one, other)
        return None

    def _handled(
        self,
        before: QueuedWork,
        one: MemoryUse,
        after: QueuedWork,
        other: MemoryUse,
        released: frozenset[FlagRing],
    ) -> bool:
        """Whether a channel's handshake orders two uses of one of its buffers."""
        if one.buffer != other.buffer:
            return False
        ring = self._ring(before)
        if ring is not None and one.buffer in ring.buffers and after.queue in ring.peers:
            return True
        ring = self._ring(after)
        return (
            ring is not None
            and ring.handshake
            and one.buffer in ring.buffers
            and before.queue in ring.peers
            and ring in released
        )

    def _ring(self, work: QueuedWork) -> FlagRing | None:
        if isinstance(work.node, Copy) and work.node.channel is not None:
            return self.flags.ring(work.node.channel)
        return None

    def _handover(self, step: Handover, state: State) -> None:
        node = step.node
        ring = self.flags.ring(node.channel)
        if ring is None:
            return
        match node:
            case Commit():
                for peer in ring.peers:
                    self._set(state, (ring, ARRIVED, ring.queue, peer, node.index))
            case Wait():
                for peer in ring.peers:
                    self._wait(state, (ring, ARRIVED, ring.queue, peer, node.index))
            case Release() if ring.handshake:
                for peer in ring.peers:
                    self._set(state, (ring, FREE, peer, ring.queue, node.index))
                for part, rings in state.released.items():
                    state.released[part] = rings | {ring}
            case Acquire() if ring.handshake:
                for peer in ring.peers:
                    # Slot n % stages was last used for fill n - stages.
                    before = node.index - ring.stages
                    self._wait(state, (ring, FREE, peer, ring.queue, before))

    def _set(self, state: State, token: Token) -> None:
        source = token[2]
        state.tokens[token] = frozenset(p for p, q in state.ordered.items() if source in q)

    def _wait(self, state: State, token: Token) -> None:
        for part in state.tokens.get(token, ()):
            state.ordered[part] = state.ordered[part] | {token[3]}


def _recounted(token: Token, change: Mapping[Var, Index]) -> Token:
    ring, kind, source, target, fill = token
    return ring, kind, source, target, fill.substitute(change)


def _why(one: MemoryUse, other: MemoryUse) -> str:
    """The dependence between two uses, as a reason."""
    if not one.buffer:
        return f"{one.space} holds the temporaries of one at a time"
    if one.buffer != other.buffer:
        return f"{other.buffer} lies where {one.buffer} was"
    if not other.written:
        return f"{one.buffer} is read once it is written"
    return f"{one.buffer} is written again once it is {'written' if one.written else 'read'}"


def orders(
    body: tuple[Step, ...], flags: Flags, queues: Queues
) -> Mapping[Step, tuple[Order, ...]]:
    """For each step, the orders that have to be made in front of it."""
    found = Dependences(flags, queues, {w.number: w for w in works(body)})
    found.body(body, State())
    return found.needed


def fenced(program: TileProgram, body: tuple[Step, ...]) -> tuple[Step, ...]:
    """`body` with a fence wherever one core may use what another one wrote."""
    own = {b.name for b in program.buffers if private(program, b.name)}
    return _Fences(own).body(body)


def synchronised(program: TileProgram, body: tuple[Step, ...]) -> tuple[Step, ...]:
    """`body` with a fence before control cores read indices that the program has written."""
    indices = set(indirect(program.body))
    found: list[Step] = []
    pending: set[str] = set()
    for step in body:  # what reads them comes behind what writes them, not in one loop
        if isinstance(step, Fence):
            pending.clear()
        elif pending & set(_indices_of(step)):
            pending.clear()
            found.append(Fence(step.node))
        written = {use.buffer for work in works((step,)) for use in work.uses if use.written}
        pending |= written & indices
        found.append(step)
    return tuple(found)


def _indices_of(step: Step) -> Iterator[str]:
    """Yield the tensors of integers whose elements control cores read for a step."""
    for inner in walk((step,)):
        if isinstance(inner, StepLoop | QueuedWork):
            yield from tables(inner.node)


@dataclass
class _Fences:
    own: set[str]
    """Temporaries that each core has for itself."""
    # A dict keeps the order of the program, which a set would not.
    pending: dict[MemoryUse, None] = field(default_factory=dict)
    """Uses of main memory since the last barrier of all cores."""

    def body(self, body: tuple[Step, ...]) -> tuple[Step, ...]:
        found: list[Step] = []
        for step in body:
            if isinstance(step, StepLoop) and step.node.processor is None:
                found.append(StepLoop(step.node, self._loop(step)))
                continue
            uses = self._uses(step)
            if any(use.conflicts(before) for use in uses for before in self.pending):
                self.pending.clear()
                found.append(Fence(step.node))
            self.pending.update(dict.fromkeys(uses))
            found.append(step)
        return tuple(found)

    def _loop(self, loop: StepLoop) -> tuple[Step, ...]:
        """Twice, as the second iteration comes after the first."""
        before = dict(self.pending)
        self.body(loop.body)
        if loop.node.kind == "parallel":  # other iterations use other elements of parameters
            self.pending = {use: None for use in self.pending if use.local}
        self.pending = {**before, **self.pending}
        return self.body(loop.body)

    def _uses(self, step: Step) -> list[MemoryUse]:
        inside = works((step,)) if isinstance(step, StepLoop | QueuedWork) else ()
        return [
            use
            for work in inside
            for use in work.uses
            if use.space[0] in ":@" and use.buffer not in self.own
        ]
