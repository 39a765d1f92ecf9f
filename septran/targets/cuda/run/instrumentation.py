"""When each warpgroup of a GPU kernel did what: generated code that takes notes.

A kernel that is lowered with marks has one more argument, the room for them. The first thread
of each warpgroup (of a role that issues copies, its one thread) reads ``globaltimer`` before and
after each node and writes both readings with the number of the `Site`. Kernels in use carry none
of it: without marks, nothing here writes a statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.emulator.launch import Pointer
from septran.targets.cuda.context import Context, Threads
from septran.targets.cuda.fragment.fragments import GROUP, WARP
from septran.targets.lower.writer import both
from septran.tile.nodes import Acquire, Barrier, Compute, Copy, Node, Wait

ROOM = "%marks"
"""The tensor that marks are written to, the last one of a call."""
BLOCKS, RECORDS = 256, 2048
"""Blocks of a launch, and records of a lane in a block, that are kept."""
WORDS = 2
"""Words of a record: start and site, end."""
SITE_BITS = 16
"""Bits of the first word that hold the number of the site in place of the start's upper bits."""

NOW = """\
__forceinline__ __device__ int64_t septran_now() {
  int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) : : "memory");
  return now;
}
"""
MARK = """\
__forceinline__ __device__ void septran_mark(int64_t* room, bool kept, int& count, int site,
                                             int64_t start) {
  int64_t end;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end) : : "memory");
  if (kept && count < @RECORDS@) {
    room[count * 2] = start << 16 | site;
    room[count * 2 + 1] = end;
  }
  count++;
}
""".replace("@RECORDS@", str(RECORDS))
WHERE = """\
__forceinline__ __device__ int64_t septran_multiprocessor() {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}
"""


@dataclass(frozen=True)
class Site:
    """A place in the kernel whose time is taken."""

    kind: str
    """``in``, ``out``, ``copy``, ``matrix``, ``threads``, ``wait``: of `explain.timeline`."""
    label: str
    origin: str = ""


@dataclass
class Marks:
    """The marks of one kernel, filled in while it is lowered."""

    first: int
    """Word of the room where this kernel's begin."""
    rows: int = 0
    """Lanes of a block that have room: one for a unit, one for its thread that issues."""
    blocks: int = 0
    """The number of blocks whose marks are kept, from the first on."""
    unit: int = GROUP
    """The number of threads that a lane stands for: a warpgroup's or a warp's."""
    sites: dict[Site, int] = field(default_factory=dict)
    """With their numbers, from 1."""
    lanes: dict[int, str] = field(default_factory=dict)
    """Names of the rows that are used."""
    block: Any = None
    """The block's number in the kernel."""
    room: Any = None
    count: Any = None
    """How many a thread has written."""
    base: Any = None
    """Where the records of the body's lane begin."""
    kept: Any = None
    """Whether this thread writes; None outside of all lanes."""

    @property
    def words(self) -> int:
        """The number of words of all of the kernel's records."""
        return self.blocks * self.rows * RECORDS * WORDS


def begin(context: Context, marks: Marks | None, block: Any, grid: int) -> list[Any]:
    """Make the argument and the count of each thread; what the kernel's head declares."""
    if marks is None:
        return []
    roles = [t.count for t in context.state.roles.values()]
    # One size for all lanes of a block, the warp's where a role is less than warpgroups.
    marks.unit = GROUP if all(count % GROUP == 0 for count in roles) else WARP
    marks.rows, marks.blocks = 2 * -(-context.block // marks.unit), min(grid, BLOCKS)
    marks.block = block if grid > marks.blocks else None
    pointer = tirx.Var(context.writer.name("marks"), tvm.ir.PointerType(tvm.ir.PrimType("int64")))
    context.arguments.append((Pointer(ROOM, "int64", str(pointer.name)), pointer))
    size = marks.first + marks.words
    marks.room = tirx.decl_buffer((size,), "int64", "marks_flat", data=pointer, layout=None)
    marks.count = context.writer.allocate("mark_count", 1, "int32")
    context.writer.store(marks.count, context.writer.index(0), tirx.IntImm("int32", 0))
    row = block * marks.rows * (RECORDS * WORDS) + marks.first
    marks.base = context.writer.bind("marks_of_block", row)
    context.state.marks = marks
    return [tirx.DeclBuffer(marks.room, data=pointer)]


@contextmanager
def lane(context: Context, name: str, threads: Threads, single: bool = False) -> Iterator[None]:
    """Record what `threads` run inside of the context; with `single`, one thread a unit."""
    marks = context.state.marks
    if marks is None:
        yield
        return
    units = -(-threads.count // marks.unit)
    for n in range(units):
        row = 2 * (threads.first // marks.unit + n) + single
        marks.lanes.setdefault(row, name if units == 1 else f"{name} {n}")
    outer = marks.base, marks.kept
    unit = tirx.FloorDiv(context.number, tirx.IntImm("int32", marks.unit)) * 2 + int(single)
    marks.base = context.writer.bind("marks_of_lane", marks.base + unit * (RECORDS * WORDS))
    first = tirx.EQ(tirx.FloorMod(context.number, tirx.IntImm("int32", marks.unit)), 0)
    few = None if marks.block is None else tirx.LT(marks.block, marks.blocks)
    kept = both(None if single else first, few)
    marks.kept = tirx.IntImm("bool", 1) if kept is None else context.writer.bind("kept", kept)
    # A lane's first record says on which multiprocessor its block is.
    where = T.cuda.func_call("septran_multiprocessor", source_code=WHERE, return_type="int64")
    _write(context, marks, Site("begin", "multiprocessor"), context.writer.bind("where", where))
    yield
    marks.base, marks.kept = outer


@contextmanager
def marked(context: Context, what: Node | str) -> Iterator[None]:
    """Take the time of what is written inside, if anything is."""
    marks = context.state.marks
    site = None if marks is None else _site(context, what)
    if marks is None or site is None or marks.kept is None:
        yield
        return
    with context.writer.body() as inside:
        yield
    # A wait that turned out to be none has no time.
    if not inside:
        return
    now = T.cuda.func_call("septran_now", source_code=NOW, return_type="int64")
    begun = context.writer.bind("begun", now)
    for statement in inside:
        context.writer.emit(statement)
    _write(context, marks, site, begun)


def _write(context: Context, marks: Marks, site: Site, begun: Any) -> None:
    number = marks.sites.setdefault(site, len(marks.sites) + 1)
    call = T.cuda.func_call(
        "septran_mark", marks.room.ptr_to([marks.base]), marks.kept,
        marks.count[context.writer.index(0)], number, begun, source_code=MARK,
    )  # fmt: skip
    context.writer.evaluate(call)


def _site(context: Context, what: Node | str) -> Site | None:
    """The site that a node is recorded as; None for nodes that take no time."""
    match what:
        case str():
            return Site("wait", what)
        case Copy():
            buffers = context.program.buffer
            into, out = (buffers(r.buffer).memory == "GLOBAL" for r in (what.source, what.target))
            kind = "in" if into and not out else "out" if out and not into else "copy"
            name = (what.target if kind == "out" else what.source).buffer
            return Site(kind, f"{what.engine} {name}", str(what.origin))
        case Compute():
            kind = "matrix" if what.primitive == "gemm" else "threads"
            return Site(kind, f"{what.primitive} {what.operands[0].buffer}", str(what.origin))
        case Wait():
            return Site("wait", f"wait {what.channel}", str(what.origin))
        case Acquire():
            return Site("wait", f"wait for a free stage of {what.channel}", str(what.origin))
        case Barrier():
            return Site("wait", "wait for all threads", str(what.origin))
        case _:
            return None
