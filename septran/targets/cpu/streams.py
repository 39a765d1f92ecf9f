"""How a microkernel goes over the summed axis, and what it loads at each step.

An operand is read in place wherever it lies, as long as its offset is one part for the row
(or column) and another for the step: then the first is found once a tile, and the second is
the same for all rows. The steps of a window (channel, row and column of the filter) are such
a part once they are counted by loops of their own: the *walk*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access, with_axes
from septran.targets.cpu.context import Context
from septran.targets.cpu.elements import contiguity, read, widen
from septran.targets.cpu.writer import Expr
from septran.task.atoms import FloorDiv, Mod
from septran.task.index import Index, Var, axis

MOST_UNROLLED = 24
"""Steps of a walk's innermost loops that are written out."""

Stream = Callable[[Index, int, int, str, "Expr | None"], Expr]
"""Loads ``(k, number, lanes, dtype, count)`` of a strip or panel."""


@dataclass(frozen=True)
class Walk:
    """The summed axis as nested loops; a single one where nothing divides it."""

    extents: tuple[int, ...] = ()
    """Of the loops, outermost first; empty: one loop over all steps."""

    def unrolled(self) -> int:
        """How many of the innermost loops are written out."""
        count = 0
        while count < len(self.extents) and (
            math.prod(self.extents[-count - 1 :]) <= MOST_UNROLLED
        ):
            count += 1
        return count

    def step(self, digits: list[Index]) -> Index:
        """The number of a step, from the loops' indices."""
        total = Index()
        for digit, extent in zip(digits, self.extents, strict=True):
            total = total * extent + digit
        return total

    @contextmanager
    def loops(self, context: Context) -> Iterator[list[list[Index]]]:
        """Open the loops that are not written out; the steps inside, by their digits."""
        inner = self.extents[len(self.extents) - self.unrolled() :]
        outer = list(self.extents[: len(self.extents) - len(inner)])
        steps: list[list[Index]] = [[]]
        for extent in inner:
            steps = [[*step, Index.of(n)] for step in steps for n in range(extent)]

        @contextmanager
        def nest(rest: list[int], at: list[Index]) -> Iterator[list[Index]]:
            if not rest:
                yield at
                return
            with (
                context.loop("k", rest[0]) as digit,
                nest(rest[1:], [*at, digit]) as found,
            ):
                yield found

        with nest(outer, []) as at:
            yield [[*at, *step] for step in steps]


def walk(context: Context, operands: tuple[tuple[Access, int], ...], steps: Index) -> Walk:
    """How to count the steps so that more of the operands, each with its summed axis, divide."""
    if not steps.is_constant:
        return Walk()
    found: set[int] = set()
    for access, number in operands:
        found |= {c for entry in (access.offset,) for c in _cuts(entry, axis(number))}
    chain = [*sorted(c for c in found if 1 < c < steps.constant), steps.constant]
    if len(chain) == 1 or any(b % a for a, b in zip(chain, chain[1:], strict=False)):
        return Walk()
    extents = [b // a for a, b in zip([1, *chain], chain, strict=False)]
    digits = Walk(tuple(reversed(extents)))
    better = any(
        _parts(context, access, number, digits) is not None
        and _parts(context, access, number, Walk()) is None
        for access, number in operands
    )
    return digits if better else Walk()


def _cuts(index: Index, variable: Var) -> Iterator[int]:
    """Steps of `variable` after which some division or remainder goes on or starts anew."""
    for atom, _ in index.terms:
        if isinstance(atom, FloorDiv | Mod) and variable in atom.value.variables():
            inside = tuple(_cuts(atom.value, variable))
            yield from inside
            scale = 1
            if isinstance(atom.value.terms[0][0], FloorDiv) and len(atom.value.terms) == 1:
                scale = max(inside, default=1)
            yield scale * atom.divisor


def _parts(
    context: Context, access: Access, number: int, steps: Walk
) -> tuple[Index, Index] | None:
    """The offset of step 0, and what the walk's digits (``@0``, ``@1``..) add to it.

    None where the two cannot be told apart, or an element may not exist.
    """
    if any(access.leaving):
        return None
    known = with_axes(access.region, context.indices.ranges)
    digits = [Var(f"@digit{n}") for n in range(max(1, len(steps.extents)))]
    extents = steps.extents or (max(2, access.region.shape[number]),)
    known |= {d: (0, max(1, e - 1)) for d, e in zip(digits, extents, strict=True)}
    k = Index.of(digits[0]) if not steps.extents else steps.step([Index.of(d) for d in digits])
    moved = access.offset.substitute({axis(number): k}).simplify(known)
    along = Index(tuple((a, c) for a, c in moved.terms if a in digits))
    rest = moved - along
    return None if not rest.variables().isdisjoint(digits) else (rest, along)


def stream(
    context: Context,
    access: Access,
    start: tuple[Index, Index],
    k_axis: int,
    numbers: Sequence[int],
    steps: Walk,
) -> Stream:
    """How to load the element or vector of a strip or panel at each of `numbers`, at step k."""
    across = 1 - k_axis
    parts = _parts(context, access, k_axis, steps)
    pitch = access.stride(across)
    bases: dict[int, Index] = {}
    if parts is not None:
        for number in numbers if pitch is None else (0,):
            spot = {axis(across): start[across] + number}
            bases[number] = context.variable("at", parts[0].substitute(spot))

    def load(k: Index, number: int, lanes: int, dtype: str, count: Expr | None) -> Expr:
        spot = list(start)
        spot[k_axis], spot[across] = k, start[across] + number
        step = contiguity(access, spot, across, lanes)
        if count is not None or parts is None or step is None:
            return simd.cast(read(context, access, spot, lanes, across, count), dtype)
        base = bases[number] if pitch is None else bases[0] + number * pitch
        offset = base + _along(context, access, parts[0], k_axis, k)
        value = simd.load(access.storage.flat, context.lower(offset), lanes, step)
        return simd.cast(widen(value, access.storage.dtype), dtype)

    return load


def _along(context: Context, access: Access, rest: Index, k_axis: int, k: Index) -> Index:
    """What step `k` adds to the offset of step 0."""
    zero = {axis(1 - k_axis): Index()}
    whole = access.offset.substitute({**zero, axis(k_axis): k})
    return context.indices.simplify(whole - rest.substitute(zero))
