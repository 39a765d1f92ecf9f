"""stmatrix: what lies as an accumulator goes from registers to SHARED, 8 x 8 at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from septran.dtypes import itemsize
from septran.ir.index import Index
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.copy.copies import emit_statements
from septran.targets.cuda.fragment.fragments import Digit, Fragment
from septran.targets.cuda.gemm.ldmatrix import store_rows
from septran.targets.cuda.gemm.masks import clear
from septran.targets.cuda.shared import SharedTile, tile
from septran.targets.cuda.text.ptx import words
from septran.tile.nodes import Copy, Region

LANES = (Digit(8, "thread", 4), (Digit(4, "thread", 1), Digit(2, "register", 1)))
"""The last digits of rows and of columns of an 8 x 8 matrix."""


def copy(context: Context, node: Copy) -> None:
    """Store by stmatrix where both sides suit it, else by plain stores."""
    source = context.storages[node.source.buffer]
    target = tile(context, node.target)
    fits = whole_matrices if node.zero_fill else suits
    if isinstance(target, str) or not fits(source, node.source) or target.along != 1:
        emit_statements(context, node)
        return
    assert source.fragment is not None
    if node.zero_fill:
        clear(context, node.source, range(node.source.rank))
    put(context, source, target, list(matrices(source.fragment)))


def suits(source: Storage, region: Region) -> bool:
    """Whether a fragment is made of whole 8 x 8 matrices, all of which are copied."""
    return whole_matrices(source, region) and not region.ragged


def whole_matrices(source: Storage, region: Region, sizes: tuple[int, ...] = (2,)) -> bool:
    """The same, where what does not exist may be copied, too; for elements of so many bytes."""
    fragment = source.fragment
    if fragment is None or fragment.rank != 2 or itemsize(source.dtype) not in sizes:
        return False
    if not region.is_plain or region.shape != source.shape or fragment.extents != source.shape:
        return False
    if fragment.replicated:
        return False
    # PTX ISA, stmatrix: lane l holds of row l / 4 the columns 2 (l % 4) and the next one.
    rows, columns = fragment.axes
    return rows[-1:] == LANES[:1] and columns[-2:] == LANES[1]


def matrices(fragment: Fragment) -> Iterator[tuple[int, int, int]]:
    """Each matrix of a thread: its first row and column among the thread's, and its pair."""
    inner = (LANES[0], *LANES[1])
    parts = [
        [(d, w) for d, w in fragment.weighted(n) if d.place == "register" and d not in inner]
        for n in range(2)
    ]
    choices = [itertools.product(*(range(d.extent) for d, _ in part)) for part in parts]
    for row, column in itertools.product(*map(list, choices)):
        values = [list(zip(v, p, strict=True)) for v, p in zip((row, column), parts, strict=True)]
        first, second = (sum(n * w for n, (_, w) in part) for part in values)
        spot = sum(n * d.stride for part in values for n, (d, _) in part)
        yield first, second, spot // 2


def put(
    context: Context,
    source: Storage,
    target: SharedTile,
    found: list[tuple[int, int, int]],
    unit: int = 1 << 30,
) -> None:
    """Store matrices four at a time: two rows of them, two columns.

    Rows and columns count from those of the thread's `unit`, such as its warpgroup.
    """
    fragment = source.fragment
    assert fragment is not None
    held = words(context, source.flat)
    base = [warp_part(context, fragment, n, unit) for n in range(2)]
    at = {(row, column): word for row, column, word in found}
    while at:
        # Row by row from the first, so that blocks of two by two meet their neighbours.
        row, column = min(at)
        group = [p for p in _square(row, column) if p in at]
        count = 4 if len(group) == 4 else 1
        group = group[:count]
        numbers = [at.pop(p) for p in group]

        # PTX ISA, stmatrix: lanes 8n to 8n + 7 have the addresses of the rows of matrix n.
        number = context.thread % 32 // 8 % count
        here = base[0] + row + number % 2 * 8 + context.thread % 8
        address = target.address(here, (base[1] + column + number // 2 * 8) * 2)
        store_rows(context, [held[n] for n in numbers], address)


def put_pairs(
    context: Context,
    source: Storage,
    target: SharedTile,
    found: list[tuple[int, int, int]],
    unit: int,
) -> None:
    """Store matrices of 8-bit elements: each thread its pairs, as no instruction takes them.

    A warp stores 8 bytes of each of 8 rows, which a swizzle of 128 bytes puts into banks of
    their own.
    """
    fragment = source.fragment
    assert fragment is not None
    held = words(context, source.flat, "uint16")
    shared = context.shared_view("uint16")
    base = [warp_part(context, fragment, n, unit) for n in range(2)]
    # PTX ISA, stmatrix: lane l holds of row l / 4 the columns 2 (l % 4) and the next one.
    here = (base[0] + context.thread % 32 // 4, base[1] + context.thread % 4 * 2)
    for row, column, pair in found:
        byte = target.offset(here[0] + row, here[1] + column)
        value = context.writer.load(held, pair)
        context.writer.store(shared, byte // context.writer.index(2), value)


def _square(row: int, column: int) -> list[tuple[int, int]]:
    return [(row, column), (row + 8, column), (row, column + 8), (row + 8, column + 8)]


def warp_part(context: Context, fragment: Fragment, along: int, unit: int) -> Index:
    """Return what the number of a thread's warp in its unit adds to a coordinate."""
    total = Index()
    for digit, weight in fragment.weighted(along):
        if digit.place == "thread" and 32 <= digit.stride < unit:
            total = total + context.thread // digit.stride % digit.extent * weight
    return context.variable("warp", total)
