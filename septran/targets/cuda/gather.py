"""Gathered copies: from GLOBAL to SHARED through registers of the threads that fill a stage.

Neither boxes nor chunks can begin at any byte; threads can. Where elements follow each other
in both memories a unit of work is 16 bytes of a tile's row, read as the aligned words around
them and shifted into place. Where single bytes follow each other across the tile's rows, 16
rows of four bytes are turned in registers. What is scattered is read element by element. Each
thread reads a batch of units before it writes the first, so that reads overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.targets.cuda.addresses import CHUNK, Access, divisor
from septran.targets.cuda.unaligned import ALIGN, FETCH, FETCH_WORD, TURN
from septran.targets.cuda.context import Context
from septran.targets.cuda.registers import zero
from septran.targets.cuda.writer import ROLLED, Expr, both
from septran.task.index import Index, Var
from septran.tile.nodes import Copy
from septran.tile.reach import near_axis

WORD = 4
"""Bytes of a register."""
KEPT = 40
"""Registers of a thread that hold no data: addresses, loop indices, what is put together."""
PLENTY = 64
"""Registers for data where no role says how many a thread has."""


def copy(context: Context, node: Copy) -> None:
    """Read the units of a copy and write them, batch by batch."""
    along = near_axis(node.target)
    assert along is not None
    accesses = (
        Access(context, context.storages[node.source.buffer], node.source),
        Access(context, context.storages[node.target.buffer], node.target),
    )
    kind: type[_Units] = _Elements
    if _follows(context, node, accesses[0], along):
        kind = _Rows
    elif (across := _across(context, node, accesses[0], along)) is not None:
        _Turned(context, node, *accesses, along, across).issue()
        return
    kind(context, node, *accesses, along).issue()


def _variables(context: Context, node: Copy) -> tuple[Index, ...]:
    """A coordinate that stands for any along each axis of the copy."""
    found: list[Index] = []
    for number, extent in enumerate(node.target.shape):
        variable = Var(f"@any{number}")
        context.indices.bind(variable, None, 0, max(0, extent - 1))
        found.append(Index() if extent == 1 else Index.of(variable))
    return tuple(found)


def _steps_by_one(context: Context, node: Copy, source: Access, number: int) -> bool:
    """Whether what follows along an axis of the copy follows in GLOBAL, and is all there."""
    at = _variables(context, node)
    if not at[number].terms:
        return False
    (mine,) = at[number].variables()
    if mine in (source.flat(at) - at[number]).variables():
        return False
    inside = source.region.at(at)
    if not source.region.padded or not any(mine in e.variables() for e in inside):
        return True
    if any(mine in entry.variables() for entry in inside[:-1]):
        return False
    low, high = context.indices.bounds(inside[-1])
    return low >= 0 and high < source.storage.shape[-1]


def _follows(context: Context, node: Copy, source: Access, along: int) -> bool:
    """Whether 16 bytes of a tile's row are 16 bytes of the tensor."""
    row = context.storages[node.target.buffer].shape[-1] * itemsize(source.storage.dtype)
    return row % CHUNK == 0 and _steps_by_one(context, node, source, along)


def _across(context: Context, node: Copy, source: Access, along: int) -> int | None:
    """The axis along which bytes follow each other in GLOBAL, where that is not the tile's."""
    row = context.storages[node.target.buffer].shape[-1]
    if itemsize(source.storage.dtype) != 1 or row % CHUNK:
        return None
    others = (n for n in range(node.target.rank) if n != along)
    return next((n for n in others if _steps_by_one(context, node, source, n)), None)


@dataclass
class _Units:
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

    words = 4
    """Registers of a unit."""

    def issue(self) -> None:
        """All units: each thread reads a batch, then writes it."""
        context, threads = self.context, self.context.threads.count
        counts = [-(-self.node.target.shape[n] // self.steps.get(n, 1)) for n in self.order]
        rounds = -(-prod(counts) // threads)
        parts = -(-rounds // max(1, self._room() // self.words))
        batch = -(-rounds // parts)
        context.writer.note(ROLLED)
        with context.loop("part", Index.of(parts)) as part:
            held = self.hold(batch)
            for phase in (self.read, self.write):
                with context.loop("r", Index.of(batch), unrolled=True) as number:
                    unit = (part * batch + number) * threads + context.thread
                    inside = context.indices.below(unit, prod(counts))
                    phase(held, number, self._place(unit, counts), inside)

    def _room(self) -> int:
        """Registers that a thread has for data."""
        given = self.context.state.get("registers")
        return PLENTY if given is None else max(0, given - KEPT)

    def _place(self, unit: Index, counts: Sequence[int]) -> tuple[Index, ...]:
        """The coordinates of a unit's first element."""
        at = [Index()] * len(counts)
        rest = unit
        for position, number in reversed(list(enumerate(self.order))):
            value = rest % counts[position] if position else rest
            rest = rest // counts[position]
            at[number] = self.context.indices.named("c", value) * self.steps.get(number, 1)
        return tuple(at)

    def hold(self, batch: int) -> Any:
        """Registers of a batch."""
        return self.context.writer.allocate("held", batch * self.words, "uint32")

    def read(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Bring a unit into registers."""
        raise NotImplementedError

    def write(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Put a unit into SHARED."""
        raise NotImplementedError

    def registers(self, held: Any, number: Index, first: int = 0, count: int = 0) -> list[Any]:
        """The registers of a unit, one by one."""
        numbers = range(first, first + (count or self.words))
        return [held[self.context.lower(number * self.words + n)] for n in numbers]

    def at(self, place: Expr) -> Any:
        """An address in GLOBAL."""
        return self.source.storage.flat.ptr_to([place])

    def end(self, unit: int) -> tuple[Any, Expr]:
        """The address behind the tensor, and what its bytes leave over in units of so many."""
        size = int(self.source.storage.flat.shape[0])
        return self.at(self.context.writer.index(size)), T.int32(size * self.width % unit)

    def existing(
        self, at: tuple[Index, ...], along: int, inside: Expr | None
    ) -> tuple[Expr, Expr]:
        """The place of a run of elements in GLOBAL, and how many of its bytes exist."""
        context, region, lanes = self.context, self.node.source, self.steps[along]
        others = (n for n in range(region.rank) if n != along)
        there = both(inside, *(context.indices.below(at[n], region.valid[n]) for n in others))
        there = both(there, self.within(at))
        left = context.indices.simplify(region.valid[along] - at[along])
        count: Expr = T.int32(lanes * self.width)
        if context.indices.bounds(left)[0] < lanes:
            some = T.max(T.min(context.lower(left), lanes), 0) * self.width
            count = T.Cast("int32", some)
        place = self.source.lower(at)
        if there is not None:  # nothing is read there, but the address must be one
            place = T.Select(there, place, context.writer.index(0))
            count = T.Select(there, count, T.int32(0))
        return place, count

    def within(self, at: tuple[Index, ...]) -> Expr | None:
        """Whether a padded window is inside of its tensor there."""
        if not self.node.source.padded:
            return None
        entries = self.source.region.at(at)
        sides = zip(entries, self.source.storage.shape, strict=True)
        return both(*(self.context.indices.inside(e, extent) for e, extent in sides))

    def put(self, array: Any, first: Expr, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Write 16 bytes that four registers hold, from the first on."""
        context, lanes = self.context, self.steps[self.along]
        with context.writer.when(inside):
            place = self.target.lower(at, lanes) * (CHUNK // WORD) // lanes
            shared = context.shared_view("uint32")
            context.writer.store(shared, place, context.writer.load(array, first, 4), 4)


class _Rows(_Units):
    """16 bytes of a row, from any byte on: two aligned vectors, shifted into the first one."""

    words = 8

    def read(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """The aligned vectors in which the bytes lie, as far as they exist."""
        place, count = self.existing(at, self.along, inside)
        words = self.registers(held, number)
        address, end = self.at(place), self.end(CHUNK)
        _call(self.context, "septran_fetch", FETCH, *words, address, count, *end)

    def write(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Shift the bytes into place; those that do not exist are zero."""
        place, count = self.existing(at, self.along, inside)
        words = self.registers(held, number)
        _call(self.context, "septran_align", ALIGN, *words, self.at(place), count)
        self.put(held, self.context.lower(number * self.words), at, inside)


@dataclass
class _Turned(_Units):
    """16 rows of four bytes, which become four rows of 16 bytes."""

    across: int
    """The axis along which bytes follow each other in GLOBAL."""
    words = 16

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
        for row, word in enumerate(self.registers(held, number)):
            here = tuple(c + row if n == self.along else c for n, c in enumerate(at))
            exists = self.context.indices.below(here[self.along], self.node.source.valid[self.along])
            place, count = self.existing(here, self.across, both(inside, exists))
            aligned = T.int32(int(divisor(self.source.flat(here)) % WORD == 0))
            _call(
                self.context, "septran_fetch_word", FETCH_WORD,
                word, self.at(place), count, *self.end(WORD), aligned,
            )  # fmt: skip

    def write(self, held: Any, number: Index, at: tuple[Index, ...], inside: Expr | None) -> None:
        """Turn blocks of four by four, then write a row at a time."""
        context = self.context
        for first in range(0, self.words, 4):
            words = self.registers(held, number, first, 4)
            _call(context, "septran_turn", TURN, *words)
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
                context.writer.store(held, spot, zero(self.source.storage.dtype))
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


def _call(context: Context, name: str, source: str, *operands: Any) -> None:
    context.writer.evaluate(T.cuda.func_call(name, *operands, source_code=source))
