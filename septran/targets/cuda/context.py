"""The state that every emitter needs: writer, buffers, threads, loop indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.emulator.launch import Argument, TensorMap
from septran.ir.index import Index, IndexLike, Var, product
from septran.targets.cuda.fragment.fragments import Fragment, Holding
from septran.targets.cuda.fragment.mathematics import CudaArithmetic
from septran.targets.cuda.state import KernelState
from septran.targets.cuda.writer import CudaWriter
from septran.targets.lower.indices import WritingScope
from septran.targets.lower.writer import Expr
from septran.tile.layouts import Layout
from septran.tile.nodes import Buffer, Remark, TileProgram

if TYPE_CHECKING:
    from septran.targets.cuda.emitter_table import CudaEmitters
    from septran.targets.cuda.sync.clusters import Cluster

LARGEST_SHARED = 1 << 18
"""Bytes that no block's shared memory reaches."""


@dataclass(frozen=True)
class Storage:
    """A buffer as the kernel holds it: flat, with the place of its first element."""

    name: str
    memory: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout
    flat: Any
    """The TensorIR buffer: all of GLOBAL's, a typed view of shared memory, a local array."""
    offset: IndexLike = 0
    """Elements of `flat` before the first one."""
    stage_elements: int = 0
    """Elements from one stage to the next."""
    fragment: Fragment | None = None
    """How it is spread over threads, in REGISTER."""
    exists: tuple[Index, ...] = ()
    """Its extents where some are known only when the kernel is called, as `Buffer.exists`."""

    @property
    def elements(self) -> Index:
        """The number of its elements, of a buffer in GLOBAL."""
        if self.exists:
            return reduce(product, self.exists, Index.of(1))
        return Index.of(int(self.flat.shape[0]))


@dataclass(frozen=True)
class Threads:
    """The threads that run a body together: a block's, or those of one role."""

    first: int
    count: int
    barrier: int = 0
    """Number of the named barrier on which they meet; 0 is the whole block's."""


@dataclass
class Scratch:
    """Shared memory at the end of a block's, for what threads exchange."""

    base: Var
    """Stands for its start, in chunks of 16 bytes from the start of shared memory."""
    variable: Any
    """What it is in the kernel; set when all else has its place."""
    size: int = 0
    used: int = 0
    dirty: bool = False
    """Whether some thread may still read what was put there last."""


def generation(program: TileProgram) -> int:
    """The number in ``sm_90a``; 0 where there is none."""
    return int("".join(c for c in program.machine.arch if c.isdigit()) or 0)


@dataclass
class Context(WritingScope):
    """The state of one kernel's lowering."""

    writer: CudaWriter
    program: TileProgram
    threads: Threads
    block: int
    """The number of threads of a block."""
    number: Any
    """The thread's number in its block."""
    shared: Any
    """Dynamic shared memory as bytes."""
    emitters: CudaEmitters
    """The table that says what writes each node."""
    cluster: Cluster
    """The loops whose iterations are the blocks of one cluster."""
    storages: dict[str, Storage] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    arguments: list[tuple[Argument, Any]] = field(default_factory=list)
    """Arguments of the kernel, with their TensorIR variables."""
    scratch: Scratch | None = None
    """Scratch memory of the threads that run the current body."""
    scratches: list[Scratch] = field(default_factory=list)
    """The scratch memory of all bodies of the kernel, which gets its place behind all else."""
    loops: dict[str, Index] = field(default_factory=dict)
    """The loop indices of the program that are in scope, by name."""
    remarks: list[Remark] = field(default_factory=list)
    holdings: list[Holding] = field(default_factory=list)
    """How REGISTER buffers are spread over threads, for those who ask."""
    opening: list[Any] = field(default_factory=list)
    """Statements at the kernel's start, where shared memory is known already."""
    state: KernelState = field(default_factory=KernelState)
    """What emitters remember from node to node."""
    views: dict[str, Any] = field(default_factory=dict)
    """Typed views of shared memory."""
    shared_bytes: int = 0
    """Bytes of shared memory that have been handed out so far."""
    thread: Index = field(default_factory=Index)
    """The number of the thread in `threads`."""
    _parts: dict[tuple[Fragment, int], Index] = field(default_factory=dict)

    @property
    def generation(self) -> int:
        """The architecture's number, such as 90."""
        return generation(self.program)

    @property
    def arithmetic(self) -> CudaArithmetic:
        """Functions of elements, written here."""
        return CudaArithmetic(self.writer)

    def buffer(self, name: str) -> Buffer:
        """The buffer of the tile program."""
        return self.program.buffer(name)

    def alias(self, variable: Var, value: Index) -> None:
        """Let a loop index of the program stand for `value` from now on."""
        super().alias(variable, value)
        self.loops[variable.name] = Index.of(variable)

    def sync(self) -> None:
        """All threads of the body meet, and see what the others wrote."""
        threads = self.threads
        if threads.count == self.block:
            self.writer.evaluate(T.cuda.cta_sync())
        elif threads.count <= 32:
            self.writer.evaluate(T.cuda.warp_sync())
        else:
            # Barrier 0 is that of all threads (PTX ISA, bar): those of a role have one of their
            # own.
            bar, count = T.uint32(threads.barrier), T.uint32(threads.count)
            self.writer.evaluate(T.ptx["bar.sync"](bar, count))
        if self.scratch is not None:
            self.scratch.dirty = False

    def unsettle(self) -> None:
        """From here on it is not known whether some thread still reads scratch memory."""
        if self.scratch is not None:
            self.scratch.dirty = True

    @contextmanager
    def role(self, threads: Threads) -> Iterator[None]:
        """Write code that only `threads` run in the context; the caller writes the branch."""
        outer = self.threads, self.thread, self.scratch, self._parts
        self.threads, self._parts = threads, {}
        number = self.number
        if threads.first:
            number = self.writer.bind("thread", number - self.writer.index(threads.first))
        self.thread = self.indices.fresh(number, 0, threads.count - 1)
        # Only a name for now: how much the role needs, and where that lies, is known at the end.
        name = self.writer.name("scratch")
        self.scratch = Scratch(Var(f"@{name}"), tirx.Var(name, "int32"))
        self.indices.bind(self.scratch.base, self.scratch.variable, 0, LARGEST_SHARED // 16)
        self.scratches.append(self.scratch)
        yield
        self.threads, self.thread, self.scratch, self._parts = outer

    def reserve(self, size: int, alignment: int = 16) -> int:
        """Bytes of shared memory for the whole kernel; their offset."""
        at = -(-self.shared_bytes // alignment) * alignment
        self.shared_bytes = at + size
        return at

    def shared_view(self, dtype: str) -> Any:
        """All of shared memory as elements of a type, from byte 0 on."""
        if dtype not in self.views:
            self.views[dtype] = tirx.decl_buffer(
                (self.shared.shape[0],), dtype, self.writer.name(f"shared_{dtype}"),
                data=self.shared.data, scope="shared.dyn", layout=None,
            )  # fmt: skip
        return self.views[dtype]

    def part(self, fragment: Fragment, axis: int) -> Index:
        """Return what a thread's number adds to a coordinate, computed once in each role."""
        key = (fragment, axis)
        if key not in self._parts:
            total = Index()
            for digit, weight in fragment.weighted(axis):
                if digit.place == "thread":
                    total = total + self.thread // digit.stride % digit.extent * weight
            self._parts[key] = total
        return self._parts[key]

    def tensor_map(self, wanted: TensorMap) -> Any:
        """The kernel argument for a tensor map; equal ones are shared."""
        for argument, variable in self.arguments:
            # Alike but for the name: each map is 128 bytes of parameters, and one descriptor to
            # fetch.
            if isinstance(argument, TensorMap) and replace(argument, name=wanted.name) == wanted:
                return variable
        name = self.writer.name(wanted.name)
        variable = tirx.Var(name, T.handle("tensormap").ty)
        self.arguments.append((replace(wanted, name=name), variable))
        return variable

    def remark(self, kind: str, about: str, message: str, hint: str | None = None) -> None:
        """A decision of the code generator, or something that was not done, and why."""
        found = Remark(kind, about, message, hint, None, "cuda")
        if found not in self.remarks:
            self.remarks.append(found)

    def first(self, attributes: Mapping[str, Any]) -> Expr | bool:
        """Whether a gemm overwrites its accumulator now: in the first trip of the loop it names."""
        name = attributes.get("first")
        if name is None:
            return False
        if name == "" or name not in self.loops:
            return True
        index = self.indices.simplify(self.loops[name])
        if index.is_constant:
            return index.constant == 0
        return self.lower(index) == self.writer.index(0)


def shared_storage(context: Context, buffer: Buffer, offset_bytes: int) -> Storage:
    """A SHARED buffer at a byte of shared memory, its stages aligned as the plan has them."""
    size = itemsize(buffer.dtype)
    alignment = context.program.machine.memory(buffer.memory).alignment
    stage = buffer.layout.elements(buffer.shape, size) * size
    # Swizzles, boxes and descriptors count from a stage's start as from the buffer's.
    if buffer.stages > 1:
        stage = -(-stage // alignment) * alignment
    return Storage(
        buffer.name, buffer.memory, buffer.shape, buffer.dtype, buffer.layout,
        context.shared_view(buffer.dtype), offset_bytes // size, stage // size,
    )  # fmt: skip
