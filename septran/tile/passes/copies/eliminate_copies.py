"""Elimination of copies that move data to where it is already."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from septran.ir.bounds import greatest
from septran.ir.index import Range, Var
from septran.tile.analyses.indirect import indirect
from septran.tile.analyses.loops import covers, depends, map_regions, may_overlap, ranges, trips
from septran.tile.nodes import (
    Copy,
    For,
    Node,
    RemovedCopy,
    Role,
    TileProgram,
    nodes,
    reads,
    writes,
)

NAME = "eliminate_copies"


def eliminate_copies(program: TileProgram) -> TileProgram:
    """Drop copies that nobody reads, hoist those that a loop repeats in vain, then drop repeats."""
    work = _Elimination(program, ranges(program.body))
    body = program.body
    # A copy may have been read only by a copy that is dropped, so this ends at a fixed point.
    while (fewer := work.drop_unread(body)) != body:
        body = fewer
    body = work.hoist_all(body, ())
    body = work.drop_duplicates(body, (), ())
    kept = {name for node in nodes(body) for name in _names(node)} | set(program.params)
    buffers = tuple(b for b in program.buffers if b.name in kept)
    return replace(
        program, body=body, buffers=buffers, removed=program.removed + tuple(work.removed)
    )


@dataclass
class _Elimination:
    program: TileProgram
    known: dict[Var, Range]
    removed: list[RemovedCopy] = field(default_factory=list)

    @cached_property
    def indices(self) -> frozenset[str]:
        """The tensors of integers that choose rows or count iterations."""
        return frozenset(indirect(self.program.body))

    def drop_unread(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        """Return the body without copies of tensors that a task takes only for their positions."""
        read = {r.buffer for n in nodes(body) for r in reads(n)} | self.indices
        kept = read | set(self.program.params)

        def inside(body: tuple[Node, ...], loops: tuple[For, ...]) -> tuple[Node, ...]:
            result: list[Node] = []
            for node in body:
                if isinstance(node, Copy) and node.target.buffer not in kept:
                    reason = f"nobody reads {node.target.buffer}"
                    self.removed.append(RemovedCopy(node, NAME, reason, trips(loops)))
                    continue
                if isinstance(node, For | Role):
                    around = (*loops, node) if isinstance(node, For) else loops
                    node = replace(node, body=inside(node.body, around))
                result.append(node)
            return tuple(result)

        return inside(body, ())

    def hoist_all(self, body: tuple[Node, ...], loops: tuple[For, ...]) -> tuple[Node, ...]:
        """Move copies that do not depend on a loop out of it, innermost loops first."""
        result: list[Node] = []
        for node in body:
            match node:
                case For():
                    inside = replace(node, body=self.hoist_all(node.body, (*loops, node)))
                    inside = self._out_of_conditions(inside)
                    before, loop, after = self._hoist(inside, loops)
                    result += [*before, loop, *after]
                case Role():
                    result.append(replace(node, body=self.hoist_all(node.body, loops)))
                case _:
                    result.append(node)
        return tuple(result)

    def _hoist(self, loop: For, outer: tuple[For, ...]) -> tuple[list[Node], For, list[Node]]:
        before: list[Node] = []
        after: list[Node] = []
        if loop.processor is not None:  # its buffers belong to the units that share it
            return before, loop, after
        for copy in [n for n in loop.body if isinstance(n, Copy)]:
            # A copy back may be gone already, hoisted together with the copy that it belongs to.
            if copy not in loop.body or not self._repeats(copy, loop):
                continue
            if self._on_condition(loop) and not self._runs_ahead(copy):
                continue  # nothing is saved, and where the launch is skipped it would be made
            if self._invariant_input(copy, loop):
                before.append(copy)
            elif (back := self._spill(copy, loop)) is not None:
                before.append(copy)
                after.insert(0, back)  # what is brought first goes back last
                loop = replace(loop, body=tuple(n for n in loop.body if n is not back))
                self._record(back, loop, outer, "its target does not change with")
            else:
                continue
            loop = replace(loop, body=tuple(n for n in loop.body if n is not copy))
            self._record(copy, loop, outer, "its source does not change with")
        return before, loop, after

    def _out_of_conditions(self, loop: For) -> For:
        """Move what launches on a condition copy alike in each iteration out of the condition."""
        body: list[Node] = []
        for node in loop.body:
            if isinstance(node, For) and self._on_condition(node):
                alike = [
                    n
                    for n in node.body
                    if isinstance(n, Copy)
                    and all(self._repeats(n, w) for w in (node, loop))
                    and all(self._invariant_input(n, w) for w in (node, loop))
                ]
                body += alike
                node = replace(node, body=tuple(n for n in node.body if n not in alike))
            body.append(node)
        return replace(loop, body=tuple(body))

    def _on_condition(self, loop: For) -> bool:
        """Return whether the loop has one iteration or none, as data say (`task.when`)."""
        return any(loop.extent.elements()) and greatest(loop.extent, self.known) <= 1

    def _runs_ahead(self, copy: Copy) -> bool:
        """Return whether the copy may be made beside the computation of what is before it."""
        return self.program.machine.engine(copy.engine).asynchronous

    def _record(self, copy: Copy, loop: For, outer: tuple[For, ...], why: str) -> None:
        saved = trips((*outer, loop)) - trips(outer)
        if saved > 0:
            reason = f"hoisted: {why} {loop.variable}"
            self.removed.append(RemovedCopy(copy, NAME, reason, saved))

    def _repeats(self, copy: Copy, loop: For) -> bool:
        still = not depends(copy.source, loop.variable) and not depends(copy.target, loop.variable)
        return still and copy.source.buffer != copy.target.buffer

    def _invariant_input(self, copy: Copy, loop: For) -> bool:
        """Return whether nothing in the loop changes the source, and nothing else the target."""
        for node in nodes(loop.body):
            for region in writes(node):
                if node is not copy and region.buffer == copy.target.buffer:
                    return False
                if may_overlap(region, copy.source, self.known):
                    return False
        return True

    def _spill(self, copy: Copy, loop: For) -> Copy | None:
        """Return the copy back of what `copy` staged, if all else works on the staged tensor."""
        backs = [
            n
            for n in loop.body
            if isinstance(n, Copy) and (n.target, n.source) == (copy.source, copy.target)
        ]
        if len(backs) != 1:
            return None
        for node in nodes(loop.body):
            if node is copy or node is backs[0]:
                continue
            touched = (*reads(node), *writes(node))
            if any(may_overlap(r, copy.source, self.known) for r in touched):
                return None
        return backs[0]

    def drop_duplicates(
        self, body: tuple[Node, ...], available: tuple[Copy, ...], loops: tuple[For, ...]
    ) -> tuple[Node, ...]:
        """Return the body without copies of a region that an earlier copy still holds unchanged."""
        rest = list(body)
        result: list[Node] = []
        while rest:
            node = rest.pop(0)
            if isinstance(node, For | Role):
                # What is held before a loop is held in each iteration only if none of them disturbs
                # it.
                held = tuple(c for c in available if not self._disturbed(c, node.body))
                inner = (*loops, node) if isinstance(node, For) else loops
                node = replace(node, body=self.drop_duplicates(node.body, held, inner))
                available = tuple(c for c in available if not self._disturbed(c, node.body))
            elif isinstance(node, Copy) and (twin := self._twin(node, available, rest)):
                names = {node.target.buffer: twin.target.buffer}
                rest = [map_regions(n, names) for n in rest]
                reason = f"{twin.target.buffer} already holds {node.source}"
                self.removed.append(RemovedCopy(node, NAME, reason, trips(loops)))
                continue
            else:
                available = tuple(c for c in available if not self._disturbed(c, (node,)))
            if isinstance(node, Copy) and self._whole_target(node):
                available = (*available, node)
            result.append(node)
        return tuple(result)

    def _disturbed(self, copy: Copy, body: tuple[Node, ...]) -> bool:
        changed = [region for node in nodes(body) for region in writes(node)]
        return any(
            may_overlap(region, copy.source, self.known)
            or may_overlap(region, copy.target, self.known)
            for region in changed
        )

    def _twin(self, copy: Copy, available: tuple[Copy, ...], rest: list[Node]) -> Copy | None:
        """An earlier copy of the same source into an equal buffer that nothing else writes."""
        mine = self.program.buffer(copy.target.buffer)
        if not self._whole_target(copy) or mine.name in self.program.params:
            return None
        if mine.name in self.indices:  # elements find it by its name
            return None
        if any(r.buffer == mine.name for n in nodes(tuple(rest)) for r in writes(n)):
            return None
        for other in available:
            theirs = self.program.buffer(other.target.buffer)
            alike = replace(theirs, name=mine.name, origin=mine.origin, tensor=mine.tensor) == mine
            same = other.source == copy.source and other.engine == copy.engine
            if alike and same and not self._changed_later(theirs.name, rest):
                return other
        return None

    def _changed_later(self, buffer: str, rest: list[Node]) -> bool:
        return any(r.buffer == buffer for n in nodes(tuple(rest)) for r in writes(n))

    def _whole_target(self, copy: Copy) -> bool:
        return covers(copy.target, self.program.buffer(copy.target.buffer).shape)


def _names(node: Node) -> tuple[str, ...]:
    return tuple(r.buffer for r in (*reads(node), *writes(node)))
