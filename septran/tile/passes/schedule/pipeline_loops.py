"""Software pipelining of asynchronous copies: rings of stages, filled ahead of their use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from septran.ir.bounds import loop_range
from septran.ir.index import Index, Range, Var, minimum
from septran.mapping.keys import PIPELINE, WARPSPECIALIZE
from septran.tile.analyses.loop_dependence import (
    hindrance,
    homes,
    is_asynchronous,
    is_load,
    may_lag,
)
from septran.tile.analyses.loops import ranges
from septran.tile.analyses.pipeline_depth import (
    Excess,
    StagedCopies,
    deepest,
    excess,
    ineffective,
    lowered,
)
from septran.tile.nodes import (
    Buffer,
    Channel,
    Compute,
    Copy,
    For,
    Node,
    Origin,
    Remark,
    Role,
    TileProgram,
    nodes,
    regions,
    rewrite,
)
from septran.tile.passes.schedule.assign_roles import assign_roles, role_level
from septran.tile.passes.schedule.insert_sync import insert_sync
from septran.tile.substitution import (
    FIRST,
    FreshNames,
    on_channels,
    repeated,
    substitute,
    with_stage,
)

NAME = "pipeline_loops"
STORE_STAGES = 2
"""The number of stages of stores: one iteration's store runs beside the next iteration."""


def pipeline_loops(program: TileProgram) -> TileProgram:
    """Give asynchronously copied buffers several stages and issue copies ahead of their use."""
    limits: dict[tuple[Var, bool], int] = {}
    first: dict[tuple[Var, bool], tuple[StagedCopies, Excess]] = {}
    # Whether all stages fit is known only after memory planning with roles and waits in place, so
    # this plans, takes one stage from the deepest ring in a memory that overflows, and plans
    # again.
    while True:
        work = _Pipelining(program, limits)
        result = work.run()
        over = excess(insert_sync(assign_roles(result))) if work.rings else None
        ring = deepest(result, work.rings, over.memory) if over else None
        if over is None or ring is None:
            break
        key = ring.loop.variable, ring.load
        first.setdefault(key, (ring, over))
        limits[key] = ring.stages - 1
    remarks = [lowered(program, *why, stages=limits[key]) for key, why in first.items()]
    remarks += work.remarks + ineffective(program, work.rings, result.body)
    return result.remark(*remarks)


class _Group(NamedTuple):
    """The copies of one loop body that share a channel."""

    positions: tuple[int, ...]
    load: bool
    ahead: bool
    """Whether its copies are issued in an earlier iteration.

    The second hop of a route is not: its source arrives in its own iteration. It has a ring all
    the same.
    """


@dataclass
class _Pipelining:
    program: TileProgram
    limits: Mapping[tuple[Var, bool], int]
    """The greatest number of stages for the loads (True) and stores (False) of a loop."""
    buffers: dict[str, Buffer] = field(init=False)
    channels: list[Channel] = field(default_factory=list)
    rings: list[StagedCopies] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def run(self) -> TileProgram:
        program = self.program
        self.buffers = {b.name: b for b in program.buffers}
        self.known: dict[Var, Range] = ranges(program.body)
        self.homes = homes(program.body)
        self.indices = FreshNames.of_loops(program.body)
        self.names = FreshNames({c.name for c in program.channels})
        body = self.expose(self.inner(program.body, ()), None)
        if not self.channels:
            return program
        return replace(
            program,
            body=body,
            buffers=tuple(self.buffers[b.name] for b in program.buffers),
            channels=(*program.channels, *self.channels),
        )

    def inner(self, body: tuple[Node, ...], outer: tuple[For, ...]) -> tuple[Node, ...]:
        """Pipeline the loops of a body, innermost first."""
        result: list[Node] = []
        for node in body:
            match node:
                case For():
                    inside = self.inner(node.body, (*outer, node))
                    result += self.loop(replace(node, body=inside), outer)
                case Role():
                    inside = self.expose(self.inner(node.body, outer), None)
                    result.append(replace(node, body=inside))
                case _:
                    result.append(node)
        return tuple(result)

    def loop(self, loop: For, outer: tuple[For, ...]) -> tuple[Node, ...]:
        """Return one loop with its body-level copies in rings; its inner loops are done."""
        asked, made = loop, len(self.rings)
        groups = self.groups(loop) if self.stages(loop) > 1 and self.alone(loop) else []
        if any(isinstance(n, For) and n.specialize for n in nodes(loop.body)):
            groups = self.without_loads(loop, groups)
        loads = [g for g in groups if g.load]
        depth = self.depth(loop, loads=True) if loads else 1
        stores = [g for g in groups if not g.load and self.depth(loop, loads=False) > 1]
        for group in (loads if depth > 1 else []) + stores:
            loop = self.turn(loop, group, depth if group.load else STORE_STAGES, asked)
        loop = replace(loop, body=self.expose(loop.body, loop.variable), pipeline=depth)
        if len(self.rings) == made:
            return (loop,)
        if loop.processor is not None:
            return self.on_one_unit(loop, loads, depth, outer)
        return self.ahead(loop, loads, depth, outer)

    def ahead(
        self, loop: For, loads: list[_Group], depth: int, outer: tuple[For, ...]
    ) -> tuple[Node, ...]:
        """Return the loop with its loads ahead of it, unless a role is to issue them."""
        if depth == 1:
            return (loop,)
        roles = self.program.request(loop.origin.task).get(WARPSPECIALIZE)
        if roles and role_level(self.program.machine, outer, loop) and self.countable(loop, outer):
            return (replace(loop, specialize=True),)
        fills = {p for g in loads if g.ahead for p in g.positions}
        chained = {loop.body[p] for g in loads if not g.ahead for p in g.positions}
        return self.lead(loop, fills, depth, {c.channel for c in chained if isinstance(c, Copy)})

    def countable(self, loop: For, outer: tuple[For, ...]) -> bool:
        """Return whether roles can number the fills of a loop; report it if not.

        They are around the outermost loop that is not all of a body (`assign_roles`), and the
        numbers go on from one of its iterations to the next.
        """
        nest, body = (*outer, loop), self.program.body
        for number, around in enumerate(nest):
            if around.processor is None and len(body) > 1:
                inner = nest[number + 1 :]
                break
            body = around.body
        else:
            return True
        if all(inside.extent.is_constant for inside in inner):
            return True
        message = (
            f"the loop over {loop.variable} has no roles of its own: how often it runs is not the "
            "same in all iterations of the loop around it"
        )
        where = self.program.request(loop.origin.task).where(WARPSPECIALIZE)
        self.remarks.append(Remark("missed", loop.origin.task, message, None, where, NAME))
        return False

    def stages(self, loop: For) -> int:
        """Return the number of stages that the mapping asks for."""
        return self.program.request(loop.origin.task).get(PIPELINE)

    def alone(self, loop: For) -> bool:
        """Return whether one unit runs all iterations."""
        return loop.processor is None or self.program.machine.processor(loop.processor).count == 1

    def on_one_unit(
        self, loop: For, loads: list[_Group], depth: int, outer: tuple[For, ...]
    ) -> tuple[Node, ...]:
        """Return a loop over a level that has one unit, which runs it in order."""
        body = self.ahead(replace(loop, processor=None), loads, depth, outer)
        if any(o.processor == loop.processor for o in outer):
            return body
        variable = Var(self.indices.fresh(str(loop.processor).lower()))
        rule = f"there is one {loop.processor}, so it runs the loop over {loop.variable} in order"
        origin = replace(loop.origin, rule=rule)
        return (For(variable, Index.of(1), "parallel", loop.processor, body, origin),)

    def depth(self, loop: For, *, loads: bool) -> int:
        """Return the stages of the loop's rings: as asked, but no more than it has iterations."""
        asked, most = self.stages(loop), loop.extent.bounds(self.known)[1]
        asked = min(asked, most, self.limits.get((loop.variable, loads), asked))
        return max(1, asked if loads else min(asked, STORE_STAGES))

    def groups(self, loop: For) -> list[_Group]:
        """Return the copies that can have a ring, grouped by engine and by their first reader."""
        groups: dict[tuple[str, bool, int, bool], list[int]] = {}
        loaded: set[str] = set()
        filled: set[str] = set()  # by a load, whether that goes round or stays
        for position, node in enumerate(loop.body):
            if not isinstance(node, Copy) or not is_asynchronous(self.program, node):
                continue
            load = is_load(self.program, node)
            mine = node.target.buffer if load else node.source.buffer
            # What is used outside of the loop, too, cannot have a stage for each iteration.
            if mine in self.program.params or loop.variable not in self.homes[mine]:
                continue
            # Nor can what keeps its content from one iteration to the next.
            if loop.variable in self.buffers[mine].kept:
                continue
            user = _next_user(loop.body, position)
            if load:
                filled.add(mine)
                chained = node.source.buffer in loaded
                why = hindrance(node, position, loop, frozenset(loaded))
                if why is not None or user == len(loop.body):
                    self.stays(node, loop, why)
                    continue
                loaded.add(mine)
                groups.setdefault((node.engine, True, user, not chained), []).append(position)
            elif mine not in filled and may_lag(node, position, loop):
                groups.setdefault((node.engine, False, position, False), []).append(position)
        return [_Group(tuple(p), load, ahead) for (_, load, _, ahead), p in groups.items()]

    def without_loads(self, loop: For, groups: list[_Group]) -> list[_Group]:
        """Only the stores of a loop around roles: its loads are the producer's in each run."""
        for group in groups:
            for copy in (loop.body[p] for p in group.positions if group.load):
                assert isinstance(copy, Copy)
                self.stays(copy, loop, "the roles of a loop inside of it start again in each")
        return [g for g in groups if not g.load]

    def stays(self, copy: Copy, loop: For, why: str | None) -> None:
        """Report why a load is not issued ahead."""
        if why is not None:
            message = (
                f"{copy.target.buffer} is not fetched ahead of the loop over {loop.variable}: {why}"
            )
            where = copy.origin.mapping or copy.origin.logic
            self.remarks.append(Remark("missed", loop.origin.task, message, None, where, NAME))

    def turn(self, loop: For, group: _Group, stages: int, asked: For) -> For:
        """Put copies on a channel and address the stage of each iteration."""
        body = list(loop.body)
        copies = [c for p in group.positions if isinstance(c := body[p], Copy)]
        channel = self.channel(copies, group.load, stages, loop)
        steps = {_step(c, loop.variable) for c in copies}
        step = steps.pop() if len(steps) == 1 else 0
        wanted = self.stages(loop) if group.load else min(self.stages(loop), STORE_STAGES)
        self.rings.append(StagedCopies(asked, channel.buffers, group.load, stages, wanted, step))
        for position in group.positions:
            body[position] = replace(copies.pop(0), channel=channel.name)
        mine = frozenset(channel.buffers)
        for name in mine:
            self.buffers[name] = replace(self.buffers[name], stages=stages)
        # Iteration i makes fill i of the ring, and the ring makes it sequential: fills go in order.
        stage = Index.of(loop.variable) % stages
        inside = tuple(with_stage(n, mine, stage) for n in body)
        return replace(loop, kind="sequential", body=inside)

    def channel(
        self, copies: Sequence[Copy], load: bool, stages: int, loop: For | None = None
    ) -> Channel:
        """Return a new channel for copies that are waited for together."""
        mine = tuple(dict.fromkeys((c.target if load else c.source).buffer for c in copies))
        first = copies[0]
        engine = self.program.machine.engine(first.engine).name
        held = [self.buffers[name] for name in mine]
        what = " and ".join(b.tensor or b.name for b in held)
        verb = "arrives in" if len(held) == 1 else "arrive in"
        if not load:
            verb = "leaves" if len(held) == 1 else "leave"
        rule = f"{what} {verb} {held[0].memory} asynchronously by {engine}"
        where = first.origin.mapping
        if loop is not None:
            rule += f" (pipeline: {stages})"
            where = (
                self.program.request(loop.origin.task).where(PIPELINE)
                or loop.origin.mapping
                or where
            )
        wish = "_".join(b.tensor or b.name for b in held) + ("_in" if load else "_out")
        origin = replace(first.origin, mapping=where, rule=rule)
        channel = Channel(self.names.fresh(wish), engine, stages, mine, origin)
        self.channels.append(channel)
        return channel

    def lead(
        self, loop: For, fills: set[int], stages: int, chained: set[str | None]
    ) -> tuple[Node, ...]:
        """Fill `stages - 1` iterations ahead: prologue, steady loop, epilogue without fills."""
        copies = tuple(n for p, n in enumerate(loop.body) if p in fills)
        rest = tuple(n for p, n in enumerate(loop.body) if p not in fills)
        least = loop.extent.bounds(self.known)[0]
        # A loop that may have fewer iterations than that fills as many as it has.
        lead = minimum(stages - 1, loop.extent) if least < stages - 1 else Index.of(stages - 1)
        k, steady = Index.of(loop.variable), loop.extent - lead
        what = ", ".join(dict.fromkeys(n.target.buffer for n in copies if isinstance(n, Copy)))
        ahead = f"{what} are filled {stages - 1} ahead of the loop over {k} (pipeline: {stages})"
        start = self.part(loop, copies, lead, Index(), replace(loop.origin, rule=ahead))
        later = tuple(substitute(n, {loop.variable: k + (stages - 1)}) for n in copies)
        # The copies come first, so that they are in flight while the rest of the iteration works.
        middle = replace(loop, extent=steady, body=(*later, *rest))
        why = f"the last iterations of {k} have nothing left to fetch (pipeline: {stages})"
        again = self.again(rest, chained)
        end = self.part(loop, again, lead, steady, replace(loop.origin, rule=why))
        return (*start, middle, *end)

    def part(
        self, loop: For, body: tuple[Node, ...], extent: Index, base: Index, origin: Origin
    ) -> tuple[Node, ...]:
        """Return `extent` iterations of a part of the loop's body, from iteration `base` on."""
        if extent == Index.of(1):
            return self.step(loop, body, base)
        variable = Var(self.indices.fresh(loop.variable.name))
        self.known[variable] = loop_range(extent, self.known)
        inside = self.step(loop, body, base + variable)
        return (For(variable, extent, "sequential", None, inside, origin),)

    def step(self, loop: For, body: tuple[Node, ...], at: Index) -> tuple[Node, ...]:
        """Return iteration `at` of a part of the loop's body, which may be the first one."""

        def either(node: Node) -> tuple[Node, ...]:
            if not isinstance(node, Compute) or not _starts_at(node, loop.variable):
                return (node,)
            later, rest = minimum(1, at), dict(node.attributes) | {FIRST: ""}
            anew = replace(node, attributes=tuple(rest.items()))
            cases = (node, later), (anew, 1 - later)
            return tuple(self.once(node, many) for node, many in cases)

        single = at == Index() or any(at == Index.of(v) for v in at.variables())
        if not single and at.bounds(self.known)[0] < 1:
            body = rewrite(body, either)
        return tuple(substitute(n, {loop.variable: at}) for n in body)

    def once(self, node: Node, extent: Index) -> For:
        """Return a node as a loop of one iteration or none."""
        variable = Var(self.indices.fresh("once"))
        self.known[variable] = (0, 0)
        return For(variable, extent, "sequential", None, (node,), node.origin)

    def again(self, body: tuple[Node, ...], kept: set[str | None]) -> tuple[Node, ...]:
        """Return a second copy of a body, with loop indices and inner channels of its own."""
        body = repeated(body, self.indices)
        inner = [c for c in self.channels if _holds_all(body, c.name) and c.name not in kept]
        renamed = {c.name: self.names.fresh(c.name) for c in inner}
        self.channels += [replace(c, name=renamed[c.name]) for c in inner]
        return tuple(on_channels(n, renamed) for n in body)

    # ---- copies that nothing hides

    def expose(self, body: tuple[Node, ...], variable: Var | None) -> tuple[Node, ...]:
        """Put each run of remaining asynchronous copies on a channel of one stage."""
        result = list(body)
        groups: dict[tuple[str, bool, int], list[int]] = {}
        for position, node in enumerate(body):
            if not isinstance(node, Copy) or not is_asynchronous(self.program, node):
                continue
            load = is_load(self.program, node)
            if load and variable not in (None, *self.homes[node.target.buffer]):
                continue  # used outside of the loop: it must be complete at its end
            user = _next_user(body, position) if load else position
            groups.setdefault((node.engine, load, user), []).append(position)
        for (_, load, _), positions in groups.items():
            copies = [c for p in positions if isinstance(c := body[p], Copy)]
            channel = self.channel(copies, load, 1)
            for position, copy in zip(positions, copies, strict=True):
                result[position] = replace(copy, channel=channel.name)
        return tuple(result)


def _step(copy: Copy, variable: Var) -> int:
    """Return the elements by which a copy's source advances from one iteration to the next."""
    return max((abs(entry.coefficient(variable)) for entry in copy.source.index), default=0)


def _starts_at(node: Node, variable: Var) -> bool:
    return isinstance(node, Compute) and dict(node.attributes).get(FIRST) == variable.name


def _next_user(body: Sequence[Node], position: int) -> int:
    """Return the position of the next node that touches the target of the copy at `position`."""
    copy = body[position]
    assert isinstance(copy, Copy)
    for later in range(position + 1, len(body)):
        touched = (r.buffer for n in nodes((body[later],)) for r in regions(n))
        if copy.target.buffer in touched:
            return later
    return len(body)


def _holds_all(body: tuple[Node, ...], channel: str) -> bool:
    return any(isinstance(n, Copy) and n.channel == channel for n in nodes(body))
