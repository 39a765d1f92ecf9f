"""Choice of the order of a staged tile's axes, where all its readers take either order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from septran.ir.index import axis
from septran.machine.model import Instruction
from septran.tile.analyses.engine_limits import refusal
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    Node,
    Region,
    Remark,
    TileProgram,
    nodes,
    regions,
    rewrite,
)
from septran.tile.passes.copies.choose_engines import plain

NAME = "choose_transposes"
SUMMED = {1: 1, 2: 0}
"""The summed axis of gemm's operands A and B."""


def choose_transposes(program: TileProgram) -> TileProgram:
    """Keep a tile that only products read as its source lies, or as the instruction needs it."""
    for buffer in program.buffers:
        why = _reason(program, buffer)
        if why is None:
            continue
        where = buffer.origin.mapping if buffer.origin else None
        program = _with_transposed(program, buffer)
        message = f"{buffer.name} is held with its axes exchanged: {why}"
        program = program.remark(Remark("decision", buffer.name, message, None, where, NAME))
    return program


def _reason(program: TileProgram, buffer: Buffer) -> str | None:
    """Return why a buffer should have its two axes exchanged; None where it should not."""
    if buffer.name in program.params or len(buffer.shape) != 2 or buffer.layout.kind != "row":
        return None
    users = [n for n in nodes(program.body) if any(r.buffer == buffer.name for r in regions(n))]
    readers = list(_readers(program, buffer, users))
    if not readers or any(instruction is None for instruction, _ in readers):
        return None
    for instruction, region_summed in readers:
        assert instruction is not None
        # wgmma, for example, takes transposed matrices of 16-bit elements only (PTX ISA,
        # wgmma.mma_async, imm-trans-b).
        if buffer.dtype in instruction.options.get("along_sum", ()):
            along = f"{instruction.name} reads {buffer.dtype} along the summed axis only"
            return None if region_summed else along
    copies = [n for n in users if isinstance(n, Copy) and n.target.buffer == buffer.name]
    # Threads could exchange the axes, element by element; nobody needs it.
    if all(_either(i) for i, _ in readers) and copies and all(map(_exchanged, copies)):
        return f"so it lies in its source, and {copies[0].engine} moves vectors"
    return _whole_rows(program, buffer, copies)


def _either(instruction: Instruction | None) -> bool:
    """Whether an instruction reads tiles in either order alike."""
    return instruction is not None and bool(instruction.options.get("either_order"))


def _exchanged(copy: Copy) -> bool:
    """Whether the first axis of a tile lies side by side in its source."""
    target, source = copy.target, copy.source
    return target.is_plain and source.index[-1].coefficient(axis(0)) == 1


def _turned(copy: Copy) -> Copy:
    """The copy with its axes in the other order, those of the tile again: vectors lie along it."""
    source, target = copy.source.transposed((1, 0)), copy.target.transposed((1, 0))
    return replace(copy, source=source, target=target)


def _whole_rows(program: TileProgram, buffer: Buffer, copies: Sequence[Copy]) -> str | None:
    """Return the reason if an engine can copy it only with its axes exchanged; else None."""
    transposed = _with_transposed(program, buffer)
    mine = [_refused(program, c) for c in copies]
    its = [_refused(transposed, c) for c in _copies(transposed, buffer.name)]
    if copies and all(mine) and not any(its):
        return f"so it lies in its source, and {copies[0].engine} moves whole rows"
    return None


def _readers(
    program: TileProgram, buffer: Buffer, users: Iterable[Node]
) -> Iterator[tuple[Instruction | None, bool]]:
    """Instructions that read it, and whether its rows lie along the sum; None: another use."""
    for node in users:
        if isinstance(node, Copy) and node.target.buffer == buffer.name:
            continue
        if not isinstance(node, Compute) or node.primitive != "gemm":
            yield None, False
            continue
        instruction = program.machine.instruction(node.instruction)
        either = any(text.startswith("swizzle") for text in instruction.layouts.values())
        for position, region in enumerate(node.operands):
            if region.buffer == buffer.name:
                if position not in SUMMED or not either:
                    yield None, False
                else:
                    summed = region.index[-1].coefficient(axis(SUMMED[position])) == 1
                    yield instruction, summed


def _refused(program: TileProgram, copy: Copy) -> bool:
    simple = replace(copy, source=plain(copy.source, {}), target=plain(copy.target, {}))
    engine = program.machine.engine(copy.engine)
    return engine.asynchronous and refusal(program, simple, engine) is not None


def _copies(program: TileProgram, name: str) -> list[Copy]:
    return [n for n in nodes(program.body) if isinstance(n, Copy) and n.target.buffer == name]


def _with_transposed(program: TileProgram, buffer: Buffer) -> TileProgram:
    """Return the program with the buffer's axes exchanged wherever it is used."""
    users = [n for n in nodes(program.body) if any(r.buffer == buffer.name for r in regions(n))]
    by_threads = all(_either(i) for i, _ in _readers(program, buffer, users))

    def region(old: Region) -> Region:
        if old.buffer != buffer.name:
            return old
        return replace(old, index=(old.index[1], old.index[0]))

    def change(node: Node) -> tuple[Node, ...]:
        match node:
            case Copy():
                copy = replace(node, target=region(node.target), source=region(node.source))
                turned = by_threads and node.target.buffer == buffer.name
                return (_turned(copy) if turned else copy,)
            case Compute():
                return (replace(node, operands=tuple(map(region, node.operands))),)
            case _:
                return (node,)

    transposed = replace(buffer, shape=(buffer.shape[1], buffer.shape[0]))
    buffers = tuple(transposed if b.name == buffer.name else b for b in program.buffers)
    return replace(program, buffers=buffers, body=rewrite(program.body, change))
