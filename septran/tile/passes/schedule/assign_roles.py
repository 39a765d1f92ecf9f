"""Roles (warp specialisation): producers that copy run beside consumers that compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from septran.ir.index import Index
from septran.machine.model import Machine
from septran.mapping.keys import CONSUMERS, REGISTERS, WARPSPECIALIZE
from septran.tile.analyses.row_shares import IndivisibleError, RowShares
from septran.tile.nodes import (
    Channel,
    Compute,
    Copy,
    For,
    Node,
    Remark,
    Role,
    TileProgram,
    nodes,
    regions,
    rewrite,
    writes,
)
from septran.tile.substitution import FreshNames, on_channels, repeated, with_stage

NAME = "assign_roles"


def assign_roles(program: TileProgram) -> TileProgram:
    """Let one role issue the copies and others compute, where the mapping asks for it."""
    work = _Roles(program)
    body = work.body(program.body, ())
    channels = (*program.channels, *work.channels)
    return replace(program, body=body, channels=channels).remark(*work.remarks)


def role_level(machine: Machine, outer: Sequence[For], loop: For) -> str | None:
    """Return the processor level whose units can take roles in a loop; None where there is none.

    It is the machine's own for roles (``vendor: {roles: ...}``), else the level that issues the
    loop's instructions, or the next one inside.
    """
    around = [o.processor for o in outer if o.processor is not None]
    depth = machine.depth(around[-1]) if around else 0
    levels = machine.processors[depth + 1 :]
    if not around or not levels:
        return None
    own = machine.vendor.get("roles")
    if own in {p.name for p in levels}:
        return str(own)
    issuers = {_issuer(machine, n) for n in nodes(loop.body) if isinstance(n, Compute)}
    return next((p.name for p in levels if p.name in issuers), levels[0].name)


def _issuer(machine: Machine, node: Compute) -> str:
    try:
        return machine.instruction(node.instruction).issued_by
    except KeyError:
        return ""


@dataclass
class _Roles:
    program: TileProgram
    channels: list[Channel] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.indices = FreshNames.of_loops(self.program.body)
        self.names = FreshNames({c.name for c in self.program.channels})

    def body(self, body: tuple[Node, ...], outer: tuple[For, ...]) -> tuple[Node, ...]:
        """Split the body that holds a specialised loop, or loops around one; search the others.

        Roles last as long as the work of a unit: where it runs through a loop and does something
        before or after it, they are around that loop, as accumulators and the phases of a
        channel's barriers are kept from one iteration to the next. A loop that is all of a body is
        searched inside, as its iterations are all of the same kind (`persist` makes such ones).
        """
        for node in body:
            found = _specialised(node, alone=len(body) == 1)
            if found is not None:
                level = role_level(self.program.machine, outer, found)
                if level is not None:
                    return self.split(body, found, level)
        return tuple(
            replace(n, body=self.body(n.body, (*outer, n))) if isinstance(n, For) else n
            for n in body
        )

    def split(self, body: tuple[Node, ...], loop: For, level: str) -> tuple[Node, ...]:
        fetched = self.fetched(body)
        for channel in sorted(fetched):
            body = self.numbered(body, channel)
        # The roles have the same loops, and ranges are known by loop index: each role needs its
        # own.
        fetch = repeated(_keep(body, fetched, holds=True), self.indices)
        work = _keep(body, fetched, holds=False)
        asked = self.program.request(loop.origin.task).settings.table(REGISTERS)
        registers = {role: setting.value for role, setting in asked.items()}
        what = f"the loop over {loop.variable} has roles of its own"
        first = replace(loop.origin, rule=f"{what}: this one issues the copies")
        fetch = self.on_level(fetch, level)
        producer = Role("producer", level, 1, fetch, first, registers.get("producer"))
        work = self.on_level(work, level)
        if self.consumers(loop) > 1 and self.spread(work, level):
            units, why = self.units(work, loop, level)
            rule = f"{what}: this one computes{why}"
            origin = replace(loop.origin, rule=rule)
            return (
                producer,
                Role("consumer", level, units, work, origin, registers.get("consumer")),
            )
        shares = self.shares(work, loop)
        consumers: list[Node] = []
        for number, share in enumerate(shares):
            name = f"consumer {number + 1}" if len(shares) > 1 else "consumer"
            rule = f"{what}: this one computes"
            if len(shares) > 1:
                rule += f" part {number + 1} of {len(shares)} of the rows"
            origin = replace(loop.origin, rule=rule)
            consumers.append(Role(name, level, 1, share, origin, registers.get("consumer")))
        return (producer, *consumers)

    def consumers(self, loop: For) -> int:
        """Return the number of consumers that the mapping asks for."""
        return self.program.request(loop.origin.task).get(CONSUMERS)

    def on_level(self, body: tuple[Node, ...], level: str) -> tuple[Node, ...]:
        """Return nodes of the whole unit as issued by one unit of the level that takes roles."""
        depth = self.program.machine.depth

        def lower(node: Node) -> tuple[Node, ...]:
            if isinstance(node, Copy | Compute) and depth(node.processor) < depth(level):
                return (replace(node, processor=level),)
            return (node,)

        return rewrite(body, lower)

    def fetched(self, body: tuple[Node, ...]) -> frozenset[str]:
        """Return the channels whose copies read only buffers that nothing in the body writes."""
        channels = {c.name: c for c in self.program.channels}
        written = {r.buffer for n in nodes(body) for r in writes(n)}
        copies = [n for n in body if isinstance(n, Copy)]
        for loop in body:  # what goes round an inner loop of it stays with that loop
            if isinstance(loop, For):
                ahead = (n for n in _of_loop(loop) if n.channel is not None)
                copies += [c for c in ahead if channels[str(c.channel)].stages > 1]
        # No handshake tells the producer that a consumer has written, so it takes only what nobody
        # writes in this body.
        return frozenset(
            c.channel
            for c in copies
            if c.channel is not None
            and c.target.buffer in channels[c.channel].buffers
            and c.source.buffer not in written
        )

    def numbered(self, body: tuple[Node, ...], channel: str) -> tuple[Node, ...]:
        """Return `body` with a channel's stages numbered over all loops around its copies.

        Its ring begins with the roles: an outer iteration goes on at the stage where the one
        before it ended.
        """
        chain = _around(body, channel)
        if len(chain) < 2:
            return body
        number = Index()
        for loop in chain:
            number = number * loop.extent.constant + loop.variable
        ring = next(c for c in self.program.channels if c.name == channel)
        stage, mine = number % ring.stages, frozenset(ring.buffers)

        def change(node: Node) -> tuple[Node, ...]:
            if not (isinstance(node, For) and node.variable == chain[-1].variable):
                return (node,)
            return (replace(node, body=tuple(with_stage(n, mine, stage) for n in node.body)),)

        return rewrite(body, change)

    def spread(self, work: tuple[Node, ...], level: str) -> bool:
        """Whether results are spread over units inside of the level, and thus over several."""
        machine = self.program.machine
        results = {r.buffer for n in nodes(work) if isinstance(n, Compute) for r in writes(n)}
        owners = {machine.memory(self.program.buffer(r).memory).visible_to for r in results}
        depths = {machine.depth(owner) for owner in owners}
        return bool(depths) and max(depths) > machine.depth(level)

    def units(self, work: tuple[Node, ...], loop: For, level: str) -> tuple[int, str]:
        """Return the number of consumer units: each takes whole tiles of rows of every gemm."""
        gemms = [n for n in nodes(work) if isinstance(n, Compute) and n.primitive == "gemm"]
        rows = {n.operands[0].shape[0] // self.rows(n, level) or 1 for n in gemms}
        asked = self.consumers(loop)
        # Rather fewer units than asked than units with unequal numbers of tiles.
        units = next(n for n in range(asked, 0, -1) if all(r % n == 0 for r in rows))
        if units < asked:
            message = (
                f"`consumers: {asked}` is {units} here: a {level} takes whole tiles of rows, and "
                f"there are {min(rows)} of them"
            )
            where = self.program.request(loop.origin.task).where(WARPSPECIALIZE)
            self.remarks.append(Remark("missed", loop.origin.task, message, None, where, NAME))
        return units, f", with {units} {level}s" if units > 1 else ""

    def rows(self, node: Compute, level: str) -> int:
        """Return the rows of one instruction in all units inside a unit of the level."""
        machine = self.program.machine
        issuer = _issuer(machine, node)
        if not issuer or machine.depth(issuer) < machine.depth(level):
            return 1
        inside = machine.processors[machine.depth(level) + 1 : machine.depth(issuer) + 1]
        return machine.instruction(node.instruction).tile[0] * math.prod(p.count for p in inside)

    def shares(self, work: tuple[Node, ...], loop: For) -> list[tuple[Node, ...]]:
        """Return the consumers' bodies: all of the work, or each a part of the rows."""
        asked = self.consumers(loop)
        if asked <= 1:
            return [work]
        inside = _uses(work)
        own = frozenset(
            name
            for name, count in inside.items()
            if name not in self.program.params and count == _uses(self.program.body)[name]
        )
        try:
            rows = RowShares.of(work, own, asked, self.program.machine)
        except IndivisibleError as reason:
            message = f"`consumers: {asked}` is not applied: {reason}"
            request = self.program.request(loop.origin.task)
            about = loop.origin.task
            self.remarks.append(
                Remark("missed", about, message, None, request.where(CONSUMERS), NAME)
            )
            return [work]
        shares = [rows.part(work, number) for number in range(asked)]
        return [shares[0], *(self.again(share) for share in shares[1:])]

    def again(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        """Return another consumer's body, with loop indices and channels of its own."""
        used = {n.channel for n in nodes(body) if isinstance(n, Copy)}
        renamed = {
            c.name: self.names.fresh(c.name) for c in self.program.channels if c.name in used
        }
        self.channels += [
            replace(c, name=renamed[c.name]) for c in self.program.channels if c.name in renamed
        ]
        return tuple(on_channels(n, renamed) for n in repeated(body, self.indices))


def _specialised(node: Node, *, alone: bool) -> For | None:
    """Return the specialised loop that `node` is, or has inside of loops that one unit runs."""
    if not isinstance(node, For):
        return None
    if node.specialize:
        return node
    if alone or node.processor is not None:
        return None
    inside = (_specialised(n, alone=False) for n in node.body)
    return next((loop for loop in inside if loop is not None), None)


def _around(body: tuple[Node, ...], channel: str) -> tuple[For, ...]:
    """Return the loops around the copies on a channel, the outermost first."""
    for node in body:
        if isinstance(node, For):
            inside = _around(node.body, channel)
            if inside or any(isinstance(n, Copy) and n.channel == channel for n in node.body):
                return (node, *inside)
    return ()


def _of_loop(loop: For) -> Iterator[Copy]:
    """Yield the copies of a loop, and of loops in it down to those that are specialised."""
    for node in loop.body:
        if isinstance(node, Copy):
            yield node
        elif isinstance(node, For) and _specialised(node, alone=False) is not None:
            yield from _of_loop(node)


def _keep(body: tuple[Node, ...], channels: frozenset[str], *, holds: bool) -> tuple[Node, ...]:
    """Return only the copies on `channels`, or all but them; loops that are left empty go."""
    kept: list[Node] = []
    for node in body:
        if isinstance(node, For):
            inside = _keep(node.body, channels, holds=holds)
            if inside:
                kept.append(replace(node, body=inside))
        elif (isinstance(node, Copy) and node.channel in channels) == holds:
            kept.append(node)
    return tuple(kept)


def _uses(body: tuple[Node, ...]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for node in nodes(body):
        for region in regions(node):
            counts[region.buffer] = counts.get(region.buffer, 0) + 1
    return counts
