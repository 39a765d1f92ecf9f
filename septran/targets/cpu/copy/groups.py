"""Packing for instructions that multiply groups of short elements: panels with groups in them.

A panel of such a layout (``panels(axis, w, g)``) has, group after group, for each of its w rows
or columns g elements along the other axis. Rows of the source that lie along the panel are
interleaved by vectors, rows that lie along the groups are transposed by words of a whole group,
and where each element of a group begins a row of its own, as many rows are interleaved and
transposed; what lies elsehow goes element by element. The last group of each is filled up with
zeros, as it is multiplied as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx

from septran.dtypes import itemsize
from septran.ir.atoms import FloorDiv, Mod
from septran.ir.index import ZERO, Index, axis, ceil_div, minimum
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.copy.transpose import transposed
from septran.targets.cpu.map.elements import OTHER_SIGNS, flipped, flips, read, write
from septran.targets.cpu.simd import CACHE_LINE
from septran.targets.lower.values import cast, vector_type
from septran.targets.lower.writer import Expr

LINES = 4
"""Cache lines of a row of the source that are read one after another."""
AHEAD = 8
"""Groups from the one that is packed to the one that is asked for; 4 to 16 are about as good."""
WORD = "int32"


def emit_groups(context: Context, target: Access, source: Access) -> None:
    """``target = source`` for the extents that exist, and zeros in what is left of a group."""
    move = _Move(context, target, source)
    if not move.plain:
        _one_by_one(context, target, source)
    elif source.stride(move.across) == 1:
        move.lines()
    elif source.stride(move.deep) == 1:
        move.panels(move.transposed_panel)
    elif move.strided is not None:
        move.panels(move.interleaved_panel)
    else:
        move.panels(move.gathered_panel)


def _one_by_one(context: Context, target: Access, source: Access) -> None:
    """Zeros everywhere, then each element that exists."""

    def nest(at: tuple[Index, ...], *, zeros: bool) -> None:
        number = len(at)
        if number == target.region.rank:
            zero = simd.constant(0, "float64")
            write(context, target, at, zero if zeros else read(context, source, at))
            return
        extent = target.region.shape[number] if zeros else source.region.valid[number]
        with context.loop("i", extent) as i:
            nest((*at, i), zeros=zeros)

    nest((), zeros=True)
    nest((), zeros=False)


@dataclass
class _Move:
    """A copy into panels of groups."""

    context: Context
    target: Access
    source: Access

    def __post_init__(self) -> None:
        layout = self.target.storage.layout
        self.across, self.width, self.size = layout.parameters[:3]
        self.deep = 1 - self.across
        self.run = layout.run
        """Elements after which groups begin anew; 0 where they never do."""

    @property
    def plain(self) -> bool:
        """Whether a matrix goes as it is, all of it, into a buffer of its own."""
        target, source = self.target.region, self.source.region
        whole = all(entry == Index.of(axis(n)) for n, entry in enumerate(target.index))
        kinds = self.target.storage.held, self.source.storage.held
        wider = kinds[0] == "int16" and kinds[1] in OTHER_SIGNS
        signed = flips(self.target.storage) and kinds[1] == self.target.storage.dtype
        same = kinds[0] == kinds[1] or wider or signed
        fits = target.shape == self.target.storage.shape and target.rank == 2
        fits &= not self.run or self.context.divides(self.run, source.valid[self.deep])
        word = self.size * itemsize(self.target.storage.held) == 4
        return (
            whole and same and fits and word and not any(self.source.leaving) and not source.padded
        )

    @property
    def _spread(self) -> bool:
        """Whether the cores share the panels."""
        return self.context.spreads(math.prod(self.source.region.shape))

    def lines(self) -> None:
        """Panels from rows that lie along them, some cache lines of each row after another.

        Rows that are far apart push each other out of the caches, so a line is read once, and
        memory is faster where lines follow one another.
        """
        context, extent = self.context, self.source.region.valid[self.across]
        beside = max(1, CACHE_LINE // (self.width * itemsize(self.source.storage.held)))
        step = beside * self.width
        whole = context.variable("lines", extent // step)
        chunks = context.variable("chunks", ceil_div(whole, LINES))
        with context.loop("chunk", chunks, self._spread) as chunk:
            some = context.variable("some", minimum(LINES, whole - chunk * LINES))

            def group(start: Index, rest: Index | None = None) -> None:
                with context.loop("line", some) as line:
                    first = (chunk * LINES + line) * step
                    if self._waits:
                        self._ask_ahead(first, start)
                    for n in range(beside):
                        self._interleaved(first + n * self.width, None, start, rest)

            self._groups(group, group)

        def last(first: Index, count: Index | None) -> None:
            def group(start: Index, rest: Index | None = None) -> None:
                self._interleaved(first, count, start, rest)

            self._groups(group, group)

        if not context.divides(step, extent):
            self.panels(last, whole * beside)

    @property
    def _waits(self) -> bool:
        """Whether little is packed at a time, of a tensor that is in no cache of a core's own.

        Hardware asks ahead along rows; where a few short rows follow one another, it does not.
        """
        source, target = self.source.storage, self.target.region
        width = itemsize(source.held)
        core = self.context.machine.processors[-1].name
        little = math.prod(target.shape) * width <= self.context.nearest_bytes()
        return little and math.prod(source.shape) * width > self.context.cache_bytes(core)

    def _ask_ahead(self, first: Index, start: Index) -> None:
        """Ask for the lines of the rows of a later group, also where that is in the next block."""
        for n in range(self.size):
            spot = self._spot(first, start + AHEAD * self.size + n)
            at = self.context.lower(self.source.at(spot))
            simd.prefetch(self.context.writer, self.source.storage.flat, at, level=3)

    def panels(self, body: Callable[[Index, Index | None], None], done: Index = ZERO) -> None:
        """Run `body` on each panel from `done` on, the last one with the number of its columns."""
        context, extent = self.context, self.source.region.valid[self.across]
        whole = context.variable("panels", extent // self.width)
        # What is left behind `done` is less than a line of panels, too little to share.
        spread = self._spread and done == ZERO
        with context.loop("panel", whole - done, spread) as panel:
            body((done + panel) * self.width, None)
        if not context.divides(self.width, extent):
            rest = context.variable("rest", extent - whole * self.width)
            with context.when_any(rest):
                body(whole * self.width, rest)

    def _spot(self, first: Index, k: Index) -> tuple[Index, Index]:
        return (k, first) if self.across else (first, k)

    def _groups(self, body: Callable[[Index], None], last: Callable[[Index, Index], None]) -> None:
        """Run `body` at the first element of each whole group, `last` on what is left of a run."""
        context, length = self.context, self.source.region.valid[self.deep]
        runs = length // self.run if self.run else Index.of(1)
        each = Index.of(self.run) if self.run else length
        whole = context.variable("groups", each // self.size)
        with context.loop("run", runs) as run:
            start = run * self.run
            with context.loop("group", whole) as group:
                body(start + group * self.size)
            if not context.divides(self.size, each):
                rest = context.variable("rest", each - whole * self.size)
                with context.when_any(rest):
                    last(start + whole * self.size, rest)

    def _interleaved(
        self, first: Index, columns: Index | None, start: Index, rest: Index | None
    ) -> None:
        """A group of a panel, by its first column, from rows that lie along it."""
        rows = [self._row(first, start + n, columns, n, rest) for n in range(self.size)]
        # Column after column, each with the elements of its group side by side.
        kinds = [n * self.width + lane for lane in range(self.width) for n in range(self.size)]
        mixed = tirx.Shuffle(rows, [tirx.const(n, "int32") for n in kinds])
        self._store(first, start, mixed)

    def _row(
        self, first: Index, k: Index, columns: Index | None, n: int, rest: Index | None
    ) -> Expr:
        """As many elements as a panel is wide; zeros where there is no such row."""
        context, flat = self.context, self.source.storage.flat
        at = context.lower(self.source.at(self._spot(first, k)))
        left = None if columns is None else context.lower(columns)
        exists = None
        if rest is not None:
            # No last group has as many elements: this row is zeros in each, and is not read.
            if context.indices.bounds(rest)[1] <= n:
                return self._zeros(self.width)
            if context.indices.bounds(rest)[0] <= n:
                exists = context.lower(rest) > context.writer.index(n)
        if exists is None and left is None:
            return context.writer.bind("r", self._held(simd.load(flat, at, self.width)))
        count = context.writer.index(self.width) if left is None else left
        if exists is not None:
            count = tirx.Select(exists, count, context.writer.index(0))
        value = simd.masked_load(flat, at, simd.first_lanes(count, self.width))
        return context.writer.bind("r", self._held(value))

    def _held(self, value: Expr) -> Expr:
        """Elements of the source as the target holds them."""
        if flips(self.target.storage):
            return flipped(value)
        return cast(value, self.target.storage.held)

    def _zeros(self, lanes: int) -> Expr:
        return self._held(simd.constant(0, self.source.storage.held, lanes))

    def _store(self, first: Index, start: Index, value: Expr) -> None:
        """Write a group of all columns of a panel."""
        flat = self.target.storage.flat
        at = self.context.lower(self.target.at(self._spot(first, start)))
        simd.store(self.context.writer, flat, at, value, self.width * self.size)

    def transposed_panel(self, first: Index, columns: Index | None) -> None:
        """A panel from rows that lie along its groups: blocks of words are transposed."""
        context, words = self.context, self.context.unit.lanes(WORD)
        if columns is not None or self.width % words or self.run:
            self.gathered_panel(first, columns)
            return
        # Transposed as words: a whole group of each row moves as one number.
        length = self.source.region.valid[self.deep]
        step = words * self.size
        whole = context.variable("blocks", length // step)
        with context.loop("block", whole) as block:
            for start in range(0, self.width, words):
                self._block(first + start, block * words, words)
        if not context.divides(step, length):
            self._gather(first, columns, whole * words)

    def _block(self, first: Index, group: Index, words: int) -> None:
        context, source, lanes = self.context, self.source, words * self.size
        rows = []
        for n in range(words):
            at = context.lower(source.at(self._spot(first + n, group * self.size)))
            row = simd.words(self._held(simd.load(source.storage.flat, at, lanes)))
            rows.append(context.writer.bind("t", row))
        kind = vector_type(self.target.storage.held, lanes)
        for n, column in enumerate(transposed(context.writer, rows)):
            at = context.lower(self.target.at(self._spot(first, (group + n) * self.size)))
            value = tirx.reinterpret(kind, column)
            simd.store(context.writer, self.target.storage.flat, at, value, lanes)

    @property
    def strided(self) -> int | None:
        """The number of elements that lie apart before the first one's neighbour; None if none do.

        With C of them, element ``q * C + c`` of a row lies at ``q + c * W``: the taps of a filter
        one after another, and its channels W apart.
        """
        variable = axis(self.deep)
        parts = {
            a: f for a, f in self.source.offset.terms if variable in Index(((a, 1),)).variables()
        }
        for atom in parts:
            if isinstance(atom, Mod) and parts.keys() == {atom, FloorDiv(atom.value, atom.divisor)}:
                apart = atom.divisor
                even = atom.value == Index.of(variable) and apart % self.size == 0
                full = self.source.region.valid[self.deep] % apart == Index()
                steps = parts[FloorDiv(atom.value, apart)]
                return apart if even and full and steps == 1 else None
        return None

    def interleaved_panel(self, first: Index, columns: Index | None) -> None:
        """A panel of rows whose groups have their elements apart: see `strided`."""
        context, words, apart = self.context, self.context.unit.lanes(WORD), self.strided
        length = self.source.region.valid[self.deep]
        simple = columns is None and not self.run and length.is_constant
        if not simple or self.width % words or apart is None:
            self.gathered_panel(first, columns)
            return
        near = length.constant // apart
        for start in range(0, near, words):
            count = min(words, near - start)
            with context.loop("group", apart // self.size) as group:
                for column in range(0, self.width, words):
                    self._crossed(first + column, start, count, group * self.size)

    def _crossed(self, first: Index, start: int, count: int, deep: Index) -> None:
        """The groups at `deep` of `count` neighbours from `start` on, of a register's columns."""
        context, apart = self.context, self.strided or 1
        words, flat = context.unit.lanes(WORD), self.source.storage.flat
        order = [n * words + lane for lane in range(words) for n in range(self.size)]
        lanes = [tirx.const(n, "int32") for n in order]
        rows = []
        for n in range(words):
            group = []
            for element in range(self.size):
                spot = self._spot(first + n, deep + element + start * apart)
                at = context.lower(self.source.at(spot))
                if count == words:
                    value = simd.load(flat, at, words)
                else:
                    mask = simd.first_lanes(context.writer.index(count), words)
                    value = simd.masked_load(flat, at, mask)
                group.append(context.writer.bind("r", self._held(value)))
            rows.append(context.writer.bind("t", simd.words(tirx.Shuffle(group, lanes))))
        kind = vector_type(self.target.storage.held, words * self.size)
        for n, column in enumerate(transposed(context.writer, rows)[:count]):
            at = context.lower(self.target.at(self._spot(first, deep + (start + n) * apart)))
            value = tirx.reinterpret(kind, column)
            simd.store(context.writer, self.target.storage.flat, at, value, words * self.size)

    def gathered_panel(self, first: Index, columns: Index | None) -> None:
        """A panel element by element."""
        self._gather(first, columns, Index())

    def _gather(self, first: Index, columns: Index | None, done: Index) -> None:
        """The groups of a panel from number `done` on, element by element."""
        context, length = self.context, self.source.region.valid[self.deep]
        flat = self.target.storage.flat
        each = (
            Index.of(self.run) if self.run else context.variable("left", length - done * self.size)
        )
        runs = length // self.run if self.run else Index.of(1)
        column = context.loop("column", self.width if columns is None else columns)
        with column as n, context.loop("run", runs) as run:
            start = run * self.run + done * self.size
            with context.loop("k", each) as k:
                spot = self._spot(first + n, start + k)
                at = context.lower(self.source.at(spot))
                value = self._held(simd.load(self.source.storage.flat, at, 1))
                simd.store(context.writer, flat, context.lower(self.target.at(spot)), value, 1)
            if not context.divides(self.size, each):
                # The instruction multiplies whole groups, so that what follows the last element
                # must be zeros.
                whole = each // self.size * self.size
                end = self.target.at(self._spot(first + n, start + whole)) + (each - whole)
                with context.loop("k", ceil_div(each, self.size) * self.size - each) as k:
                    at = context.lower(end + k)
                    simd.store(context.writer, flat, at, self._zeros(1), 1)
