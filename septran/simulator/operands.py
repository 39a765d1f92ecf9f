"""The reads and writes of each kind of command, and the unit that carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from septran.ir.expressions import COMPARISONS
from septran.machine.model import Engine, Instruction
from septran.simulator.commands import DTYPES
from septran.simulator.errors import CommandError, SimulatedBoundsError
from septran.simulator.hazards.accesses import Accesses, AccessTable
from septran.simulator.spaces import Spaces
from septran.simulator.stream import ITEM_BYTES, Commands, Stream
from septran.tile.layouts import Layout

Array = np.ndarray[Any, Any]
Unit = Engine | Instruction


@dataclass(frozen=True)
class Batch:
    """Commands of one extern on one unit."""

    group: Commands
    unit: Unit | None
    """None for flags, sync and barrier."""
    edge: tuple[int, int] = (-1, -1)
    """Numbers of the memories that a copy is from and to."""


@dataclass(frozen=True)
class CommandOperands:
    """The accesses of all commands to bytes, by unit."""

    accesses: Accesses
    batches: tuple[Batch, ...]
    reach: Array
    """For each space the end of what is used of it."""


def operands(stream: Stream, spaces: Spaces) -> CommandOperands:
    """Decode and check every command of a stream."""
    table = AccessTable(stream, spaces)
    batches: list[Batch] = []
    _ = stream.queue  # checks them
    for group in stream.externs:
        name = group.command.name
        if name in ("set_flag", "wait_flag"):
            _check_flags(stream, group)
            batches.append(Batch(group, None))
        elif name in ("sync", "barrier"):
            batches.append(Batch(group, None))
        elif name.startswith("dma"):
            batches += _engines(stream, spaces, group, _DMA[name](table, group))
        elif name == "mma":
            batches += _mma(table, group)
        else:
            touched = _vector(table, group)
            mine = _instructions(stream, group, *_PRIMITIVES.get(name, ()), "map")
            for batch in mine:
                _check_memories(stream, spaces, batch, touched)
            batches += mine
    accesses, reach = table.finish()
    return CommandOperands(accesses, tuple(batches), reach)


def layout(instruction: Instruction, operand: str) -> Layout:
    """The layout that an instruction wants of an operand."""
    return Layout.parse(instruction.layouts.get(operand, "row"))


def _check_flags(stream: Stream, group: Commands) -> None:
    limit = stream.hardware.flags
    queues = len(stream.hardware.queues)
    for word, most in (("src", queues), ("dst", queues), ("flag", limit)):
        bad = (group[word] < 0) | (group[word] >= (most if most is not None else 1 << 62))
        if bad.any():
            n = np.flatnonzero(bad)[0]
            raise CommandError(
                f"{stream.describe(group.at[n])}: {word} {group[word][n]} is not below {most}"
            )
    same = group["src"] == group["dst"]
    if same.any():
        at = group.at[np.flatnonzero(same)[0]]
        raise CommandError(f"{stream.describe(at)}: a queue is in order, and needs no flag")


def _types(stream: Stream, group: Commands, name: str = "type") -> Array:
    """Numbers of dtypes, checked."""
    numbers = group[name]
    bad = np.flatnonzero((numbers < 0) | (numbers >= len(DTYPES)))
    if bad.size:
        where = stream.describe(group.at[bad[0]])
        raise CommandError(f"{where}: {name} {numbers[bad[0]]} is the number of no dtype")
    return numbers


# ------------------------------------------------------------------------------- copies


def _dma_copy(table: AccessTable, group: Commands) -> tuple[Array, Array]:
    rows, width = group["rows"], group["row_bytes"]
    source = table.add(group, "src", (rows, group["src_stride"]), (1, 0), width, write=False)
    target = table.add(group, "dst", (rows, group["dst_stride"]), (1, 0), width, write=True)
    return source, target


def _dma_zero(table: AccessTable, group: Commands) -> tuple[Array, Array]:
    rows, width = group["rows"], group["row_bytes"]
    target = table.add(group, "dst", (rows, group["dst_stride"]), (1, 0), width, write=True)
    return np.full(target.size, -1), target


def _blocks(stream: Stream, group: Commands) -> tuple[Array, Array]:
    high, wide = group["block_rows"], group["block_cols"]
    empty = np.flatnonzero((high < 1) | (wide < 1))
    if empty.size:
        raise CommandError(f"{stream.describe(group.at[empty[0]])}: blocks of no elements")
    return high, wide


def _whole(table: AccessTable, group: Commands, name: str, *, write: bool) -> Array:
    """All bytes of all blocks that a matrix has a part in."""
    high, wide = _blocks(table.stream, group)
    block = high * wide * group["item_bytes"]
    rows, columns = -(-group["rows"] // high), -(-group["cols"] // wide)
    return table.add(
        group, name, (rows, group[f"{name}_stride"]), (columns, block), block, write=write
    )


def _masked(
    table: AccessTable,
    group: Commands,
    name: str,
    extents: tuple[Array, Array],
    block: tuple[Any, Any],
    item: Array,
    *,
    write: bool,
    where: Array | None = None,
) -> Array:
    """The elements of a blocked matrix that exist: whole blocks, then those at the edges."""
    (n, m), (high, wide) = extents, block
    pitch = group[f"{name}_stride"]
    size, line = high * wide * item, wide * item
    down, across, below, beside = n // high, m // wide, n % high, m % wide
    right, bottom = across * size, down * pitch
    whole = (-(-n // high), pitch), (-(-m // wide), size)
    # All blocks must lie in the memory, though not all of their bytes are used.
    space = table.add(group, name, *whole, size, write=False, noted=False)
    add = partial(table.add, group, name, write=write, where=where)
    # Whole blocks, the one at the end of each row of them, the row below, and the corner.
    add((down, pitch), (across, size), size)
    add((down, pitch), (high, line), beside * item, shift=right)
    add((1, 0), (across, size), below * line, shift=bottom)
    add((below, line), (1, 0), beside * item, shift=bottom + right)
    return space


def _plain(table: AccessTable, group: Commands, name: str, *, write: bool) -> Array:
    item = group["item_bytes"]
    rows = (group["rows"], group[f"{name}_stride"])
    return table.add(group, name, rows, (group["cols"], item), item, write=write)


def _dma_block(table: AccessTable, group: Commands) -> tuple[Array, Array]:
    return _plain(table, group, "src", write=False), _whole(table, group, "dst", write=True)


def _dma_unblock(table: AccessTable, group: Commands) -> tuple[Array, Array]:
    extents, block = (group["rows"], group["cols"]), _blocks(table.stream, group)
    source = _masked(table, group, "src", extents, block, group["item_bytes"], write=False)
    return source, _plain(table, group, "dst", write=True)


_DMA = {
    "dma_copy": _dma_copy,
    "dma_zero": _dma_zero,
    "dma_block": _dma_block,
    "dma_unblock": _dma_unblock,
}


def _engines(
    stream: Stream, spaces: Spaces, group: Commands, touched: tuple[Array, Array]
) -> list[Batch]:
    """The engine of each copy: on its queue, and with its memory edge."""
    source, target = (spaces.memory[space] for space in touched)
    queues = group["queue"]
    names = [m.name for m in stream.hardware.machine.memories] + ["nothing"]
    edges = np.stack([queues, source, target], axis=1)
    found: list[Batch] = []
    unique, inverse = np.unique(edges, axis=0, return_inverse=True)
    for n, (queue, a, b) in enumerate(unique):
        here = inverse.reshape(-1) == n
        engines = stream.hardware.queues[queue].engines
        fits = [e for e in engines if any(_along(m, names[a], names[b]) for m in e.moves)]
        part = _part(group, here)
        if not fits:
            raise CommandError(
                f"{stream.describe(part.at[0])}: no engine of that queue moves "
                f"{names[a]}->{names[b]}"
            )
        _check_alignment(stream, part, fits[0])
        found.append(Batch(part, fits[0], (int(a), int(b))))
    return found


def _along(move: tuple[str, str], source: str, target: str) -> bool:
    # Zeros have no source, so any engine that writes to the target's memory makes them.
    return move[1] == target and source in (move[0], "nothing")


def _part(group: Commands, here: Array) -> Commands:
    if here.all():
        return group
    return Commands(
        group.extern, group.command, group.function, group.at[here], group.arguments[here]
    )


def _check_alignment(stream: Stream, group: Commands, engine: Engine) -> None:
    if engine.alignment <= 1:
        return
    several = group["rows"] > 1
    for argument in group.command.arguments:
        name = argument.name
        if name not in ("dst", "src", "row_bytes", "dst_stride", "src_stride"):
            continue
        bad = group[name] % engine.alignment != 0
        # With one row there is no next one, and the stride has no meaning.
        bad &= several if name.endswith("stride") else True
        if bad.any():
            n = np.flatnonzero(bad)[0]
            raise SimulatedBoundsError(
                f"{stream.describe(group.at[n])}: {name} is {group[name][n]:#x}, no multiple "
                f"of {engine.alignment}, the alignment of {engine.name}"
            )


# ------------------------------------------------------------------------- computations


_PRIMITIVES = {"vec_fill": ("fill",), "vec_copy": ("copy",)}
"""Primitives, other than tensor expressions, whose instructions carry a command out."""


def _instructions(stream: Stream, group: Commands, *primitives: str) -> list[Batch]:
    """The instruction of each command: the first on its queue with one of these primitives."""
    found: list[Batch] = []
    queues = group["queue"]
    for queue in np.unique(queues):
        units = stream.hardware.queues[queue].instructions
        fits = [i for i in units if i.primitive in primitives]
        part = _part(group, queues == queue)
        if not fits:
            raise CommandError(
                f"{stream.describe(part.at[0])}: no instruction of that queue does this"
            )
        found.append(Batch(part, fits[0]))
    return found


def _mma(table: AccessTable, group: Commands) -> list[Batch]:
    stream, spaces = table.stream, table.spaces
    batches: list[Batch] = []
    for batch in _instructions(stream, group, "gemm"):
        units = stream.hardware.queues[int(batch.group["queue"][0])].instructions
        batches += _by_type(stream, batch.group, [u for u in units if u.primitive == "gemm"])
    for batch in batches:
        part, unit = batch.group, batch.unit
        assert isinstance(unit, Instruction)
        for name, operand, rows, columns in (
            ("c", "C", "m", "n"), ("a", "A", "m", "k"), ("b", "B", "k", "n"),
        ):  # fmt: skip
            space = _matrix(table, part, layout(unit, operand), name, rows, columns)
            _check_allowed(stream, spaces, part, name, space, unit.operands.get(operand))
    return batches


def _by_type(stream: Stream, group: Commands, units: list[Instruction]) -> list[Batch]:
    """The first instruction that takes the operands' dtypes."""
    kinds = np.stack([_types(stream, group, "c_type"), _types(stream, group)], axis=1)
    found: list[Batch] = []
    unique, inverse = np.unique(kinds, axis=0, return_inverse=True)
    for n, (c, ab) in enumerate(unique):
        part = _part(group, inverse.reshape(-1) == n)
        kind = (DTYPES[c], DTYPES[ab], DTYPES[ab])
        fits = [u for u in units if not u.dtypes or kind in u.dtypes]
        if not fits:
            raise CommandError(
                f"{stream.describe(part.at[0])}: {units[0].name} does not multiply "
                f"{kind[1]} into {kind[0]}"
            )
        found.append(Batch(part, fits[0]))
    return found


def _matrix(
    table: AccessTable, group: Commands, form: Layout, name: str, rows: str, columns: str
) -> Array:
    """Note a matrix operand; sums are read, too, where they accumulate."""
    types = group["c_type"] if name == "c" else group["type"]
    item = ITEM_BYTES[types]
    n, m, stride = group[rows], group[columns], group[f"{name}_stride"]
    if name != "c":
        transposed = group[f"{name}_transposed"] != 0
        n, m = np.where(transposed, m, n), np.where(transposed, n, m)
    adds = group["accumulate"] != 0
    if form.kind == "fractal":
        high, wide = form.parameters
        if name == "c":
            _masked(table, group, name, (n, m), (high, wide), item, write=False, where=adds)
        return _masked(table, group, name, (n, m), (high, wide), item, write=name == "c")
    if name == "c":
        table.add(group, name, (n, stride), (m, item), item, write=False, where=adds)
    return table.add(group, name, (n, stride), (m, item), item, write=name == "c")


def _vector(table: AccessTable, group: Commands) -> dict[str, tuple[Array, Array]]:
    """Note the tiles of a vector command; gives commands and spaces by operand."""
    item = ITEM_BYTES[_types(table.stream, group)]
    boolean = group.function.removesuffix("_imm") in (*COMPARISONS, "not")
    # A bool is one byte: what a comparison writes, and the condition of a select.
    items = {"dst": np.ones_like(item) if boolean else item, "c": np.ones_like(item)}
    if group.function == "cast":
        items["dst"] = ITEM_BYTES[_types(table.stream, group, "dst_type")]
    reduces = group.command.name == "vec_reduce"
    rows, columns = group["rows"], group["cols"]
    touched: dict[str, tuple[Array, Array]] = {}
    for argument in group.command.arguments:
        name = argument.name
        if argument.kind != "address":
            continue
        size = items.get(name, item)
        outer = (rows, group[f"{name}_row"])
        if reduces and name == "dst":
            touched[name] = group.at, table.add(group, name, outer, (1, 0), size, write=True)
            adds = group["accumulate"] != 0
            table.add(group, name, outer, (1, 0), size, write=False, where=adds)
            continue
        inner = (columns, group[f"{name}_col"])
        touched[name] = group.at, table.add(group, name, outer, inner, size, write=name == "dst")
    return touched


def _check_memories(
    stream: Stream, spaces: Spaces, batch: Batch, touched: dict[str, tuple[Array, Array]]
) -> None:
    unit, part = batch.unit, batch.group
    assert isinstance(unit, Instruction)
    scratch = unit.options.get("temporaries")
    for name, (at, space) in touched.items():
        # A fill has one operand, whatever the machine file calls it.
        words = ("Y", "X") if name == "dst" else ("X",)
        allowed = next((unit.operands[w] for w in words if w in unit.operands), None)
        if allowed and scratch:
            allowed = (*allowed, str(scratch))
        _check_allowed(stream, spaces, part, name, space[np.isin(at, part.at)], allowed)


def _check_allowed(
    stream: Stream,
    spaces: Spaces,
    group: Commands,
    name: str,
    space: Array,
    allowed: tuple[str, ...] | None,
) -> None:
    if not allowed:
        return
    memories = stream.hardware.machine.memories
    numbers = [n for n, memory in enumerate(memories) if memory.name in allowed]
    bad = (space >= 0) & ~np.isin(spaces.memory[space], numbers)
    if bad.any():
        n = np.flatnonzero(bad)[0]
        raise CommandError(
            f"{stream.describe(group.at[n])}: {name} is in {spaces.name(int(space[n]))}, "
            f"not in {' or '.join(allowed)}"
        )
