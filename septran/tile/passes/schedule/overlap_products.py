"""Software pipelining of asynchronous products: the next one is issued before the last ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from septran.ir.index import Index, Range, Var, minimum
from septran.mapping.keys import OVERLAP, PINGPONG
from septran.tile.analyses.asynchronous_products import asynchronous
from septran.tile.analyses.loops import map_regions, ranges
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    Remark,
    Role,
    TileProgram,
    nodes,
    reads,
    regions,
    writes,
)
from septran.tile.passes.layout.plan_memory import capacity, peak, placements
from septran.tile.substitution import FIRST, FreshNames, substitute

NAME = "overlap_products"


def overlap_products(program: TileProgram) -> TileProgram:
    """Issue the next iteration's first product before this iteration's last one, where asked.

    ``head(k); middle(k); tail(k)`` for each k becomes ``head(0); middle(0)``, then for each
    k ``head(k+1); tail(k); middle(k+1)``, then the last ``tail``: the order of all that
    depends on each other is kept, and what is between the two products runs beside the tail.
    """
    if not any(request.get(OVERLAP) for request in program.requests):
        return program
    work = _Overlaps(program)
    body = work.body(program.body)
    if not work.done:
        return program.remark(*work.remarks)
    result = replace(program, body=body, buffers=(*program.buffers, *work.buffers))
    # Buffers of the next iteration's head are live beside those of this one, and may not fit.
    over = _over(result)
    if over is not None and _over(program) is None:
        return program.remark(*(replace(r, kind="missed", message=over) for r in work.done))
    return result.remark(*work.done, *work.remarks)


def _over(program: TileProgram) -> str | None:
    """Return a sentence on the memory of results that a program exceeds, None if it fits."""
    held = {r.buffer for n in nodes(program.body) if isinstance(n, Compute) for r in writes(n)}
    plan = placements(program)
    for name in sorted({program.buffer(b).memory for b in held}):
        limit = capacity(program, program.machine.memory(name))
        needed = peak(plan, name)
        if limit is not None and needed > limit:
            return f"`overlap` is not applied: {name} would need {needed:,} bytes of {limit:,}"
    return None


class _Parts(NamedTuple):
    """The three parts of a loop's body."""

    head: tuple[Node, ...]
    """The nodes up to the first product."""
    middle: tuple[Node, ...]
    tail: tuple[Node, ...]
    """The nodes from the last product on."""


@dataclass
class _Overlaps:
    program: TileProgram
    buffers: list[Buffer] = field(default_factory=list)
    done: list[Remark] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.indices = FreshNames.of_loops(self.program.body)
        self.names = FreshNames({b.name for b in self.program.buffers})
        self.known: dict[Var, Range] = ranges(self.program.body)
        self.uses = _uses(self.program.body)

    def body(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        """Return a body with its loops changed, inner ones first."""
        result: list[Node] = []
        for node in body:
            match node:
                case Role():
                    before = len(self.done)
                    inside = self.body(node.body)
                    result.append(self.role(replace(node, body=inside), len(self.done) > before))
                case For():
                    result += self.loop(replace(node, body=self.body(node.body)))
                case _:
                    result.append(node)
        return tuple(result)

    def role(self, role: Role, changed: bool) -> Role:
        """Return a role in ping-pong where the mapping asks for it and products overlap."""
        if not self.program.request(role.origin.task).get(PINGPONG):
            return role
        if changed and role.count > 1:
            return replace(role, pingpong=True)
        if role.name.startswith("consumer"):
            why = "there is one consumer" if changed else "no products of its loop overlap"
            self.say("no-effect", role, f"`pingpong` has no effect: {why}")
        return role

    def loop(self, loop: For) -> tuple[Node, ...]:
        """Return a loop, with its iterations interleaved where that is possible and asked for."""
        request = self.program.request(loop.origin.task)
        if not request.get(OVERLAP) or loop.kind == "parallel":
            return (loop,)
        parts = self.parts(loop)
        if isinstance(parts, str):
            self.say("no-effect", loop, f"`overlap` has no effect: {parts}")
            return (loop,)
        what = f"{_first(parts.head)} of the next {loop.variable} is issued before "
        what += f"{_last(parts.tail)} of this one is waited for"
        self.done.append(self.remark("decision", loop, what))
        return self.rotated(loop, parts)

    def parts(self, loop: For) -> _Parts | str:
        """Return the three parts of the loop's body, or why it has none."""
        body = loop.body
        products = [n for n, node in enumerate(body) if asynchronous(self.program, node)]
        if len(products) < 2:
            return f"the loop over {loop.variable} has no two asynchronous products"
        if any(isinstance(n, Copy) and n.channel is not None for n in nodes(body)):
            return f"the loop over {loop.variable} issues its copies itself, not a role"
        if loop.extent.bounds(self.known)[1] < 2:
            return f"the loop over {loop.variable} has one iteration"
        first, last = products[0], products[-1]
        parts = _Parts(body[: first + 1], body[first + 1 : last], body[last:])
        # The next head is issued before this tail: neither may write what the other one touches.
        shared = _conflict(parts.head, parts.tail)
        if shared is not None:
            return f"the first product of an iteration needs {shared} of the one before"
        # `substitute` takes the last iteration for one that is not the first: so from two of them
        # on.
        if self.restarts(loop, parts.tail) and loop.extent.bounds(self.known)[0] < 2:
            return f"the last product overwrites in the first step of {loop.variable}"
        return parts

    def restarts(self, loop: For, body: tuple[Node, ...]) -> bool:
        """Return whether a product overwrites in the loop's first iteration."""
        name = loop.variable.name
        return any(isinstance(n, Compute) and dict(n.attributes).get(FIRST) == name
                   for n in nodes(body))  # fmt: skip

    def rotated(self, loop: For, parts: _Parts) -> tuple[Node, ...]:
        """Return the prologue, the steady loop, and the rest of the last iteration."""
        least = loop.extent.bounds(self.known)[0]
        # Where the loop may have no iteration, prologue and epilogue are loops of at most one.
        lead = minimum(1, loop.extent) if least < 1 else Index.of(1)
        k = Index.of(loop.variable)
        ahead = _at((*parts.head, *_reordered(parts)), loop.variable, k + 1)
        cut = len(parts.head)
        steady = (*ahead[:cut], *parts.tail, *ahead[cut:])
        begin = self.renamed((*parts.head, *parts.middle))
        return (
            *self.part(loop, begin, lead, Index(), "begins"),
            replace(loop, extent=loop.extent - lead, body=steady),
            *self.part(loop, parts.tail, lead, loop.extent - lead, "ends"),
        )

    def part(
        self, loop: For, body: tuple[Node, ...], lead: Index, base: Index, verb: str
    ) -> tuple[Node, ...]:
        """A part of an iteration before or after the loop, which runs only if the loop does."""
        if lead == Index.of(1):
            return _at(body, loop.variable, base)
        variable = Var(self.indices.fresh(loop.variable.name))
        self.known[variable] = (0, 0)
        rule = f"what {verb} the overlapping iterations over {loop.variable}, where there are any"
        origin = replace(loop.origin, rule=rule)
        inside = _at(body, loop.variable, base + variable)
        return (For(variable, lead, "sequential", None, inside, origin),)

    def renamed(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        """Return a second copy of a body, with buffers of its own for those that it alone uses."""
        mine = _uses(body)
        own = [n for n, count in mine.items() if self.uses[n] == count]
        change = {n: self.names.fresh(n) for n in own if n not in self.program.params}
        for name, fresh in change.items():
            self.buffers.append(replace(self.program.buffer(name), name=fresh))
        return tuple(map_regions(n, change) for n in body)

    def remark(self, kind: str, node: For | Role, message: str) -> Remark:
        where = self.program.request(node.origin.task).where(OVERLAP)
        return Remark(kind, node.origin.task, message, None, where, NAME)

    def say(self, kind: str, node: For | Role, message: str) -> None:
        self.remarks.append(self.remark(kind, node, message))


def _at(body: tuple[Node, ...], variable: Var, value: Index) -> tuple[Node, ...]:
    return tuple(substitute(n, {variable: value}) for n in body)


def _reordered(parts: _Parts) -> tuple[Node, ...]:
    """The middle with the nodes that must wait for the tail last: the others run beside it."""
    early: list[Node] = []
    late: list[Node] = []
    for node in parts.middle:
        waits = _conflict((node,), (*parts.tail, *late)) is not None
        (late if waits else early).append(node)
    return (*early, *late)


def _conflict(a: Iterable[Node], b: Iterable[Node]) -> str | None:
    """Return a buffer that one of two bodies writes and the other touches, None without one."""
    ours, theirs = _touched(a), _touched(b)
    shared = (ours[1] & (theirs[0] | theirs[1])) | (theirs[1] & ours[0])
    return min(shared, default=None)


def _touched(body: Iterable[Node]) -> tuple[set[str], set[str]]:
    found = list(nodes(tuple(body)))
    read = {r.buffer for n in found for r in reads(n)}
    return read, {r.buffer for n in found for r in writes(n)}


def _uses(body: tuple[Node, ...]) -> Counter[str]:
    """Return the number of regions of each buffer that a body touches, in program order."""
    return Counter(region.buffer for node in nodes(body) for region in regions(node))


def _first(body: tuple[Node, ...]) -> str:
    return writes(body[-1])[0].buffer


def _last(body: tuple[Node, ...]) -> str:
    return writes(body[0])[0].buffer
