"""Gathered copies: from GLOBAL to SHARED through registers of the threads that fill a stage.

Neither boxes nor chunks can begin at any byte; threads can. Where elements follow each other
in both memories a unit of work is 16 bytes of a tile's row, read as the aligned words around
them and shifted into place. Where single bytes follow each other across the tile's rows, 16
rows of four bytes are turned in registers. What is scattered is read element by element. Each
thread reads a batch of units before it writes the first, so that reads overlap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.ir.index import Index, maximum, minimum
from septran.targets.cuda.addresses import CHUNK, Access
from septran.targets.cuda.context import Context
from septran.targets.cuda.copy.unaligned import (
    ALIGN,
    FETCH,
    FETCH_WHOLE,
    FETCH_WORD,
    OPAQUE,
    TRANSPOSE,
    follows,
)
from septran.targets.cuda.writer import ROLLED
from septran.targets.lower.indices import divisor
from septran.targets.lower.writer import Expr, both
from septran.tile.analyses.engine_limits import near_axis
from septran.tile.nodes import Copy

WORD = 4
"""Bytes of a register."""
RESERVED, RESERVED_AT_EDGES = 32, 48
"""Registers of a thread that hold no data: addresses, loop indices, what is put together."""
DEFAULT_REGISTERS = 64
"""Registers for data where no role says how many a thread has."""


def copy(context: Context, node: Copy) -> None:
    """Read the units of a copy and write them, batch by batch."""
    along = near_axis(node.target)
    assert along is not None
    source = Access(context, context.storages[node.source.buffer], node.source)
    target = Access(context, context.storages[node.target.buffer], node.target)
    lanes = CHUNK // itemsize(target.storage.dtype)
    others = (n for n in range(node.target.rank) if n != along)
    across = next((n for n in others if follows(context, node, source, n, WORD)), None)
    # Rows of no whole vectors: one of 16 bytes would reach into the next row.
    if target.storage.shape[-1] % lanes:
        _Elements(context, node, source, target, along).issue()
    elif follows(context, node, source, along, lanes):
        _Rows(context, node, source, target, along).issue()
    # For single bytes alone: `septran_turn` permutes the bytes of four registers.
    elif lanes == CHUNK and across is not None:
        _TransposedBlocks(context, node, source, target, along, across).issue()
    else:
        _Elements(context, node, source, target, along).issue()


@dataclass
class _Units(ABC):
    """Units of work over the threads: neighbours in GLOBAL by neighbouring threads."""

    context: Context
    node: Copy
    source: Access
    target: Access
    along: int
    """The axis along the tile's rows."""

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return itemsize(self.source.storage.dtype)

    @property
    def steps(self) -> dict[int, int]:
        """Elements of a unit along those axes where it has more than one."""
        return {self.along: CHUNK // self.width}

    @property
    def order(self) -> list[int]:
        """The copy's axes, the one that neighbouring threads go along last."""
        return [n for n in range(self.node.target.rank) if n != self.along] + [self.along]

    @property
    def words(self) -> int:
        """Registers of a unit."""
        return 4

    def issue(self) -> None:
        """All units of a copy, of a whole tile without a look at where it ends."""
        writer, whole = self.context.writer, self.whole()
        if whole is None:
            self._loops(self, RESERVED_AT_EDGES)
            return
        condition, quick = whole
        with writer.body() as inner:
            self._loops(quick, RESERVED)
        if condition is None:
            for statement in inner:
                writer.emit(statement)
            return
        with writer.body() as edge:
            self._loops(self, RESERVED_AT_EDGES)
        writer.choose(condition, inner, edge)

    def whole(self) -> tuple[Expr | None, _Units] | None:
        """When tiles have no edge, and the units that such tiles are made of."""
        return None

    def _loops(self, units: _Units, kept: int) -> None:
        """Each thread reads a batch of units, then writes it."""
        context, threads = self.context, self.context.threads.count
        counts = [-(-self.node.target.shape[n] // self.steps.get(n, 1)) for n in self.order]
        rounds = -(-prod(counts) // threads)
        batch = _rounded_down(min(rounds, max(1, self._room(kept) // self.words)))
        if batch < rounds:
            context.writer.note(ROLLED)
        with context.loop("part", Index.of(-(-rounds // batch))) as part:
            held, thread = self.hold(batch), self._thread()
            # Both phases loop over the batch: no write waits before the last read is issued.
            for phase in (units.read, units.write):
                with context.loop("r", Index.of(batch), unrolled=True) as number:
                    unit = (part * batch + number) * threads + thread
                    inside = context.indices.below(unit, prod(counts))
                    phase(held, number, self._place(unit, counts), inside)

    def _thread(self) -> Index:
        """The thread's number, from which nothing is computed ahead of the loop: it would spill."""
        context = self.context
        array = context.writer.allocate("mine", 1, "int32")
        context.writer.store(array, 0, T.Cast("int32", context.lower(context.thread)))
        _call(context, "septran_here", OPAQUE, array[0])
        value = T.Cast(context.writer.index_dtype, array[0])
        mine = context.writer.bind("mine", value)
        return context.indices.fresh(mine, 0, context.threads.count - 1)

    def _room(self, kept: int) -> int:
        """Registers that a thread has for data."""
        given = self.context.state.registers
        return DEFAULT_REGISTERS if given is None else max(0, given - kept)

    def _place(self, unit: Index, counts: Sequence[int]) -> tuple[Index, ...]:
        """The coordinates of a unit's first element."""
        at = [Index()] * len(counts)
        rest = unit
        for position, number in reversed(list(enumerate(self.order))):
            value = rest % counts[position] if position else rest
            rest = rest // counts[position]
            at[number] = self.context.variable("c", value) * self.steps.get(number, 1)
        return tuple(at)

    def hold(self, batch: int) -> Any:
        """Registers of a batch."""
        return self.context.writer.allocate("held", batch * self.words, "uint32")

    @abstractmethod
    def read(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Bring a unit into registers."""

    @abstractmethod
    def write(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Put a unit into SHARED."""

    def registers(self, held: Any, number: Index, first: int = 0, count: int = 0) -> list[Any]:
        """The registers of a unit, one by one."""
        numbers = range(first, first + (count or self.words))
        return [held[self.context.lower(number * self.words + n)] for n in numbers]

    def at(self, place: Expr) -> Any:
        """An address in GLOBAL."""
        return self.source.storage.flat.ptr_to([place])

    def end(self, unit: int) -> tuple[Any, Expr]:
        """The address behind the tensor, and what its bytes leave over in units of so many."""
        # The tensor's end, not the region's: up to there words may be read whole.
        size = self.source.storage.elements
        rest = self.context.lower(size * self.width % unit)
        return self.at(self.context.lower(size)), T.Cast("int32", rest)

    def existing(
        self, at: tuple[Index, ...], along: int, inside: Expr | None
    ) -> tuple[Any, Expr, Expr]:
        """Return the start of a run of elements in GLOBAL, and its first and last valid byte."""
        context, region, lanes = self.context, self.node.source, self.steps[along]
        indices, writer = context.indices, context.writer
        others = (n for n in range(region.rank) if n != along)
        there = both(inside, *(indices.below(at[n], region.valid[n]) for n in others))
        left, skip = indices.simplify(region.valid[along] - at[along]), Index()
        if region.padded:
            *outer, last = self.source.region.at(at)
            extents = self.source.storage.shape
            there = both(there, *map(indices.inside, outer, extents[:-1]))
            left, skip = minimum(left, extents[-1] - last), maximum(0, Index() - last)
        most, least = minimum(lanes, maximum(0, left)), minimum(lanes, skip)
        ends = [T.Cast("int32", context.lower(n) * writer.index(self.width)) for n in (least, most)]
        if there is not None:
            ends = [T.Select(there, n, T.int32(0)) for n in ends]
        return self.at(self.source.lower(at)), ends[0], ends[1]

    def put(self, array: Any, first: Expr, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Write 16 bytes that four registers hold, from the first on."""
        context, lanes = self.context, self.steps[self.along]
        with context.writer.when(inside):
            place = self.target.lower(at, lanes) * (CHUNK // WORD) // lanes
            shared = context.shared_view("uint32")
            context.writer.store(shared, place, context.writer.load(array, first, 4), 4)


class _Rows(_Units):
    """16 bytes of a row, from any byte on: two aligned vectors, shifted into the first one."""

    @property
    def words(self) -> int:
        """Two vectors."""
        return 8

    def read(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """The aligned vectors in which the bytes lie, as far as they exist."""
        run = self.existing(at, self.along, inside)
        words = self.registers(held, number)
        _call(self.context, "septran_fetch", FETCH, *words, *run, *self.end(CHUNK))

    def write(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Shift the bytes into place; those that do not exist are zero."""
        run = self.existing(at, self.along, inside)
        words = self.registers(held, number)
        _call(self.context, "septran_align", ALIGN, *words, *run, *self.end(CHUNK))
        self.put(held, self.context.lower(number * self.words), at, inside)

    def whole(self) -> tuple[Expr | None, _Units] | None:
        """Return where all elements exist, and 16 bytes behind the last one."""
        region, indices = self.node.source, self.context.indices
        if region.padded:
            return None
        last = [Index.of(extent - 1) for extent in region.shape]
        ends = [indices.below(at, valid) for at, valid in zip(last, region.valid, strict=True)]
        # `septran_fetch_whole` reads the aligned vector behind the last element's, too.
        spare = self.source.flat(last) + CHUNK // self.width
        ends.append(indices.below(spare, self.source.storage.elements))
        return both(*ends), _Whole(**vars(self))


class _Whole(_Rows):
    """The same where nothing is missing."""

    def read(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Both vectors."""
        words, place = self.registers(held, number), self.source.lower(at)
        with self.context.writer.when(inside):
            _call(self.context, "septran_fetch_whole", FETCH_WHOLE, *words, self.at(place))

    def write(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Shift the bytes into place."""
        words, place = self.registers(held, number), self.at(self.source.lower(at))
        whole = T.int32(0), T.int32(CHUNK), place, T.int32(0)
        _call(self.context, "septran_align", ALIGN, *words, place, *whole)
        self.put(held, self.context.lower(number * self.words), at, inside)


@dataclass
class _TransposedBlocks(_Units):
    """16 rows of four bytes, which become four rows of 16 bytes."""

    across: int
    """The axis along which bytes follow each other in GLOBAL."""

    @property
    def words(self) -> int:
        """A word of each row."""
        return 16

    @property
    def steps(self) -> dict[int, int]:
        """16 of the tile's own, four of the tensor's."""
        return {self.along: CHUNK, self.across: WORD}

    @property
    def order(self) -> list[int]:
        """Neighbouring threads go along the tensor's rows."""
        return [n for n in super().order if n != self.across] + [self.across]

    def read(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """A word of each row."""
        indices, ends = self.context.indices, self.node.source.valid
        for row, word in enumerate(self.registers(held, number)):
            here = tuple(c + row if n == self.along else c for n, c in enumerate(at))
            exists = indices.below(here[self.along], ends[self.along])
            address, skip, count = self.existing(here, self.across, both(inside, exists))
            aligned = T.int32(int(divisor(self.source.flat(here)) % WORD == 0))
            _call(
                self.context, "septran_fetch_word", FETCH_WORD,
                word, address, skip, count, *self.end(WORD), aligned,
            )  # fmt: skip

    def write(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Turn blocks of four by four, then write a row at a time."""
        context = self.context
        for first in range(0, self.words, 4):
            words = self.registers(held, number, first, 4)
            _call(context, "septran_turn", TRANSPOSE, *words)
        row = context.writer.allocate("row", 4, "uint32")
        for part in range(WORD):
            here = tuple(c + part if n == self.across else c for n, c in enumerate(at))
            for n in range(4):
                context.writer.store(row, n, self.registers(held, number, 4 * n + part, 1)[0])
            tile = context.indices.below(here[self.across], self.node.target.shape[self.across])
            self.put(row, context.writer.index(0), here, both(inside, tile))


class _Elements(_Units):
    """Elements one by one, as many as a vector of the tile's row has."""

    @property
    def steps(self) -> dict[int, int]:
        """A vector that rows of the tile are made of."""
        row = self.target.storage.shape[-1]
        lanes = CHUNK // self.width
        while row % lanes:
            lanes //= 2
        return {self.along: lanes}

    def hold(self, batch: int) -> Any:
        """Registers of the elements' own type."""
        size = batch * self.steps[self.along]
        return self.context.writer.allocate("held", size, self.source.storage.dtype)

    @property
    def words(self) -> int:
        """A register holds one element until they are put together."""
        return self.steps[self.along]

    def read(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Those that exist; the others are zero."""
        context = self.context
        for lane in range(self.words):
            here = tuple(c + lane if n == self.along else c for n, c in enumerate(at))
            spot = context.lower(number * self.words + lane)
            exists = both(inside, self.source.exists(here))
            if exists is not None:
                context.writer.store(
                    held, spot, self.context.arithmetic.constant(0, self.source.storage.dtype)
                )
            with context.writer.when(exists):
                value = context.writer.load(self.source.storage.flat, self.source.lower(here))
                context.writer.store(held, spot, value)

    def write(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """One vector."""
        context = self.context
        with context.writer.when(inside):
            value = context.writer.load(held, context.lower(number * self.words), self.words)
            place = self.target.lower(at, self.words)
            context.writer.store(self.target.storage.flat, place, value, self.words)


def _rounded_down(number: int) -> int:
    """The greatest power of two that is not above a number."""
    return 1 << number.bit_length() - 1


def _call(context: Context, name: str, source: str, *operands: Any) -> None:
    context.writer.evaluate(T.cuda.func_call(name, *operands, source_code=source))
