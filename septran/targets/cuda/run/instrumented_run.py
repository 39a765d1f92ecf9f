"""Run a GPU kernel that takes notes, and read them: on a GPU, or in the emulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from septran.emulator.launch import CudaProgram
from septran.targets.call_sizes import call_sizes
from septran.targets.cuda.run.compile import compile_text
from septran.targets.cuda.run.emulated import EmulatedExecutable
from septran.targets.cuda.run.executable import CudaExecutable
from septran.targets.cuda.run.instrumentation import RECORDS, ROOM, SITE_BITS, WORDS, Marks, Site
from septran.targets.cuda.run.launcher import TensorSpec, parameter_specs
from septran.targets.cuda.target import lower_to_kernels
from septran.tile.nodes import TileProgram

TIME_BITS = 64 - SITE_BITS
"""Bits of a reading of the clock, which wraps after three days."""


@dataclass(frozen=True)
class WarpgroupMark:
    """Something that a warpgroup did."""

    site: Site
    lane: str
    """The warpgroup: ``producer``, ``consumer 1``."""
    kernel: str
    block: int
    multiprocessor: int
    start: int
    """Nanoseconds of a GPU, steps of the emulator, since the first mark."""
    end: int


@dataclass(frozen=True)
class MarkedProgram:
    """Kernels that take notes, and how to read them."""

    program: CudaProgram
    specs: tuple[TensorSpec, ...]
    """What a call passes, the room for the marks last."""
    marks: tuple[Marks, ...]
    """The marks of each kernel."""
    tile: TileProgram

    @property
    def words(self) -> int:
        """The number of words that there is room for."""
        return math.prod(self.specs[-1].shape)


def marked_program(tile: TileProgram) -> MarkedProgram:
    """`tile` lowered with marks."""
    notes: list[Marks] = []
    program = lower_to_kernels(tile, notes).cuda
    program = replace(program, params=(*program.params, ROOM))
    room = TensorSpec(ROOM, "int64", (max(1, sum(marks.words for marks in notes)),))
    return MarkedProgram(program, (*parameter_specs(tile), room), tuple(notes), tile)


class RecordedRun(tuple[WarpgroupMark, ...]):
    """All that was noted in one call."""


def record(
    tile: TileProgram, arguments: Sequence[Any], zeros: Callable[[int], Any]
) -> tuple[WarpgroupMark, ...]:
    """Run on a GPU twice (the first time warms caches) and return what happened when.

    `arguments` are tensors in the order of the parameters, then the scalars; what the program
    writes is written. `zeros` makes a tensor of so many int64 beside them. Raises TargetError
    where nothing compiles or no GPU is.
    """
    made = marked_program(tile)
    code = compile_text(made.program.source, made.program.arch, tile.name)
    run = CudaExecutable(
        tile.name, made.program, made.specs, tile.outputs, tile.machine,
        sizes=call_sizes(tile), compiled=code,
    )  # fmt: skip
    room = None
    for _ in range(2):
        room = zeros(made.words)
        run(*_with(room, tile, arguments))
    assert room is not None
    return read(made, room.cpu().numpy())


def record_emulated(tile: TileProgram, arguments: Sequence[Any]) -> tuple[WarpgroupMark, ...]:
    """The same in the emulator, whose clock counts steps; arrays are NumPy's."""
    made = marked_program(tile)
    room = np.zeros(made.words, np.int64)
    sizes = call_sizes(tile)
    run = EmulatedExecutable(tile.name, made.program, made.specs, tile.machine, sizes)
    run(*_with(room, tile, arguments))
    return read(made, room)


def _with(room: Any, tile: TileProgram, arguments: Sequence[Any]) -> tuple[Any, ...]:
    count = len(tile.params)
    return (*arguments[:count], room, *arguments[count:])


def read(made: MarkedProgram, room: Any) -> tuple[WarpgroupMark, ...]:
    """The marks in the order of kernels, blocks, lanes and times."""
    found = tuple(_read(made, room.view(np.uint64)))
    least = min((mark.start for mark in found), default=0)
    return tuple(replace(m, start=m.start - least, end=m.end - least) for m in found)


def _read(made: MarkedProgram, words: Any) -> Iterator[WarpgroupMark]:
    """With times since any of them."""
    first = None
    for marks, launch in zip(made.marks, made.program.launches, strict=True):
        sites = {number: site for site, number in marks.sites.items()}
        mine = words[marks.first : marks.first + marks.words]
        mine = mine.reshape(marks.blocks, marks.rows, RECORDS, WORDS)
        for block, (row, name) in product(range(marks.blocks), sorted(marks.lanes.items())):
            where = 0
            # Records that nobody wrote are still zero.
            for start, end in mine[block, row][mine[block, row, :, 0] > 0].tolist():
                site, begun = sites[start % (1 << SITE_BITS)], start >> SITE_BITS
                if site.kind == "begin":
                    where = begun
                    continue
                first = begun if first is None else first
                times = _since(first, begun), _since(first, end)
                yield WarpgroupMark(site, name, launch.kernel, block, where, *times)


def _since(first: int, now: int) -> int:
    """Time from one reading to another, either way round; `now` may have all its bits."""
    half = 1 << (TIME_BITS - 1)
    return (now - first + half) % (1 << TIME_BITS) - half
