"""Padding of tiles to the sizes that a faster instruction takes: a head of 40 becomes one of 48.

Only the nominal extent of an axis grows, in all buffers and computations that share it. The valid
extent stays the same, so that the rest is the ragged edge of a tile like any other: copies fill it
with zeros where a product sums over it, everything else leaves it out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from septran.ir.primitives import PRIMITIVES
from septran.ir.views import View
from septran.tile.analyses.axes import Axes, Key, operand_axes, resized
from septran.tile.nodes import (
    Compute,
    Copy,
    Node,
    Region,
    Remark,
    TileProgram,
    nodes,
    rewrite,
    writes,
)

NAME = "pad_tiles"
Use = tuple[str, str]
"""The path of a task and a primitive that it uses."""


def pad_tiles(program: TileProgram) -> TileProgram:
    """Round axes up to what a faster instruction takes, in all buffers that share them."""
    wanted = {(r.task, name): by for r in program.requests for name, by in r.rounded}
    if not wanted:
        return program
    work = _Work(program, Axes.of(program))
    # A task of which no iteration is left has a request, and no product.
    there = work.uses()
    wanted = {use: by for use, by in wanted.items() if use in there}
    refused: dict[Use, str] = {}
    # A use whose axes cannot grow is taken back, which may let the axes of others grow less: so
    # this goes on until the rest have no problem.
    while why := next(work.problems(wanted), None):
        use, reason = why
        refused[use] = f"{work.said(use, wanted.pop(use))}: {reason}"
    remarks = [work.remark("missed", use, text) for use, text in refused.items()]
    remarks += [work.remark("decision", use, work.rounding(use, wanted)) for use in wanted]
    sizes = work.sizes(wanted)

    def change(node: Node) -> tuple[Node, ...]:
        by = wanted.get(_use(node))
        return (replace(node, instruction=by),) if by and isinstance(node, Compute) else (node,)

    program = resized(program, work.axes, sizes)
    return replace(program, body=rewrite(program.body, change)).remark(*remarks)


@dataclass(frozen=True)
class _Work:
    program: TileProgram
    axes: Axes

    def problems(self, wanted: Mapping[Use, str]) -> Iterator[tuple[Use, str]]:
        """Yield uses whose axes cannot be rounded up, each with the reason."""
        sizes = self.sizes(wanted)
        for node in self._primitives():
            for letter, key, regions in self._axes(node):
                why = key in sizes and (
                    self.axes.fixed.get(key)
                    or self._unfilled(node, wanted.get(_use(node)), letter, regions)
                )
                if why:
                    extent = self.axes.extents[key]
                    yield self._who(node, key, wanted), f"{letter} is {extent}, and {why}"

    def _who(self, node: Compute, key: Key, wanted: Mapping[Use, str]) -> Use:
        """Return the use that makes a group grow: the node's own one, or another that shares it."""
        users = [node, *(n for n in self._primitives() if key in [k for _, k, _ in self._axes(n)])]
        return next(_use(n) for n in users if _use(n) in wanted)

    def sizes(self, wanted: Mapping[Use, str]) -> dict[Key, int]:
        """Return the extents of groups that a product needs to be greater."""
        steps: dict[Key, int] = {}
        grown: set[Key] = set()
        for node in self._primitives():
            taken = self.program.machine.instruction(wanted.get(_use(node), node.instruction))
            for (_, key, _), step in zip(self._axes(node), taken.multiple_of, strict=False):
                fits = self.axes.extents[key] % step == 0
                # What fits must still fit after another use has made the axis grow: hence a common
                # multiple.
                if fits or _use(node) in wanted:
                    steps[key] = math.lcm(steps.get(key, 1), step)
                if not fits and _use(node) in wanted:
                    grown.add(key)
        return {key: -(-self.axes.extents[key] // steps[key]) * steps[key] for key in grown}

    def uses(self) -> frozenset[Use]:
        """Return the uses of primitives that the program has."""
        return frozenset(map(_use, self._primitives()))

    def said(self, use: Use, by: str) -> str:
        """Return the beginning of a remark that a product keeps its instruction."""
        node = next(n for n in self._primitives() if _use(n) == use)
        return f"{use[1]} is {node.instruction}, as tiles cannot be rounded up for {by}"

    def rounding(self, use: Use, wanted: Mapping[Use, str]) -> str:
        """Return the remark about the axes that are rounded up for a product."""
        sizes = self.sizes(wanted)
        steps = {
            f"{letter} from {self.axes.extents[key]} to {sizes[key]}"
            for node in self._primitives()
            if _use(node) == use
            for letter, key, _ in self._axes(node)
            if key in sizes
        }
        return f"{use[1]} is {wanted[use]}, with tiles rounded up: {', '.join(sorted(steps))}"

    def remark(self, kind: str, use: Use, message: str) -> Remark:
        """Return a remark about a product, at the line that lists its instruction."""
        origin = next(n.origin for n in self._primitives() if _use(n) == use)
        return Remark(kind, use[0], message, None, origin.mapping or origin.logic, NAME)

    def _primitives(self) -> Iterator[Compute]:
        """Yield the computations whose operands' axes have letters."""
        for node in nodes(self.program.body):
            named = isinstance(node, Compute) and PRIMITIVES.get(node.primitive)
            if isinstance(node, Compute) and named and "*" not in named.axes:
                yield node

    def _axes(self, node: Compute) -> list[tuple[str, Key, list[Region]]]:
        """Return the letters of a primitive's axes, with the group and the regions of each."""
        found: dict[str, tuple[Key, list[Region]]] = {}
        letters = PRIMITIVES[node.primitive].axes
        for names, region, keys in zip(letters, node.operands, operand_axes(node), strict=True):
            for letter, key in zip(names, keys, strict=True):
                found.setdefault(letter, (self.axes.group(key), []))[1].append(region)
        return [(letter, key, regions) for letter, (key, regions) in found.items()]

    def _unfilled(
        self, node: Compute, by: str | None, letter: str, regions: list[Region]
    ) -> str | None:
        """Return why an axis that is summed over would not be padded with zeros; None if it would.

        An instruction clears the padding in registers itself.
        """
        instruction = self.program.machine.instruction(by or node.instruction)
        summed = letter in PRIMITIVES[node.primitive].reduction
        if not summed or not instruction.options.get("whole_tiles"):
            return None
        for region in regions:
            buffer = self.program.buffer(region.buffer)
            for other in nodes(self.program.body) if buffer.memory != "REGISTER" else ():
                if all(r.buffer != buffer.name for r in writes(other)):
                    continue
                if not isinstance(other, Copy) or not self._fills(other):
                    return f"{buffer.tensor or buffer.name} is computed, with no zeros beyond"
        return None

    def _fills(self, copy: Copy) -> bool:
        """Return whether a copy can write zeros where its source ends."""
        source = self.program.buffer(copy.source.buffer)
        memory = self.program.machine.main_memory.name
        whole = copy.source.index == View.whole("", copy.source.shape).index
        return source.memory == memory or (source.memory == "REGISTER" and whole)


def _use(node: Node) -> Use:
    return (node.origin.task, node.primitive) if isinstance(node, Compute) else ("", "")
