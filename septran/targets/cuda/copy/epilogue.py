"""Results from registers to GLOBAL through SHARED: stmatrix into a swizzled panel, then TMA.

8-bit elements, of which stmatrix knows nothing, are put into the panel by pairs. Each warpgroup
has panels of its own, of 64 rows and 128 bytes, and goes round them: while one is stored by TMA
the next one is filled. Edges are clipped by the tensor map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.emulator.launch import TensorMap
from septran.ir.index import Index, minimum
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.copy.copies import emit_statements
from septran.targets.cuda.copy.stores import matrices, put, put_pairs, whole_matrices
from septran.targets.cuda.copy.tma import STORE, told
from septran.targets.cuda.fragment.fragments import GROUP, WARP, Fragment
from septran.targets.cuda.shared import SharedTile, pointer
from septran.targets.cuda.sync.named_barriers import first_of_stores
from septran.targets.cuda.text.ptx import proxy_fence, ptx
from septran.targets.cuda.warps import warpgroup
from septran.targets.lower.writer import Expr
from septran.tile.analyses.engine_limits import Box, box, strides
from septran.tile.analyses.loops import used
from septran.tile.layouts import Layout
from septran.tile.nodes import Buffer, Copy, Node, Role, Wait, nodes, regions
from septran.tile.records import Placement

ALIGNMENT = 1024
"""Bytes; the pattern of the widest swizzle repeats after so many (`layouts.SWIZZLE_PERIOD`)."""


def free_offset(context: Context, node: Copy, size: int) -> int | None:
    """A byte of shared memory from which on `size` of them are free from `node` on.

    Free are the tiles of which every fill has been waited for: those of a kernel whose `node`
    is in no loop. The threads that run `node` still have to meet.
    """
    body = context.state.body
    held = _holders(body, node)
    if held is None:
        return None
    role, later = held
    beside = [n for n in body if isinstance(n, Role) and n is not role] if role else []
    ours = role.body if role else body
    busy = used(later) | _shared_with(ours, beside)
    mine = used(body)
    plan = [p for p in context.program.plan if p.memory == "SHARED" and p.buffer in mine]
    for place in sorted(plan, key=lambda p: -p.size_bytes):
        start = -(-place.offset_bytes // ALIGNMENT) * ALIGNMENT
        around = [p for p in plan if _overlaps(p, start, size)]
        inside = start + size <= place.offset_bytes + place.size_bytes
        if inside and not any(p.buffer in busy for p in around):
            return start
    return None


def reused(context: Context, base: int) -> bool:
    """Whether a byte of shared memory belongs to a tile of the program."""
    return any(
        p.memory == "SHARED" and p.buffer in context.storages and _overlaps(p, base, 1)
        for p in context.program.plan
    )


def _holders(body: tuple[Node, ...], node: Copy) -> tuple[Role | None, tuple[Node, ...]] | None:
    """The role that holds a node, and what follows it there; None where it is in a loop."""
    for role in (None, *(n for n in body if isinstance(n, Role))):
        inside = role.body if role else body
        at = next((n for n, other in enumerate(inside) if other is node), None)
        if at is not None:
            return role, inside[at + 1 :]
    return None


def _shared_with(ours: tuple[Node, ...], beside: list[Role]) -> frozenset[str]:
    """Tiles that other roles may use still: all but those that they filled, as we waited for."""
    waited = {n.channel for n in nodes(ours) if isinstance(n, Wait)}
    found: set[str] = set()
    for role in beside:
        for node in nodes(role.body):
            fills = isinstance(node, Copy) and node.channel in waited
            # A copy's first region is its target: we waited for it, so that nobody writes there
            # now.
            touched = regions(node)[1:] if fills else regions(node)
            found.update(r.buffer for r in touched)
    return frozenset(found)


def _overlaps(place: Placement, start: int, size: int) -> bool:
    return start < place.offset_bytes + place.size_bytes and place.offset_bytes < start + size


ROWS, SPAN = 64, 128
"""Rows and bytes of a panel."""
PANELS = 2
"""Panels that a warpgroup uses in turn: one is stored while the next one is filled."""
SIZES = (1, 2)
"""Bytes of elements: of greater ones a warp's own stores fill whole sectors of 32 bytes."""
SPARE = 4096
"""Bytes that are left for what threads exchange."""


def copy(context: Context, node: Copy) -> None:
    """Store a fragment by TMA where it can be, else by plain stores."""
    found = plan(context, node)
    if isinstance(found, str):
        about = node.target.buffer
        context.remark("missed", about, f"{about} is stored by threads, not by TMA: {found}")
        emit_statements(context, node)
        return
    _Epilogue(context, node, found).write()


def plan(context: Context, node: Copy) -> Box | str:
    """The target as a box, or why it is not stored by TMA."""
    program = context.program
    engine = next((e for e in program.machine.engines if e.completes_by == "mbarrier"), None)
    if engine is None:
        return f"{program.machine.name} has none"
    source = context.storages[node.source.buffer]
    if not whole_matrices(source, node.source, SIZES):
        return f"{source.name} does not lie as stmatrix takes it"
    fragment = source.fragment
    assert fragment is not None
    groups = context.threads.count // GROUP
    if source.shape[0] % (ROWS * groups):
        return "its rows are not a multiple of 64 for each warpgroup"
    if not _by_warpgroups(fragment, groups):
        return "its rows or columns are spread over several warpgroups"
    if first_of_stores(context) is None:
        return f"{groups} warpgroups take more named barriers than are left"
    if source.shape[1] * itemsize(source.dtype) % SPAN:
        return "its rows are not a multiple of 128 bytes"
    if _base(context, node, panels=1) is None:
        return "there is no shared memory left for it"
    # As a tile of rows: the layout of the panels is chosen here, and not by the program.
    near = Buffer(source.name, source.memory, source.shape, source.dtype)
    found = box(replace(program, buffers=_with(program.buffers, near)), node, engine)
    if isinstance(found, str):
        return found
    tensor = program.buffer(node.target.buffer)
    for number, view in enumerate(found.views):
        if view is not None and not _clipped(node, found, number, tensor.extents):
            return "more of the tensor lies beyond what exists of the tile"
    return found


def _base(context: Context, node: Copy, panels: int) -> int | None:
    """Return the offset of a warpgroup's panels in shared memory; None if they do not fit."""
    held = context.state.epilogues
    key = str(context.threads)
    if key not in held:
        size = context.threads.count // GROUP * panels * ROWS * SPAN
        memory = context.program.machine.memory("SHARED")
        room = (memory.capacity_bytes or 0) - SPARE - context.shared_bytes
        # The place is chosen once: who asks for one panel gets that of two, where two fit.
        if panels < PANELS and _base(context, node, panels + 1) is not None:
            return held[key][0]
        # `reserve` may lose up to 1024 bytes to the alignment.
        if size > room - 1024:
            # There is none behind the plan's tiles: those that nobody needs any more will do.
            free = free_offset(context, node, size)
            if free is None:
                return None
            held[key] = (free, panels)
        else:
            held[key] = (context.reserve(size, 1024), panels)
    base, count = held[key]
    return base if count >= panels else None


def _by_warpgroups(fragment: Fragment, groups: int) -> bool:
    """Whether warpgroup g holds the g-th part of the rows, and a panel's rows at a time.

    The accumulator of a wgmma lies so. That of an mma.sync need not: its warps may be beside
    each other along the columns.
    """
    each = fragment.extents[0] // groups
    rows = {row for row, _, _ in matrices(fragment)}  # among those of one thread
    for warp in range(fragment.threads // WARP):
        first, column = (at.as_int() for at in fragment.coordinates(warp * WARP, 0))
        start = first - warp * WARP // GROUP * each
        if column or start < 0 or any((start + r) // ROWS != r // ROWS for r in rows):
            return False
    return True


def _with(buffers: tuple[Buffer, ...], changed: Buffer) -> tuple[Buffer, ...]:
    return tuple(changed if b.name == changed.name else b for b in buffers)


def _clipped(node: Copy, found: Box, number: int, shape: tuple[Index, ...]) -> bool:
    """Whether the tile ends only where the tensor does."""
    view = found.views[number]
    assert view is not None
    left = minimum(node.target.shape[view], shape[found.axes[number]] - found.starts[number])
    valid = node.target.valid[view]
    return valid in (left, Index.of(node.target.shape[view]))


@dataclass
class _Epilogue:
    context: Context
    node: Copy
    found: Box

    def write(self) -> None:
        """All panels of this thread's warpgroup."""
        context = self.context
        source = context.storages[self.node.source.buffer]
        groups = context.threads.count // GROUP
        rows, width = source.shape[0] // groups, SPAN // itemsize(source.dtype)
        group = warpgroup(context)
        count = PANELS if _base(context, self.node, PANELS) is not None else 1
        base = _base(context, self.node, count)
        assert base is not None
        if reused(context, base):
            context.sync()  # all of these threads have read what was there
        panels = [(r, c) for r in range(0, rows, ROWS) for c in range(0, source.shape[1], width)]
        for number, (row, column) in enumerate(panels):
            at = group * (count * ROWS * SPAN) + base + number % count * ROWS * SPAN
            self.fill(source, at, group, row, column, width, count)
            self.store(at, group * rows + row, column, width)
        with context.writer.when(self.first):
            # TMA may still read: a block that ends gives up its shared memory.
            ptx(context, "cp.async.bulk.wait_group.read", 0)

    @property
    def first(self) -> Expr:
        """Whether this is the first thread of its warpgroup."""
        context = self.context
        return context.lower(context.thread % GROUP) == context.writer.index(0)

    def meet(self, group: Index) -> None:
        """A barrier of this warpgroup."""
        first = first_of_stores(self.context)
        assert first is not None  # or there would be no plan
        number = T.Cast("uint32", self.context.lower(group + first))
        ptx(self.context, "bar.sync", number, T.uint32(GROUP))

    def fill(
        self,
        source: Storage,
        at: Index,
        group: Index,
        row: int,
        column: int,
        width: int,
        count: int,
    ) -> None:
        """Put one panel into shared memory once its last store has been read."""
        context = self.context
        with context.writer.when(self.first):
            # Bulk groups are counted by thread (PTX ISA): the one that commits them waits for them.
            ptx(context, "cp.async.bulk.wait_group.read", count - 1)
        self.meet(group)
        fragment = source.fragment
        assert fragment is not None
        mine = [
            (r, c, w)
            for r, c, w in matrices(fragment)
            if row <= r < row + ROWS and column <= c < column + width
        ]
        panel = Storage(
            "panel", "SHARED", (ROWS, width), source.dtype, Layout("swizzle", (SPAN,)), source.flat
        )
        tile = _Panel(
            context, panel, 1, Index.of(-row), 1, Index() - column * itemsize(source.dtype),
            Index(), at,
        )  # fmt: skip
        (put_pairs if itemsize(source.dtype) == 1 else put)(context, source, tile, mine, GROUP)
        # Each thread's fence orders its own writes; behind the barrier TMA sees those of all.
        proxy_fence(context)
        self.meet(group)

    def store(self, at: Index, row: Index, column: int, width: int) -> None:
        """Hand a panel to TMA."""
        context, found = self.context, self.found
        tensor = context.buffer(self.node.target.buffer)
        widths = strides(tensor)
        axes = found.axes
        inner = {view: n for n, view in enumerate(found.views)}
        shape = [1] * len(axes)
        starts = list(found.starts)
        shape[0] = width
        starts[0] = starts[0] + column
        across = inner.get(0)
        if across is not None and across != 0:
            shape[across] = ROWS
            starts[across] = starts[across] + row
        wanted = TensorMap(
            tensor.name, tensor.dtype, tuple(tensor.shape[a] for a in axes),
            tuple(widths[a] for a in axes[1:]), tuple(shape), SPAN, f"{tensor.name}_map",
            told=told(tensor, axes),
        )  # fmt: skip
        variable = context.tensor_map(wanted)
        with context.writer.when(self.first):
            coordinates = [T.Cast("int32", context.lower(s)) for s in starts]
            place = pointer(context, context.lower(at))
            text = STORE.format(len(axes))
            ptx(context, text, T.address_of(variable), *coordinates, place)
            ptx(context, "cp.async.bulk.commit_group")


@dataclass(frozen=True)
class _Panel(SharedTile):
    """A panel at a byte of shared memory; rows and columns count from the fragment's first."""

    at: Index

    def start(self) -> Index:
        """Return where the panel begins."""
        return self.at
