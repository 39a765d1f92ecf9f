"""Copies as DMA commands: strided rows of bytes, blocks, and zeros where nothing exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from septran.ir.index import Index, axis, ceil_div, maximum, minimum
from septran.targets.dsa.context import Access, Context, unsupported
from septran.targets.dsa.runs import ELEMENTS, RunCut, Runs, runs, slope
from septran.targets.lower.indices import with_axes
from septran.tile.nodes import Copy

Spot = dict[int, Index]
"""Coordinates by axis."""


def emit_copy(context: Context, node: Copy, queue: int) -> None:
    """``target = source`` for the elements that exist."""
    target, source = context.access(node.target), context.access(node.source)
    if target.dtype != source.dtype:
        raise unsupported(
            node.origin,
            f"{node.engine} moves bytes: {source.dtype} does not become {target.dtype} on the way",
            "place the converted tensor in a memory where an instruction converts it",
        )
    move = _Move(context, node, queue, target, source)
    if move.blocked():
        return
    if target.storage.buffer.layout.kind == "fractal" and not move.fills_blocks():
        move.zero(move.in_blocks())
    elif node.zero_fill and node.source.ragged:
        move.zero([Index.of(n) for n in node.target.shape])
    # The zeros may lie on any side: all is zeroed, then what lies in the tensor is copied over.
    elif node.source.padded and not move.inside():
        move.zero(list(node.source.valid))
    move.rows()


@dataclass
class _Move:
    context: Context
    node: Copy
    queue: int
    target: Access
    source: Access
    spots: Spot = field(default_factory=dict)

    @property
    def item(self) -> int:
        return self.source.storage.item

    # ---- blocks -----------------------------------------------------------------------

    def blocked(self) -> bool:
        """Whether one side has blocks that one command makes or takes apart (done then)."""
        sides = [a.storage.buffer.layout for a in (self.target, self.source)]
        fractal = [layout.kind == "fractal" for layout in sides]
        if all(fractal) and sides[0] == sides[1]:
            return self.whole_blocks()
        if sum(fractal) != 1 or self.target.region.rank < 2 or self.node.source.padded:
            return False
        blocks, plain = (self.target, self.source) if fractal[0] else (self.source, self.target)
        rank = blocks.region.rank
        pitch = row_of_blocks(blocks)
        straight = all(plain.affine(n) for n in (rank - 2, rank - 1))
        if pitch is None or not straight or plain.slope(rank - 1) != 1:
            return False
        # From one row of blocks to the next, and from one plain row to the next.
        strides = {"dst": pitch, "src": (plain.slope(rank - 2) or 0) * self.item}
        if not fractal[0]:
            strides = {"dst": strides["src"], "src": strides["dst"]}
        rows, cols = self.source.region.valid[-2:]
        high, wide = blocks.storage.buffer.layout.parameters
        with self.outer(range(rank - 2), list(self.source.region.valid)) as spot:
            self.context.command(
                "dma_block" if fractal[0] else "dma_unblock",
                self.queue,
                dst=self.target.at(spot),
                dst_stride=strides["dst"],
                src=self.source.at(spot),
                src_stride=strides["src"],
                rows=rows,
                cols=cols,
                item_bytes=self.item,
                block_rows=high,
                block_cols=wide,
            )
        return True

    def fills_blocks(self) -> bool:
        """Whether a window leaves no block of the target partly as it was."""
        blocks = self.target.storage.buffer.layout.parameters
        rows_cols = zip(self.source.region.valid[-2:], blocks, strict=True)
        return not self.source.region.padded and all(e % n == Index() for e, n in rows_cols)

    def in_blocks(self) -> list[Index]:
        """The target's extents, up to the ends of its blocks."""
        region = self.node.target if self.node.zero_fill else self.node.source
        extents = [Index.of(n) for n in region.shape] if self.node.zero_fill else [*region.valid]
        for n, size in zip((-2, -1), self.target.storage.buffer.layout.parameters, strict=True):
            # A matrix unit reads whole blocks, so what lies beyond the tensor's end must be zero.
            extents[n] = ceil_div(extents[n], size) * size
        return extents

    def whole_blocks(self) -> bool:
        """Rows of blocks from one side to the other as they are, where both are whole ones."""
        pitches = [row_of_blocks(a) for a in (self.target, self.source)]
        if None in pitches:
            return False
        rank = self.target.region.rank
        blocks = self.target.storage.buffer.layout.parameters
        rows, cols = self.source.region.valid[-2:]
        exact = all(e % size == Index() for e, size in zip((rows, cols), blocks, strict=True))
        # A block that ends beyond the tensor is moved whole: its rest must be the fills'
        # zeros, which a computation may have overwritten.
        if not exact and self.source.region.buffer not in self.context.whole_blocks:
            return False
        high, wide = blocks
        with self.outer(range(rank - 2), list(self.source.region.valid)) as spot:
            self.context.command(
                "dma_copy",
                self.queue,
                dst=self.target.at(spot),
                dst_stride=pitches[0],
                src=self.source.at(spot),
                src_stride=pitches[1],
                rows=ceil_div(rows, high),
                row_bytes=ceil_div(cols, wide) * (high * wide * self.item),
            )
        return True

    # ---- rows -------------------------------------------------------------------------

    def rows(self) -> None:
        """The longest contiguous pieces, many in one command where they are at equal distances."""
        extents = list(self.source.region.valid)
        cut = self.cuts([self.target, self.source])
        along = self.contiguous(cut, [self.target, self.source])
        repeat = self.repeated(cut, along)
        self.nest(cut, along, repeat, extents, self._piece(along, repeat))

    def zero(self, extents: list[Index]) -> None:
        """Zero the target's elements up to `extents`."""
        cut = self.cuts([self.target])
        along = self.contiguous(cut, [self.target])
        rest = [n for n in cut if n != along and cut[n] != ELEMENTS]
        repeat = max(rest, key=lambda n: cut[n].length(self.target.region.shape[n]), default=None)

        def piece(spot: Spot, rows: Index, count: Index) -> None:
            self.context.command(
                "dma_zero",
                self.queue,
                dst=self.target.at(spot),
                dst_stride=self._stride(self.target, repeat),
                rows=rows,
                row_bytes=count * self.item,
            )

        self.nest(cut, along, repeat, extents, piece)

    def cuts(self, sides: list[Access]) -> dict[int, Runs]:
        """The runs of every axis."""
        offsets = [a.offset for a in sides]
        if self.source in sides and self.node.source.padded:
            # A window with padding is clipped run by run, so in a run its coordinates must be
            # straight, too.
            offsets += self.source.region.index
        return {n: runs(offsets, axis(n)) for n in range(self.target.region.rank)}

    def contiguous(self, cut: dict[int, Runs], sides: list[Access]) -> int | None:
        """The axis with the longest contiguous pieces on every side; None where there is none."""
        shape = self.target.region.shape
        found = [n for n in cut if cut[n] != ELEMENTS and all(a.slope(n) == 1 for a in sides)]
        # Of two equally long ones the inner axis.
        return max(found, key=lambda n: (cut[n].length(shape[n]), n), default=None)

    def repeated(self, cut: dict[int, Runs], along: int | None) -> int | None:
        """The axis that one command goes over row by row; None where each row is its own."""
        shape = self.target.region.shape
        found = [n for n in cut if n != along and cut[n] != ELEMENTS and self._steady(n)]
        return max(found, key=lambda n: cut[n].length(shape[n]), default=None)

    def _steady(self, number: int) -> bool:
        """Whether an axis of a padded window never leaves its tensor."""
        region = self.source.region
        if not region.padded:
            return True
        entries = zip(region.index, self.source.storage.buffer.shape, strict=True)
        moving = [(e, size) for e, size in entries if axis(number) in e.variables()]
        return all(self._within(e, size) for e, size in moving)

    def inside(self) -> bool:
        """Whether no element of a padded window is outside of its tensor."""
        sizes = self.source.storage.buffer.shape
        return all(map(self._within, self.source.region.index, sizes))

    def _within(self, entry: Index, size: int) -> bool:
        low, high = entry.bounds(with_axes(self.source.region, self.context.indices.ranges))
        return low >= 0 and high < size

    def _piece(self, along: int | None, repeat: int | None) -> Callable[..., None]:
        def copy(spot: Spot, rows: Index, count: Index) -> None:
            self.context.command(
                "dma_copy",
                self.queue,
                dst=self.target.at(spot),
                dst_stride=self._stride(self.target, repeat),
                src=self.source.at(spot),
                src_stride=self._stride(self.source, repeat),
                rows=rows,
                row_bytes=count * self.item,
            )

        def clipped(spot: Spot, rows: Index, count: Index) -> None:
            """Only what is inside of the tensor: the rest was zeroed."""
            low, high = Index(), count
            with ExitStack() as guards:
                shape = self.source.storage.buffer.shape
                for entry, size in zip(self.source.region.index, shape, strict=True):
                    step = 0 if along is None else slope(entry, axis(along))
                    start = self._at(entry, spot)
                    if step == 1:
                        low, high = maximum(low, -start), minimum(high, size - start)
                    elif step != 0:
                        raise unsupported(
                            self.node.origin, f"a padded window that goes by {step} elements"
                        )
                    else:
                        guards.enter_context(self.context.when_positive(start + 1))
                        guards.enter_context(self.context.when_positive(size - start))
                low, high = (self.context.indices.simplify(i) for i in (low, high))
                length = self.context.variable("count", high - low)
                guards.enter_context(self.context.when_positive(length))
                moved = spot if along is None else {**spot, along: spot[along] + low}
                copy(moved, rows, length)

        return clipped if self.node.source.padded and not self.inside() else copy

    def _at(self, entry: Index, spot: Spot) -> Index:
        known = {axis(n): spot.get(n, Index()) for n in range(self.source.region.rank)}
        return self.context.indices.simplify(entry.substitute(known))

    def _stride(self, side: Access, number: int | None) -> int | Index:
        return 0 if number is None else (side.slope(number) or 0) * self.item

    # ---- loops ------------------------------------------------------------------------

    def nest(
        self,
        cut: dict[int, Runs],
        along: int | None,
        repeat: int | None,
        extents: list[Index],
        piece: Callable[[Spot, Index, Index], None],
    ) -> None:
        """`piece` for every row of runs: elementwise over all axes but two."""
        single = [n for n in cut if n not in (along, repeat)]
        one = Index.of(1)
        with ExitStack() as loops:
            spot: Spot = dict(loops.enter_context(self.outer(single, extents)))
            rows = count = one
            if repeat is not None:
                start, rows = loops.enter_context(
                    run_loop(self.context, cut[repeat], extents[repeat])
                )
                spot[repeat] = start
            if along is not None:
                start, count = loops.enter_context(
                    run_loop(self.context, cut[along], extents[along])
                )
                spot[along] = start
            piece(spot, rows, count)

    @contextmanager
    def outer(self, axes: range | list[int], extents: list[Index]) -> Iterator[Spot]:
        """Loops over the elements of some axes."""
        with ExitStack() as loops:
            yield {n: loops.enter_context(self.context.loop("e", extents[n])) for n in axes}


@contextmanager
def run_loop(context: Context, found: Runs, extent: Index) -> Iterator[tuple[Index, Index]]:
    """Loops over the runs of an axis: where each begins and how long it is."""
    if found == ELEMENTS:
        with context.loop("e", extent) as element:
            yield element, Index.of(1)
        return
    start, length = Index(), extent
    with ExitStack() as loops:
        for cut in found.cuts:
            start, length = loops.enter_context(_pieces(context, cut, start, length))
        yield start, length


@contextmanager
def _pieces(
    context: Context, cut: RunCut, start: Index, length: Index
) -> Iterator[tuple[Index, Index]]:
    """A loop over the pieces that one cut makes of a run."""
    step, shift = cut.step, cut.shift + start
    # A start inside of a piece leaves a shorter one in front.
    first = shift // step
    # The run [shift, shift + length) crosses a multiple of `step` between each two pieces.
    count = (shift + length - 1) // step - first + 1
    with context.loop("run", count) as run:
        low = maximum(0, (first + run) * step - shift)
        high = minimum(length, (first + run + 1) * step - shift)
        begin = context.variable("start", start + low)
        yield begin, context.variable("count", high - low)


def row_of_blocks(access: Access) -> int | None:
    """Bytes between rows of blocks of a fractal region; None where it begins inside of one."""
    buffer = access.storage.buffer
    high, wide = buffer.layout.parameters
    region = access.region
    for entry, number, size in zip(
        region.index[-2:], (region.rank - 2, region.rank - 1), (high, wide), strict=True
    ):
        start = entry - Index.of(axis(number))
        if axis(number) in start.variables() or start % size != Index():
            return None
    return -(-buffer.shape[-1] // wide) * high * wide * access.storage.item
