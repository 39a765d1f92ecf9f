"""Sums in the order, and in the groups, in which the operand that is read in place lies."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from septran.ir.atoms import FloorDiv, Mod
from septran.ir.index import Index, Range, Var, axis
from septran.tile.analyses.loops import ranges
from septran.tile.layouts import Layout
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    Node,
    Region,
    Remark,
    TileProgram,
    nodes,
    reads,
    rewrite,
    writes,
)
from septran.tile.passes.layout.zero_edges import SUMMED


@dataclass(frozen=True)
class _Order:
    """An order of the steps of a sum: the digits of a step's number, the slowest one first."""

    extents: tuple[int, ...]
    weights: tuple[int, ...]
    """The distance in the logic's own steps from one value of a digit to the next."""
    run: int
    """Steps that lie side by side, where those of the fastest digit are no whole groups; else 0."""

    def step(self, number: int) -> Index:
        """The logic's step at each step of this order, counted by the axis of that number."""
        total, rest = Index(), math.prod(self.extents)
        for extent, weight in zip(self.extents, self.weights, strict=True):
            # Now the distance in this order from one value of the digit to the next.
            rest //= extent
            total = total + Index.of(axis(number)) // rest % extent * weight
        return total


def order_sums(program: TileProgram) -> TileProgram:
    """Sum a product in an order in which the groups of both operands lie side by side.

    An instruction that multiplies groups of elements takes those of one operand from a panel
    that was packed in groups, and those of the other from where it lies. A convolution's logic
    may sum over (channel, row, column) of a filter while the channels of the image are what is
    contiguous. A sum may be taken in any order, so the panel is packed in that of the other
    operand, here (row, column, channel): its own copy reads its source in another order, once.
    What lies side by side there, a row of the filter with all channels, may be no whole number of
    groups. Then the panel has the last group of each filled up, with zeros.
    """
    for buffer in program.buffers:
        if buffer.layout.group > 1:
            program = _ordered(program, buffer)
    return program


def _ordered(program: TileProgram, panel: Buffer) -> TileProgram:
    """Return the program with a panel, and all products that read it, in one other order."""
    readers = [n for n in nodes(program.body) if any(r.buffer == panel.name for r in reads(n))]
    makers = [n for n in nodes(program.body) if any(r.buffer == panel.name for r in writes(n))]
    known = ranges(program.body)
    found = {_wanted(program, panel, node) for node in readers}
    order = found.pop() if len(found) == 1 else None
    if order is None or not all(_fills(node, panel, order) for node in makers):
        return program

    def change(node: Node) -> tuple[Node, ...]:
        if node in makers and isinstance(node, Copy):
            along = _along(node.target, panel, math.prod(order.extents))
            return (replace(node, source=_reordered(node.source, along, order, known)),)
        if node in readers and isinstance(node, Compute):
            place = _place(node, panel)
            others = list(node.operands)
            # A and B are operands 1 and 2, so the other one is 3 - place.
            others[3 - place] = _reordered(others[3 - place], SUMMED[3 - place], order, known)
            return (replace(node, operands=tuple(others)),)
        return (node,)

    layout = panel.layout
    if order.run:
        layout = Layout("panels", (*layout.parameters[:3], order.run))
    buffers = tuple(replace(b, layout=layout) if b is panel else b for b in program.buffers)
    message = (
        f"{panel.name} is packed in the order in which the other operand of its products lies, "
        f"so that groups of {layout.group} lie side by side in both"
        + (f", of each {order.run} steps the last one filled up" if order.run else "")
    )
    where = panel.asked or (panel.origin.mapping if panel.origin else None)
    remark = Remark("decision", panel.name, message, None, where, "order_sums")
    body = rewrite(program.body, change)
    return replace(program, body=body, buffers=buffers).remark(remark)


def _wanted(program: TileProgram, panel: Buffer, node: Node) -> _Order | None:
    """Return the order for a product that reads a panel; None where it has or needs none."""
    place = _place(node, panel)
    if place == 0 or not isinstance(node, Compute):
        return None
    mine, other = node.operands[place], node.operands[3 - place]
    steps = mine.shape[SUMMED[place]]
    whole = all(
        region.shape[SUMMED[n]] == steps and region.valid[SUMMED[n]] == Index.of(steps)
        for n, region in ((place, mine), (3 - place, other))
    )
    own = [n for n, entry in enumerate(mine.index) if axis(SUMMED[place]) in entry.variables()]
    if not whole or [mine.index[n] for n in own] != [Index.of(axis(SUMMED[place]))]:
        return None
    if panel.shape[own[0]] != steps or own[0] != _summed(panel):
        return None
    return _contiguous(program, other, SUMMED[3 - place], steps, panel.layout.group)


def _place(node: Node, panel: Buffer) -> int:
    """Return which operand of a product a panel is, 1 or 2; 0 where it is neither, or both."""
    if not isinstance(node, Compute) or node.primitive != "gemm":
        return 0
    found = [n for n in SUMMED if node.operands[n].buffer == panel.name]
    return found[0] if len(found) == 1 else 0


def _contiguous(
    program: TileProgram, region: Region, along: int, steps: int, group: int
) -> _Order | None:
    """Return the order of a region's steps in memory; None where that has no order of groups."""
    cuts = _cuts(region, along, steps)
    # Cuts at 1 and at the end alone make one digit, of which there is no other order.
    if cuts is None or len(cuts) < 3:
        return None
    extents = [b // a for a, b in itertools.pairwise(cuts)]
    strides = _strides(program, region, along, cuts)
    if strides is None:
        return None
    slowest = sorted(range(len(strides)), key=lambda n: -strides[n])
    last, run = slowest[-1], 1
    if strides[last] == 1 and extents[last] % group == 0:
        run = 0
    for n in reversed(slowest) if run else ():
        # What goes on where the faster digits end: channels, then the columns of a filter.
        run *= extents[n] if strides[n] == run else 1
    order = tuple(extents[n] for n in slowest), tuple(cuts[n] for n in slowest)
    # Without runs a panel is packed in groups already, in the logic's own order.
    return None if not run and last == 0 else _Order(*order, run if run < steps else 0)


def _strides(
    program: TileProgram, region: Region, along: int, cuts: tuple[int, ...]
) -> list[int] | None:
    """Return how far apart in memory neighbours of each digit of a step are.

    None where a step's place is not a sum of its digits, so that no order of them is memory's.
    """
    buffer = program.buffer(region.buffer)
    if buffer.layout.kind not in ("row", "padded"):
        return None
    digits = [Var(f"@digit{n}") for n in range(len(cuts) - 1)]
    step = sum((Index.of(v) * cut for v, cut in zip(digits, cuts, strict=False)), Index())
    known = ranges(program.body) | {axis(n): (0, e - 1) for n, e in enumerate(region.shape)}
    known |= {
        v: (0, b // a - 1) for v, (a, b) in zip(digits, itertools.pairwise(cuts), strict=True)
    }
    index = [e.substitute({axis(along): step}).simplify(known) for e in region.index]
    offset = buffer.layout.offset(index, buffer.shape).simplify(known)
    strides = [offset.coefficient(v) for v in digits]
    rest = offset - sum((Index.of(v) * s for v, s in zip(digits, strides, strict=True)), Index())
    return None if rest.variables() & set(digits) else strides


def _cuts(region: Region, along: int, steps: int) -> tuple[int, ...] | None:
    """Return where a region's map divides the steps into digits: 1, 3, 9 and all for 3 x 3.

    None where one is no multiple of the one before, so that they are no digits.
    """
    found = {1, steps}
    for entry in region.index:
        for atom, _ in entry.terms:
            if not _add_cuts(atom, axis(along), found):
                return None
    cuts = tuple(sorted(c for c in found if c <= steps))
    apart = all(b % a == 0 for a, b in itertools.pairwise(cuts))
    return cuts if apart else None


def _add_cuts(atom: object, variable: Var, found: set[int]) -> int | bool:
    """Return the steps to one of the atom's, once its cuts are in `found`; False without digits."""
    if atom == variable or not isinstance(atom, FloorDiv | Mod):
        return True
    if variable not in atom.value.variables():
        return True
    if len(atom.value.terms) != 1 or atom.value.constant or atom.value.terms[0][1] != 1:
        return False
    inner = atom.value.terms[0][0]
    scale = _add_cuts(inner, variable, found)
    if not scale or (isinstance(inner, Mod)):
        return False
    # x // d changes, and x mod d begins again, every d steps: both cut the steps there.
    found.add(int(scale) * atom.divisor)
    return int(scale) * (atom.divisor if isinstance(atom, FloorDiv) else 1)


def _fills(node: Node, panel: Buffer, order: _Order) -> bool:
    """Return whether a node copies into all steps of a panel, so that any order of them will do."""
    if not isinstance(node, Copy) or node.target.buffer != panel.name or node.zero_fill:
        return False
    return _along(node.target, panel, math.prod(order.extents)) >= 0


def _along(target: Region, panel: Buffer, steps: int) -> int:
    """Return the axis of a copy that counts all the steps of the panel that it writes; else -1."""
    counted = target.index[_summed(panel)]
    for number, extent in enumerate(target.shape):
        whole = extent == steps and target.valid[number] == Index.of(steps)
        if whole and counted == Index.of(axis(number)):
            return number
    return -1


def _summed(panel: Buffer) -> int:
    """Return the axis of a panel of groups along which its groups go."""
    return max(n for n in range(len(panel.shape)) if n != panel.layout.parameters[0])


def _reordered(region: Region, along: int, order: _Order, known: dict[Var, Range]) -> Region:
    """Return a region whose steps are counted in another order."""
    own = known | {axis(n): (0, max(0, e - 1)) for n, e in enumerate(region.shape)}
    values = {axis(along): order.step(along)}
    index = tuple(e.substitute(values).simplify(own) for e in region.index)
    return replace(region, index=index)
