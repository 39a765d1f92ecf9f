"""The handshake of every channel, and barriers where units share buffers that they write.

The n-th group of copies on a channel is its fill n, and the n-th use of its buffers reads fill n:
channels are first in, first out, so counting gives every index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from septran.ir.index import Index, Var, minimum
from septran.tile.analyses.asynchronous_products import completed
from septran.tile.analyses.barriers import barriers
from septran.tile.analyses.liveness import role_groups
from septran.tile.analyses.loops import ranges, used
from septran.tile.nodes import (
    Acquire,
    Channel,
    Commit,
    Copy,
    For,
    Node,
    Origin,
    Region,
    Release,
    Role,
    TileProgram,
    Wait,
    nodes,
    regions,
    writes,
)
from septran.tile.substitution import FreshNames, simplified

NAME = "insert_sync"


def insert_sync(program: TileProgram) -> TileProgram:
    """Put every acquire, commit, wait, release and barrier that the copies need, none twice."""
    body = program.body
    indices = FreshNames.of_loops(body)
    outward = [c for c in program.channels if not _is_load(c, body)]
    inward = [c for c in program.channels if _is_load(c, body)]
    # Stores come first: where a load's stage is also stored, its release goes behind the wait for
    # the store, which must be there by then.
    for channel in outward:
        body = _Outward(channel, program, indices).place(body)
    waits = {c.name: c for c in outward}
    for channel in inward:
        body = _Inward(channel, program, waits).place(body)
    body = barriers(program, body)
    # last, as a stage without its loop index would no longer show that it goes round
    return replace(program, body=simplified(body, ranges(body)) if waits or inward else body)


def _is_load(channel: Channel, body: tuple[Node, ...]) -> bool:
    """Return whether a channel's copies fill its buffers rather than empty them."""
    return any(_on(channel, n) and n.target.buffer in channel.buffers for n in _copies(body))


def _copies(body: tuple[Node, ...]) -> Iterator[Copy]:
    return (n for n in nodes(body) if isinstance(n, Copy))


def _on(channel: Channel, node: Node) -> bool:
    return isinstance(node, Copy) and node.channel == channel.name


@dataclass
class _Inserted:
    """The nodes to insert before and after the positions of one body."""

    body: tuple[Node, ...]
    before: dict[int, list[Node]] = field(default_factory=dict)
    after: dict[int, list[Node]] = field(default_factory=dict)

    def put(self, position: int, node: Node, *, behind: bool = False) -> None:
        (self.after if behind else self.before).setdefault(position, []).append(node)

    def result(self) -> tuple[Node, ...]:
        merged: list[Node] = []
        for position, node in enumerate(self.body):
            merged += [*self.before.get(position, ()), node, *self.after.get(position, ())]
        return tuple([*merged, *self.before.get(len(self.body), ())])


@dataclass
class _Handshake:
    """The part that both directions share: a channel's scope, groups of copies, origins."""

    channel: Channel
    program: TileProgram

    def place(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        """Find the smallest body that holds the whole channel, and number its fills."""
        holders = [n for n, node in enumerate(body) if self.holds(node)]
        if len(holders) == 1 and self.opens(body[holders[0]]):
            at = holders[0]
            node = body[at]
            assert isinstance(node, For | Role)
            inner = replace(node, body=self.place(node.body))
            return (*body[:at], inner, *body[at + 1 :])
        return self.number(body)

    def number(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        raise NotImplementedError

    def holds(self, node: Node) -> bool:
        """Return whether a node contains copies on the channel."""
        return any(_on(self.channel, n) for n in nodes((node,)))

    def opens(self, node: Node) -> bool:
        """Return whether the channel begins anew in each run of a loop's or role's body."""
        if isinstance(node, For):
            # With the loop's index in every stage, the ring goes on from one iteration to the next.
            return not all(node.variable in s.variables() for s in self.stages(node))
        if isinstance(node, Role):
            mine = _mentions(self.channel.buffers, (node,))
            return mine == _mentions(self.channel.buffers, self.program.body)
        return False

    def stages(self, node: Node) -> Iterator[Index]:
        """Yield the stages of the channel's buffers that a node addresses."""
        for inner in nodes((node,)):
            for region in regions(inner):
                if region.buffer in self.channel.buffers:
                    yield region.stage

    def fills(self, body: tuple[Node, ...]) -> list[list[int]]:
        """Return the positions of the copies that make up each fill of a body."""
        groups: dict[Index, list[int]] = {}
        for position, node in enumerate(body):
            if isinstance(node, Copy) and _on(self.channel, node):
                groups.setdefault(self.mine(node).stage, []).append(position)
        return list(groups.values())

    def mine(self, copy: Copy) -> Region:
        """Return the copy's region of the channel's own buffer."""
        return copy.target if copy.target.buffer in self.channel.buffers else copy.source

    def total(self, body: tuple[Node, ...]) -> Index:
        """Return the number of fills that one run of a body makes."""
        count = Index.of(len(self.fills(body)))
        for node in body:
            if isinstance(node, For):
                count = count + _product(node.extent, self.total(node.body))
            elif isinstance(node, Role):
                count = count + self.total(node.body)
        return count

    def origin(self, rule: str) -> Origin:
        return replace(self.channel.origin, rule=rule)

    @property
    def what(self) -> str:
        """The channel's buffers as words: ``A and B in SPM``."""
        held = [self.program.buffer(name) for name in self.channel.buffers]
        return f"{' and '.join(b.tensor or b.name for b in held)} in {held[0].memory}"


class _Inward(_Handshake):
    """The handshake of loads: acquire, copies, commit; wait, uses, release."""

    def __init__(self, channel: Channel, program: TileProgram, outward: dict[str, Channel]) -> None:
        super().__init__(channel, program)
        self.outward = outward
        self.deepest = 0
        """The greatest number of nested loops that hold copies on the channel."""

    def number(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        self.deepest = self.nest(body)
        return self.walk(body, Index(), Index())[0]

    def walk(
        self, body: tuple[Node, ...], fill: Index, use: Index
    ) -> tuple[tuple[Node, ...], Index, Index]:
        """Return a body with its handshake, and the numbers of the next fill and the next use."""
        groups = {group[0]: group for group in self.fills(body)}
        spans, foreign = self.spans(body), self.foreign(body)
        inserted = _Inserted(tuple(body))
        changed, begin = list(body), use
        within = {position for group in self.takers(body) for position in group}
        for position, node in enumerate(body):
            if position in groups:
                self.put_fill(inserted, groups[position], fill)
                fill = fill + 1
            if position in spans:
                self.put_use(inserted, position, spans[position], use)
                use = use + 1
            if isinstance(node, For) and position not in foreign and self.goes_round(node):
                changed[position], fill, use = self.loop(node, fill, use)
            elif position in within:
                assert isinstance(node, Role)
                if position - 1 not in within:
                    begin = use  # all roles of a group use the same fills
                inner, fill, used = self.walk(node.body, fill, begin)
                changed[position] = replace(node, body=inner)
                use = used if used != begin else use
        inserted.body = tuple(changed)
        return inserted.result(), fill, use

    def loop(self, node: For, fill: Index, use: Index) -> tuple[For, Index, Index]:
        # Iteration i begins after i times the fills and uses of one iteration.
        made, used = self.total(node.body), self.used(node.body)
        index = Index.of(node.variable)
        inner, _, _ = self.walk(
            node.body, fill + _product(index, made), use + _product(index, used)
        )
        fill = fill + _product(node.extent, made)
        return replace(node, body=inner), fill, use + _product(node.extent, used)

    def used(self, body: tuple[Node, ...]) -> Index:
        """Return the number of fills that one run of a body uses."""
        count, foreign = Index.of(len(self.spans(body))), self.foreign(body)
        for position, node in enumerate(body):
            if isinstance(node, For) and position not in foreign and self.goes_round(node):
                count = count + _product(node.extent, self.used(node.body))
        for group in self.takers(body):  # consumers side by side use the same fills
            each = (self.used(n.body) for n in (body[p] for p in group) if isinstance(n, Role))
            count = count + next((used for used in each if used != Index()), Index())
        return count

    def goes_round(self, node: For) -> bool:
        """Return whether iterations of a loop fill or use different fills.

        Where a ring has as many stages as an inner loop has fills, the stage is no sign: a role
        that uses them is in as many loops as the one that makes them.
        """
        if self.holds(node) or any(node.variable in s.variables() for s in self.stages(node)):
            return True
        return 0 < self.nest(node.body) < self.deepest

    def nest(self, body: tuple[Node, ...]) -> int:
        """Return the greatest depth of nested loops whose iterations use different fills."""
        inside = [n for n in body if isinstance(n, Role)]
        loops = [n for n in body if isinstance(n, For) and self.goes_round(n)]
        return max(
            [1 + self.nest(n.body) for n in loops] + [self.nest(n.body) for n in inside] + [0]
        )

    def spans(self, body: tuple[Node, ...]) -> dict[int, int]:
        """Return the first and last position of the nodes that use each fill."""
        found: dict[Index, tuple[int, int]] = {}
        whole = {p: (group[0], group[-1]) for group in role_groups(body) for p in group}
        apart = self.foreign(body) | {p for group in self.takers(body) for p in group}
        for position, node in enumerate(body):
            if _on(self.channel, node) or position in apart:
                continue
            if isinstance(node, For) and self.goes_round(node):
                continue
            begin, end = whole.get(position, (position, position))
            for stage in self.touched(node):
                first, _ = found.get(stage, (begin, end))
                found[stage] = (first, end)
        spans = dict(found.values())
        return self.early(body, spans) if self.channel.stages == 1 else spans

    def takers(self, body: tuple[Node, ...]) -> list[list[int]]:
        """Return roles side by side of which one fills: the others wait separately.

        If a body outside of them fills, one wait before all of them suffices.
        """
        return [g for g in role_groups(body) if any(self.holds(body[p]) for p in g)]

    def between_roles(self, body: tuple[Node, ...]) -> bool:
        """Return whether one role fills and another beside it uses."""
        for group in self.takers(body):
            if any(
                any(True for _ in self.stages(body[p])) and not self.holds(body[p]) for p in group
            ):
                return True
        return any(self.between_roles(n.body) for n in body if isinstance(n, For | Role))

    def foreign(self, body: tuple[Node, ...]) -> set[int]:
        """Return the positions where another channel filled the buffers last."""
        found: set[int] = set()
        filler: set[str | None] = {self.channel.name}
        for position, node in enumerate(body):
            filled = [c for c in _copies((node,)) if c.target.buffer in self.channel.buffers]
            if any(c.channel is not None for c in filled):
                filler = {c.channel for c in filled}
            if self.channel.name not in filler:
                found.add(position)
        return found

    def touched(self, node: Node) -> Iterable[Index]:
        """Yield the stages that a node reads or writes, or whose store it waits for."""
        yield from self.stages(node)
        if isinstance(node, Wait) and node.channel in self.outward:
            yield from self.left(node)

    def left(self, wait: Wait) -> set[Index]:
        """Return the stages of its own buffers that are free once a store has been waited for."""
        if not set(self.outward[wait.channel].buffers) & set(self.channel.buffers):
            return set()
        if self.channel.stages == 1:
            return {Index()}
        stores = (c for c in _copies(self.program.body) if c.channel == wait.channel)
        return {c.source.stage for c in stores}

    def early(self, body: tuple[Node, ...], spans: dict[int, int]) -> dict[int, int]:
        """Move waits before a change of the source; wait at once for a fill without a use."""
        for group in self.fills(body):
            sources = {c.source.buffer for p in group if isinstance(c := body[p], Copy)}
            change = next(
                (p for p in range(group[-1] + 1, len(body)) if _writes(body[p], sources)), None
            )
            first = next((p for p in spans if p > group[-1]), None)
            if first is None and self.between_roles(self.program.body):
                continue  # the role that uses it waits
            if first is None:
                spans[group[-1] + 1 if change is None else change] = group[-1]
            elif change is not None and change < first:
                spans[change] = spans.pop(first)
        return spans

    def put_fill(self, inserted: _Inserted, group: list[int], number: Index) -> None:
        engine, name = self.channel.engine, self.channel.name
        free = self.origin(f"{engine} may fill {self.what} only once its last reader is done")
        full = self.origin(f"{self.what} is full once these copies by {engine} have landed")
        inserted.put(group[0], Acquire(name, number, free))
        inserted.put(group[-1], Commit(name, number, full), behind=True)

    def put_use(self, inserted: _Inserted, first: int, last: int, number: Index) -> None:
        name = self.channel.name
        wait = self.origin(f"{self.channel.origin.rule}, so its reader waits")
        done = self.origin(f"the reader is done with {self.what}, so it may be filled again")
        inserted.put(first, Wait(name, number, wait))
        if last < first:  # nobody uses it
            inserted.put(first, Release(name, number, done))
            return
        end = completed(self.program, inserted.body, last)
        if end is None:
            inserted.put(last, Release(name, number, done), behind=True)
        else:  # a product reads on until something needs what it makes
            inserted.put(end, Release(name, number, done))


class _Outward(_Handshake):
    """The handshake of stores: copies, commit; wait before a write of the source, at the end."""

    def opens(self, node: Node) -> bool:
        """Whether the channel begins anew: also in each role, which waits for its own stores."""
        return isinstance(node, Role) or super().opens(node)

    def __init__(self, channel: Channel, program: TileProgram, indices: FreshNames) -> None:
        super().__init__(channel, program)
        self.indices = indices

    def number(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        last = max(n for n, node in enumerate(body) if self.holds(node))
        targets = {c.target.buffer for c in _copies(body) if _on(self.channel, c)}
        # The last stores may run on until something touches their target or writes their source.
        end = next(
            (
                p
                for p in range(last + 1, len(body))
                if _touches(body[p], targets) or _writes(body[p], self.channel.buffers)
            ),
            len(body),
        )
        changed, total = self.walk(body[: last + 1], Index())
        rest = () if self.refilled else self.drain(total)
        return (*changed, *body[last + 1 : end], *rest, *body[end:])

    @property
    def refilled(self) -> bool:
        """Whether its buffers are stages of a ring that loads fill.

        A stage is released to the next load once its store has landed, so each store is waited for
        where it is issued.
        """
        held = (self.program.buffer(name).stages for name in self.channel.buffers)
        return self.channel.stages < max(held)

    def walk(self, body: tuple[Node, ...], fill: Index) -> tuple[tuple[Node, ...], Index]:
        groups = {group[0]: group for group in self.fills(body)}
        inserted = _Inserted(body)
        changed = list(body)
        begin = 0
        for position, node in enumerate(body):
            if position in groups:
                self.put(inserted, groups[position], fill, begin)
                begin, fill = groups[position][-1] + 1, fill + 1
            if isinstance(node, For) and self.holds(node):
                made = self.total(node.body)
                inner, _ = self.walk(node.body, fill + _product(Index.of(node.variable), made))
                changed[position], begin = replace(node, body=inner), position + 1
                fill = fill + _product(node.extent, made)
            elif isinstance(node, Role):
                inner, fill = self.walk(node.body, fill)
                changed[position] = replace(node, body=inner)
        inserted.body = tuple(changed)
        return inserted.result(), fill

    def put(self, inserted: _Inserted, group: list[int], number: Index, begin: int) -> None:
        name, before = self.channel.name, number - self.channel.stages
        why = self.origin(f"these copies of {self.what} by {self.channel.engine} are one")
        inserted.put(group[-1], Commit(name, number, why), behind=True)
        if self.refilled:
            rule = f"{self.channel.origin.rule}, and its stage is filled again after that"
            inserted.put(group[-1], Wait(name, number, self.origin(rule)), behind=True)
            return
        if before.bounds(ranges(self.program.body))[1] < 0:  # as many stages as stores
            return
        rule = f"{self.channel.origin.rule}, so who writes it again waits"
        # In front of whatever touches the buffer first since the store before this one.
        first = next(
            p
            for p in range(begin, group[-1] + 1)
            if _touches(inserted.body[p], self.channel.buffers)
        )
        inserted.put(first, Wait(name, before, self.origin(rule)))

    def drain(self, total: Index) -> tuple[Node, ...]:
        """Return waits for the stores that nothing has waited for: as many as there are stages."""
        left = minimum(self.channel.stages, total)
        origin = self.origin(f"{self.channel.origin.rule}, so it must have left by here")
        if left == Index.of(1):
            return (Wait(self.channel.name, total - 1, origin),)
        variable = Var(self.indices.fresh("w"))
        number = total - left + variable
        body = (Wait(self.channel.name, number, origin),)
        return (For(variable, left, "sequential", None, body, origin),)


def _product(a: Index, b: Index) -> Index:
    return a * b if b.is_constant else b * a


def _mentions(buffers: Iterable[str], body: tuple[Node, ...]) -> int:
    wanted = frozenset(buffers)
    return sum(r.buffer in wanted for n in nodes(body) for r in regions(n))


def _touches(node: Node, buffers: Iterable[str]) -> bool:
    """Return whether a node uses one of these buffers, also as indices or counts."""
    return not used((node,)).isdisjoint(buffers)


def _writes(node: Node, buffers: Iterable[str]) -> bool:
    wanted = frozenset(buffers)
    return any(r.buffer in wanted for n in nodes((node,)) for r in writes(n))
