"""Regions whose rows are chosen by a tensor of indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from septran.ir.atoms import CallExtent, Element
from septran.ir.index import Index, axis, minimum
from septran.tile.analyses.loops import walk
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    Region,
    TileProgram,
    nodes,
    rewrite,
    tables,
    views,
)
from septran.tile.substitution import change_indices


def indirect(body: tuple[Node, ...]) -> tuple[str, ...]:
    """The tensors by which rows are chosen or iterations counted, in order of first use."""
    return tuple(dict.fromkeys(name for node, _ in walk(body) for name in tables(node)))


Array = np.ndarray[Any, Any]
IndexReads = Mapping[int, tuple[Region, ...]]
"""For each node, by its identity, all of each buffer that it reads as indices or counts."""


def index_reads(program: TileProgram, original: TileProgram) -> IndexReads:
    """What the nodes of a program read as indices; which elements, only a call tells.

    `original` has the same nodes, and the indices and counts in them, for which others may stand
    in `program`.
    """
    wholes = {buffer.name: Region.all_of(buffer) for buffer in program.buffers}
    pairs = zip(nodes(program.body), nodes(original.body), strict=True)
    return {id(node): tuple(wholes[name] for name in tables(before)) for node, before in pairs}


def counted(program: TileProgram) -> tuple[TileProgram, ...]:
    """Programs without counts from tensors that stand for those with any.

    Each loop turns never, once, twice, as often as it may, and as often as differs from one
    iteration of the loops around it to the next. Where two counts are the ends of a section,
    sections are long ones and empty ones, too.
    """
    counts = _counts(program)
    if not counts:
        return (program,)
    tops = {min(n, extent - 1) for _, extent in counts for n in (0, 1, 2, extent - 1)}
    patterns = [_constant(n) for n in sorted(tops)] + [_uneven]
    if _has_sections(program):
        patterns += [_rising(1), _rising(3)]

    def with_pattern(pattern: Pattern) -> TileProgram:
        def stands(element: Element, at: Index) -> Index | None:
            return pattern(element, at) if (element.tensor, element.extent) in counts else None

        return _standing(program, stands)

    return tuple(map(with_pattern, patterns))


def at_sizes(program: TileProgram) -> tuple[TileProgram, ...]:
    """The program for any call, and as it runs where the caller's extents are so and so long.

    A program without a call is one of the greatest extents with edges that may be anywhere; the
    others have none that is unknown: the least, one more, and such that divide by nothing.
    """
    sizes = program.sizes()
    if not sizes:
        return (program,)
    picked = [(s.least, s.least + 1, s.most // 2 + 1, s.most - 1) for s in sizes]
    lengths = {
        tuple(min(s.most, max(s.least, n)) for s, n in zip(sizes, each, strict=True))
        for each in zip(*picked, strict=True)
    }

    return (program, *(at_lengths(program, found) for found in sorted(lengths)))


def at_lengths(program: TileProgram, lengths: Sequence[int]) -> TileProgram:
    """The program of a call that tells these extents, in the order of `TileProgram.sizes`."""
    values = dict(zip(program.sizes(), lengths, strict=True))
    change = cache(lambda index: index.substitute(values))
    body = (change_indices(n, change) for n in program.body)
    buffers = (_fixed(buffer, values) for buffer in program.buffers)
    return replace(program, body=tuple(body), buffers=tuple(buffers))


def _fixed(buffer: Buffer, values: Mapping[CallExtent, int]) -> Buffer:
    """A caller's tensor at sizes of one call."""
    if not buffer.exists:
        return buffer
    shape = tuple(extent.substitute(values).as_int() for extent in buffer.exists)
    return replace(buffer, shape=shape, exists=())


def supposed(program: TileProgram, even: bool = False) -> TileProgram:
    """The program as it runs if tensors of indices hold the rows in turn, and counts their most.

    For who follows a program without its data: row n chooses row n, modulo how many there are, and
    the first section is all there is, or all are of one length.
    """
    return _standing(program, _suppose(program, even)) if indirect(program.body) else program


def supposed_tables(program: TileProgram, even: bool = False) -> Mapping[str, Array]:
    """What the tensors of indices hold in `supposed`, by name."""
    stands = _suppose(program, even)
    found: dict[str, Array] = {}
    for element in dict.fromkeys(e for index in _indices(program) for e in index.elements()):
        shape = program.buffer(element.tensor).shape
        sums = np.indices(shape).sum(axis=0)
        values = [stands(element, Index.of(at)).as_int() for at in range(sum(shape) + 1)]
        found.setdefault(element.tensor, np.array(values)[sums])
    return found


def _suppose(program: TileProgram, even: bool) -> Pattern:
    counts, sections = _counts(program), _has_sections(program)
    tables = {buffer.name: buffer.shape for buffer in program.buffers if even}

    def stands(element: Element, at: Index) -> Index:
        if (element.tensor, element.extent) not in counts:
            return at % element.extent
        # Whether it has an end after another, or a row for both ends of each section.
        number = sum(extent - 1 for extent in tables.get(element.tensor, ()))
        return _rising(max(1, number))(element, at) if sections else Index.of(element.extent - 1)

    return stands


def supposition(program: TileProgram, even: bool = False) -> str:
    """A sentence on what `supposed` supposes of a program; empty where nothing is."""
    names = ", ".join(indirect(program.body))
    said = f"supposing that {names} holds 0, 1, 2, ... as rows, and the most as counts"
    if even and _has_sections(program):
        said += ", or sections of one length"
    return said if names else ""


Pattern = Callable[[Element, Index], Index]
"""What stands for a count, by the sum of where it is."""


def _constant(trips: int) -> Pattern:
    return lambda element, at: Index.of(min(trips, element.extent - 1))


def _uneven(element: Element, at: Index) -> Index:
    return (at + 1) % element.extent


def _rising(sections: int) -> Pattern:
    """Rising numbers that reach the greatest one after so many."""

    def pattern(element: Element, at: Index) -> Index:
        top = element.extent - 1
        return minimum(at * -(-top // sections), top)

    return pattern


def _counting(program: TileProgram) -> Iterator[Index]:
    """The numbers of iterations of all loops, and what exists of all regions."""
    for node in nodes(program.body):
        if isinstance(node, For):
            yield node.extent
        for view in views(node):
            yield from view.valid


def _indices(program: TileProgram) -> Iterator[Index]:
    """All that is counted, and where all regions are."""
    yield from _counting(program)
    for node in nodes(program.body):
        for view in views(node):
            yield from view.index


def _counts(program: TileProgram) -> set[tuple[str, int]]:
    """The parameters that say how much there is, with the bounds that they have there."""
    return {(e.tensor, e.extent) for index in _counting(program) for e in index.elements()}


def _has_sections(program: TileProgram) -> bool:
    return any(len(set(index.elements())) > 1 for index in _counting(program))


def _standing(
    program: TileProgram, stands: Callable[[Element, Index], Index | None]
) -> TileProgram:
    """The program with indices in place of elements: by the element and the sum of where it is.

    None leaves an element as it is.
    """

    @cache  # regions share most of their indices
    def change(index: Index) -> Index:
        values: dict[Element, Index] = {}
        # Those of coordinates come first, so that they stand in what is counted by them, too.
        for element in index.elements():
            at = sum((c.substitute(values) for c in element.at), Index())
            found = stands(element, at)
            if found is not None:
                values[element] = found
        return index.substitute(values)

    body = (change_indices(node, change) for node in program.body)
    return replace(program, body=tuple(body))


def widened(program: TileProgram) -> TileProgram:
    """The program where a region of chosen rows is one of all rows that may be chosen.

    What is right of all rows is right of any. Each element is replaced by an axis of its own, over
    all that it may be.
    """

    def change(node: Node) -> tuple[Node, ...]:
        if not any(view.elements() for view in views(node)):
            return (node,)
        if isinstance(node, Copy):
            return (replace(node, target=_widened(node.target), source=_widened(node.source)),)
        assert isinstance(node, Compute)
        return (replace(node, operands=tuple(map(_widened, node.operands))),)

    if not indirect(program.body):
        return program
    return replace(program, body=rewrite(program.body, change))


def _widened(region: Region) -> Region:
    elements = region.elements()
    own = {e: Index.of(axis(region.rank + n)) for n, e in enumerate(elements)}
    extents = tuple(e.extent for e in elements)
    return replace(
        region,
        index=tuple(entry.substitute(own) for entry in region.index),
        shape=(*region.shape, *extents),
        valid=(*region.valid, *map(Index.of, extents)),
    )
