"""The loops of a gemm: panels and strips around a tile, and in it the summed axis step by step.

An operand is read in place wherever it lies, as long as its offset is one part for the row
(or column) and another for the step: then the first is found once a tile, and the second is
the same for all rows. The steps of a window (channel, row and column of the filter) are such
a part once they are counted by loops of their own: the *walk*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

from septran.ir.atoms import FloorDiv, Mod
from septran.ir.index import Index, Var, axis
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.prefetch import Prefetch
from septran.targets.cpu.gemm.results import Shape
from septran.targets.cpu.map.elements import contiguity, fully_readable, read, widen
from septran.targets.lower.indices import with_axes
from septran.targets.lower.values import cast
from septran.targets.lower.writer import Expr

MOST_HEIGHTS = 2
"""Numbers of rows of one product that strips of about the same height are written for."""


def panels(
    context: Context,
    extent: Index,
    size: int,
    body: Callable[[Index, Index | None], None],
    lanes: int = 0,
) -> None:
    """Run `body` on whole panels, then on what is left; `extent` may be an unknown.

    Where that would be one register of `lanes` columns, it shares them with the panel before.
    """
    cut = _cut(extent.constant, size, lanes) if lanes and extent.is_constant else None
    if cut is not None:
        if cut:
            panels(context, Index.of(cut), size, body)
        last = extent.constant - cut
        wide = lanes * -(-last // (2 * lanes))
        body(Index.of(cut), Index.of(wide))
        body(Index.of(cut + wide), Index.of(last - wide))
        return
    whole = context.variable("panels", extent // size)
    with context.loop("panel", whole) as panel:
        body(panel * size, None)
    rest = context.indices.simplify(extent - whole * size)
    if not context.divides(size, extent) and context.indices.bounds(rest)[1] > 0:
        rest = context.variable("rest", rest)
        # A rest that is the same for every ragged extent is a constant: one register tile then
        # does, not one for each number of columns.
        values = [v for v in context.values(extent) or () if v % size]
        known = Index.of(values[0] % size) if len({v % size for v in values}) == 1 else rest
        with context.when_any(rest):
            body(whole * size, known)


def _cut(extent: int, size: int, lanes: int) -> int | None:
    """The columns of whole panels before two that share what is left; None where they need not.

    A tile one register wide loads an element of the left operand for each multiply-add, and a core
    loads as many vectors a cycle as it multiplies, so that it would wait for its loads.
    """
    whole, rest = divmod(extent, size)
    return (whole - 1) * size if whole and 0 < rest <= lanes and size > 2 * lanes else None


def strips(
    context: Context, extent: Index, shape: Shape, body: Callable[[Index, int], None]
) -> None:
    """Run `body` on whole strips, then on the rows left, each number with its own code.

    Where so few would be left that their sums wait for each other, all strips are of about
    the same height instead.
    """
    values, size = context.values(extent), shape.rows
    if values is not None and len(values) <= MOST_HEIGHTS and any(map(shape.idles, values)):
        for value in values:
            with context.writer.when(len(values) == 1 or context.lower(extent) == value):
                _even_strips(context, value, size, body)
        return
    whole = context.variable("strips", extent // size)
    with context.loop("strip", whole) as strip:
        body(strip * size, size)
    # Rows are written out, as each has a buffer of sums, so each number of them is code of its own.
    rests = sorted({v % size for v in values} if values is not None else range(size))
    left = context.lower(extent - whole * size)
    for rest in rests:
        if rest:
            with context.writer.when(rests == [rest] or left == rest):
                body(whole * size, rest)


def _even_strips(
    context: Context, extent: int, size: int, body: Callable[[Index, int], None]
) -> None:
    """As few strips as there must be, of two heights that differ by one."""
    count = -(-extent // size)
    height, higher = divmod(extent, max(1, count))
    with context.loop("strip", higher) as strip:
        body(strip * (height + 1), height + 1)
    if height:
        with context.loop("strip", count - higher) as strip:
            body(strip * height + higher * (height + 1), height)


MOST_UNROLLED = 12
"""Steps of a walk's innermost loops that are written out.

16 or 21 of them, of 24 multiply-adds each, take 1.4 to 2 times as long as loops of 3 to 12 (Zen 5).
"""

Stream = Callable[[Index, int, int, str, "Expr | None"], Expr]
"""Loads ``(k, number, lanes, dtype, count)`` of a strip or panel."""


@dataclass(frozen=True)
class KLoopNest:
    """The summed axis as nested loops, in any order; a single one where nothing divides it."""

    extents: tuple[int, ...] = ()
    """How often each digit of a step's number counts, most significant first; empty: one loop."""
    order: tuple[int, ...] = ()
    """The digits, by the nesting of their loops, outermost first."""

    def unrolled(self) -> int:
        """Return how many of the innermost loops are written out."""
        count, total = 0, 1
        for number in reversed(self.order):
            total *= self.extents[number]
            if total > MOST_UNROLLED:
                break
            count += 1
        return count

    def number(self, digits: Mapping[int, Index]) -> Index:
        """A step's number from its digits."""
        total = Index()
        for n, extent in enumerate(self.extents):
            total = total * extent + digits[n]
        return total

    @contextmanager
    def loops(self, context: Context, prefetch: Prefetch | None = None) -> Iterator[list[Index]]:
        """Open the loops that are not written out; the numbers of the steps inside.

        The innermost is cut in two where something is to be prefetched in between.
        """
        # Digits that are written out are constants, so that divisions and remainders of them are
        # folded.
        split = len(self.order) - self.unrolled()
        inner: list[dict[int, Index]] = [{}]
        for n in self.order[split:]:
            inner = [{**step, n: Index.of(i)} for step in inner for i in range(self.extents[n])]
        outer: dict[int, Index] = {}
        iteration = Index()
        with ExitStack() as opened:
            for n in self.order[:split]:
                size = 1
                if prefetch and n == self.order[split - 1]:
                    # An iteration is len(inner) steps; a divisor of the extent needs no code for a
                    # rest.
                    size = _divisor(self.extents[n], prefetch.every // len(inner))
                count = self.extents[n] // size
                index = opened.enter_context(context.loop("k", count))
                iteration, outer[n] = iteration * count + index, index * size
                if prefetch and n == self.order[split - 1]:
                    prefetch.issue(context, iteration)
                    outer[n] += opened.enter_context(context.loop("k", size))
            yield [self.number({**outer, **step}) for step in inner]


def _divisor(value: int, most: int) -> int:
    """The greatest divisor of `value` that is at most `most`."""
    return next((n for n in range(min(value, most), 1, -1) if value % n == 0), 1)


def walk(context: Context, operands: tuple[tuple[Access, int], ...], steps: Index) -> KLoopNest:
    """Return a loop nest over the steps in which more operands' addresses need no division."""
    if not steps.is_constant:
        return KLoopNest()
    cuts = {c for access, number in operands for c in _cuts(access.offset, axis(number))}
    chain = [*sorted(c for c in cuts if 1 < c < steps.constant), steps.constant]
    # Digits as of a mixed-radix number: each cut has to be a multiple of the one before.
    if len(chain) == 1 or any(b % a for a, b in pairwise(chain)):
        return KLoopNest()
    extents = tuple(b // a for a, b in zip([1, *chain], chain, strict=False))[::-1]
    digits = KLoopNest(extents, tuple(range(len(extents))))
    found = [
        (_parts(context, access, number, digits), _parts(context, access, number, KLoopNest()))
        for access, number in operands
    ]
    # Nested loops only pay where they take apart an address that a single loop does not.
    if not any(by_digits and not at_once for by_digits, at_once in found):
        return KLoopNest()
    return replace(digits, order=_order(found[0][0], digits))


def _order(parts: tuple[Index, Index] | None, digits: KLoopNest) -> tuple[int, ...]:
    """Digits with short strides in what is broadcast innermost: each row then is one stream."""
    if parts is None:
        return digits.order
    strides = [abs(parts[1].coefficient(_digit(n))) for n in digits.order]
    return tuple(sorted(digits.order, key=lambda n: -strides[n]))


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
    context: Context, access: Access, number: int, steps: KLoopNest
) -> tuple[Index, Index] | None:
    """The offset of step 0, and what the walk's digits add to it.

    None where the two cannot be distinguished, or an element may not exist.
    """
    if any(access.leaving):
        return None
    known = with_axes(access.region, context.indices.ranges)
    digits = [_digit(n) for n in range(max(1, len(steps.extents)))]
    extents = steps.extents or (max(2, access.region.shape[number]),)
    # At least two values for each digit: `simplify` would put a single one in its place, and hide
    # what depends on it.
    known |= {d: (0, max(1, e - 1)) for d, e in zip(digits, extents, strict=True)}
    k = Index.of(digits[0])
    if steps.extents:
        k = steps.number({n: Index.of(d) for n, d in enumerate(digits)})
    moved = access.offset.substitute({axis(number): k}).simplify(known)
    along = Index(tuple((a, c) for a, c in moved.terms if a in digits))
    rest = moved - along
    return None if not rest.variables().isdisjoint(digits) else (rest, along)


def _digit(number: int) -> Var:
    return Var(f"@digit{number}")


def stream(
    context: Context,
    access: Access,
    start: tuple[Index, Index],
    k_axis: int,
    numbers: Sequence[int],
    steps: KLoopNest,
) -> Stream:
    """Return a loader of the element or vector at each of `numbers` and at step k."""
    across = 1 - k_axis
    place = offsets(context, access, start, k_axis, numbers, steps)

    def load(k: Index, number: int, lanes: int, dtype: str, count: Expr | None) -> Expr:
        spot = list(start)
        spot[k_axis], spot[across] = k, start[across] + number
        step = contiguity(access, spot, across, lanes)
        whole = count is None or fully_readable(access, step)
        if not whole or place is None or step is None:
            return cast(read(context, access, spot, lanes, across, count), dtype)
        value = simd.load(access.storage.flat, context.lower(place(k, number)), lanes, step)
        return cast(widen(value, access.storage.dtype), dtype)

    return load


def offsets(
    context: Context,
    access: Access,
    start: tuple[Index, Index],
    k_axis: int,
    numbers: Sequence[int],
    steps: KLoopNest,
) -> Callable[[Index, int], Index] | None:
    """Return the offset of each of `numbers` at step k; None where it is no sum of two parts."""
    across = 1 - k_axis
    parts = _parts(context, access, k_axis, steps)
    if parts is None:
        return None
    pitch = access.stride(across)
    bases: dict[int, Index] = {}
    for number in numbers if pitch is None else (0,):
        spot = {axis(across): start[across] + number}
        bases[number] = context.variable("at", parts[0].substitute(spot))

    def place(k: Index, number: int) -> Index:
        base = bases[number] if pitch is None else bases[0] + number * pitch
        return base + _along(context, access, parts[0], k_axis, k)

    return place


def _along(context: Context, access: Access, rest: Index, k_axis: int, k: Index) -> Index:
    """Return what step `k` adds to the offset of step 0."""
    zero = {axis(1 - k_axis): Index()}
    whole = access.offset.substitute({**zero, axis(k_axis): k})
    return context.indices.simplify(whole - rest.substitute(zero))
