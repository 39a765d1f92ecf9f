"""Nests of parallel loops as kernels with their grids, and a program as launches of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from septran.dtypes import itemsize
from septran.emulator.launch import KernelLaunch, Pointer, ScalarArgument
from septran.ir.index import Index
from septran.targets.cuda.context import Context, Storage, Threads, generation, shared_storage
from septran.targets.cuda.dialect import Dialect, of_generation
from septran.targets.cuda.emitter_table import EMITTERS, CudaEmitters
from septran.targets.cuda.fragment.fragments import GROUP, Holding
from septran.targets.cuda.lowering import elements, enter, own, uniform
from septran.targets.cuda.run import instrumentation as marks
from septran.targets.cuda.run.facts import RESERVED, unit_limits
from septran.targets.cuda.state import KernelState
from septran.targets.cuda.sync.channels import end
from septran.targets.cuda.sync.clusters import Cluster
from septran.targets.cuda.sync.roles import block_threads, hoisted, prepare
from septran.targets.cuda.text.names import identifier
from septran.targets.cuda.text.ptx import ptx
from septran.targets.cuda.unsupported import unsupported
from septran.targets.cuda.writer import CudaWriter
from septran.targets.index_width import index_dtype
from septran.targets.lower.indices import Indices
from septran.targets.lower.writer import both, flat_buffer, sequence
from septran.targets.registry import require_emitters
from septran.tile.analyses.indirect import indirect
from septran.tile.analyses.loops import used
from septran.tile.nodes import For, Node, Remark, TileProgram
from septran.tile.substitution import substitute


def grid(body: tuple[Node, ...]) -> tuple[list[For], tuple[Node, ...]]:
    """The parallel loops around a body whose iterations are blocks, and what is in them."""
    loops: list[For] = []
    while len(body) == 1:
        (node,) = body
        if not (isinstance(node, For) and node.kind == "parallel"):
            break
        if node.processor is None and loops and loops[-1].processor is not None:
            break  # the turns of one block
        if node.processor in ("WARPGROUP", "WARP", "THREAD"):
            raise unsupported(
                node.origin, f"parallel loops over {node.processor} are not written yet"
            )
        loops.append(node)
        body = node.body
    return loops, body


HOPPER = 90
"""The first one where a kernel may start before the last one has ended (`griddepcontrol`)."""
MOST_HELD = 64
"""Elements of one buffer that a thread holds before a block gets more threads."""
MOST_THREADS = 1024
"""Threads of a block on every architecture (CUDA programming guide, compute capabilities)."""


@dataclass(frozen=True)
class LoweredNest:
    """A lowered nest."""

    function: Any
    """The kernel as a TensorIR PrimFunc that runs on the device."""
    launch: KernelLaunch
    remarks: tuple[Remark, ...] = ()
    """What the code generator decided, or could not do."""
    holdings: tuple[Holding, ...] = ()
    """How its REGISTER buffers are spread over threads."""


@dataclass(frozen=True)
class GpuVendor:
    """What the kernels of one vendor's GPUs are written with."""

    emitters: CudaEmitters
    dialect: Dialect
    dependent: bool = False
    """Whether a kernel may start before the last one has ended, and waits for that itself."""

    @staticmethod
    def nvidia(program: TileProgram) -> GpuVendor:
        """NVIDIA's, of the generation that the machine names."""
        number = generation(program)
        return GpuVendor(EMITTERS, of_generation(number), number >= HOPPER)


def lower_kernels(
    program: TileProgram, target: Any, notes: list[marks.Marks] | None = None,
    vendor: GpuVendor | None = None,
) -> list[LoweredNest]:  # fmt: skip
    """Each nest of parallel loops as a kernel, in the order of the program.

    With `notes`, kernels take notes of when they do what; those of each are appended.
    """
    vendor = vendor or GpuVendor.nvidia(program)
    require_emitters(program.machine, vendor.emitters.copies, vendor.emitters.primitives)
    found = list(_nests(program.body))
    names = [program.name if len(found) == 1 else f"{program.name}_{n}" for n in range(len(found))]
    kernels: list[LoweredNest] = []
    for number, (name, body) in enumerate(zip(names, found, strict=True)):
        taken = None
        if notes is not None:
            notes.append(taken := marks.Marks(sum(m.words for m in notes)))
        kernel = _Kernel(program, f"{identifier(name)}_kernel", body, (target, vendor))
        kernel.dependent = number > 0 and vendor.dependent
        kernels.append(kernel.lower(taken))
    return kernels


def _nests(body: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Yield what is launched: parallel loops one by one, sequential loops around them unrolled."""
    for node in body:
        if isinstance(node, For) and node.kind != "parallel":
            if not node.extent.is_constant:
                raise unsupported(
                    node.origin,
                    f"kernels are launched {node.extent} times, which is known only in a call",
                    "make the loop part of a task that a BLOCK runs, or leave out of dynamic what "
                    "it counts",
                )
            for trip in range(node.extent.as_int()):
                values = {node.variable: Index.of(trip)}
                yield from _nests(tuple(substitute(n, values) for n in node.body))
        else:
            yield (node,)


class _Kernel:
    def __init__(
        self, program: TileProgram, name: str, body: tuple[Node, ...], kind: tuple[Any, GpuVendor]
    ) -> None:
        self.program, self.name = program, name
        self.target, vendor = kind
        self.dialect = vendor.dialect
        self.dependent = False
        """Whether it is launched while the kernel before it ends."""
        self.loops, inside = grid(body)
        self.body = hoisted(inside)
        self.tables = indirect(body)
        """What chooses rows or counts iterations, those of the grid's own loops among them."""
        block = threads(program, self.body, self.dialect.group)
        if block > MOST_THREADS:
            raise unsupported(
                self.body[0].origin,
                f"{name} needs {block:,} threads a block, and there are at most {MOST_THREADS:,}",
                "ask for fewer `consumers`",
            )
        self.writer = CudaWriter(index_dtype(program), self.dialect)
        self.block, self.thread = tirx.Var("block", "int32"), tirx.Var("tid", "int32")
        shared = flat_buffer("shared", _shared_bytes(program), "uint8", 1024, "shared.dyn")
        indices = Indices(self.writer, explicit=True)
        self.context = Context(
            self.writer, indices, program, Threads(0, block), block, self.thread, shared,
            vendor.emitters, Cluster.of(self.loops), state=KernelState(uniform(program)),
        )  # fmt: skip

    def lower(self, taken: marks.Marks | None = None) -> LoweredNest:
        """Write it."""
        context, names = self.context, used(self.body)
        # Index maps read them where no node names them: they are parameters, too.
        head = self._parameters(names.union(self.tables))
        for name in self.tables:
            flat = context.storages[name].flat
            context.indices.tables[name] = flat, self.program.buffer(name).extents
        grid = self._decode()
        # Before `prepare`, which reserves the mbarriers behind the last tile of the plan.
        self._place_shared(names)
        prepare(context, self.body)
        head += self._wait()
        head += marks.begin(context, taken, self.block, grid)
        guards = [self._guard(loop) for loop in self.loops]
        with self.writer.body() as inside, self._lane():
            enter(context, context.threads, self.body)
            with marks.marked(context, "wait for stores"):
                end(context)
        with self.writer.when(both(*guards)):
            for statement in inside:
                self.writer.emit(statement)
        head += self._tail()
        return self._function(head, grid)

    def _wait(self) -> list[Any]:
        """Wait for the kernel before: all that it wrote is visible from there on.

        That one does not say when this one may start (`griddepcontrol.launch_dependents`), so that
        it starts as blocks of that one end: early enough not to wait for the launch, and its own
        blocks take no room before. On an H100 both ways were timed, and this one is 2 to 5 % faster
        than to launch one after another, the other way no faster than that.
        """
        if not self.dependent:
            return []
        with self.writer.body() as found:
            ptx(self.context, "griddepcontrol.wait")
        return list(found)

    def _lane(self) -> AbstractContextManager[None]:
        """All threads do the same, unless there are roles: those have lanes of their own."""
        if self.context.state.roles:
            return nullcontext()
        return marks.lane(self.context, "warpgroup", self.context.threads)

    def _parameters(self, names: frozenset[str]) -> list[Any]:
        """Pointers to what it uses in GLOBAL, then the scalars."""
        context, head = self.context, []
        for buffer in self.program.buffers:
            if buffer.memory != "GLOBAL" or buffer.name not in names:
                continue
            name = self.writer.name(identifier(buffer.name))
            kind = tvm.ir.PointerType(tvm.ir.PrimType(buffer.dtype))
            pointer = tirx.Var(name, kind)
            size = buffer.layout.elements(buffer.shape, itemsize(buffer.dtype))
            flat = tirx.decl_buffer(
                (size,), buffer.dtype, f"{name}_flat", data=pointer, layout=None
            )
            head.append(tirx.DeclBuffer(flat, data=pointer))
            context.arguments.append((Pointer(buffer.name, buffer.dtype, name), pointer))
            context.storages[buffer.name] = Storage(
                buffer.name, buffer.memory, buffer.shape, buffer.dtype, buffer.layout, flat,
                exists=buffer.exists,
            )  # fmt: skip
        for scalar in self.program.scalars:
            variable = tirx.Var(self.writer.name(identifier(scalar.name)), scalar.dtype)
            context.scalars[scalar.name] = variable
            context.arguments.append((ScalarArgument(scalar.name, scalar.dtype), variable))
        kind = self.writer.index_dtype
        for told in self.program.sizes():
            variable = tirx.Var(self.writer.name(identifier(told.name)), kind)
            context.indices.sizes[told] = variable
            context.arguments.append((ScalarArgument(told.name, kind), variable))
        return head

    def _decode(self) -> int:
        """The loop indices from the number of the block."""
        context = self.context
        sizes = [context.indices.bounds(loop.extent)[1] for loop in self._ranged()]
        total = math.prod(sizes)
        rest = context.indices.fresh(self.block, 0, total - 1)
        values: list[Index] = []
        # The innermost loop goes fastest: the blocks of a cluster have neighbouring numbers.
        for number, size in reversed(list(enumerate(sizes))):
            if not number:  # all that is left
                values.insert(0, rest % size)
            elif _told(self.loops[number].extent):
                above = math.prod(sizes[:number])
                value, rest = self._divided(rest, self.loops[number].extent, size, above)
                values.insert(0, value)
            else:
                values.insert(0, rest % size)
                rest = rest // size
        for loop, value in zip(self.loops, values, strict=True):
            context.alias(loop.variable, context.variable(loop.variable.name, value))
        return total

    def _divided(self, rest: Index, extent: Index, most: int, above: int) -> tuple[Index, Index]:
        """The remainder and the quotient of a block's number by an extent that a call tells."""
        context, writer = self.context, self.writer
        number = context.lower(rest)
        # An extent of 0 has no block, but one block there is.
        by = writer.bind("extent", tirx.Max(context.lower(extent), writer.index(1)))
        value = writer.bind("i", tirx.truncmod(number, by))
        rest = writer.bind("rest", tirx.truncdiv(number, by))
        fresh = context.indices.fresh
        return fresh(value, 0, max(0, most - 1)), fresh(rest, 0, max(0, above - 1))

    def _blocks(self) -> str:
        """The number of blocks as arithmetic over what a call tells; empty where it is fixed."""
        if not any(_told(loop.extent) for loop in self.loops):
            return ""
        bounds = self.context.indices.bounds
        parts = [
            str(loop.extent) if _told(loop.extent) else str(bounds(loop.extent)[1])
            for loop in self.loops
        ]
        return "*".join(f"({part})" for part in parts)

    def _ranged(self) -> Iterator[For]:
        """The loops, each with the ranges of those around it known."""
        for loop in self.loops:
            yield loop
            top = self.context.indices.bounds(loop.extent)[1]
            self.context.indices.ranges[loop.variable] = (0, max(0, top - 1))

    def _guard(self, loop: For) -> Any:
        """Whether an iteration exists, for loops whose extent depends on others."""
        return self.context.indices.below(loop.variable, loop.extent)

    def _place_shared(self, names: frozenset[str]) -> None:
        """SHARED buffers where the plan has them."""
        places = {p.buffer: p for p in self.program.plan if p.memory == "SHARED"}
        for name in sorted(names & places.keys()):
            buffer, place = self.program.buffer(name), places[name]
            self.context.storages[name] = shared_storage(self.context, buffer, place.offset_bytes)
            end = place.offset_bytes + place.size_bytes
            self.context.shared_bytes = max(self.context.shared_bytes, end)

    def _tail(self) -> list[Any]:
        """Return the declarations known only at the end: shared memory, its views, scratch."""
        context, found = self.context, []
        for scratch in context.scratches:
            # Bodies are all written: how much each role puts there is known.
            at = context.reserve(scratch.size)
            found.append(tirx.Bind(scratch.variable, tirx.IntImm("int32", at // 16)))
        limit = context.program.machine.memory("SHARED").capacity_bytes
        if limit is not None and context.shared_bytes > limit:
            raise unsupported(
                self.body[0].origin,
                f"{self.name} needs {context.shared_bytes:,} bytes of shared memory of {limit:,}, "
                "with what its threads exchange",
                "lower `pipeline`, or the tunables that set the shapes of its tiles",
            ).of("SHARED", context.shared_bytes, limit)
        if not (context.views or context.opening or context.shared_bytes):
            return found
        views = [tirx.DeclBuffer(v, data=context.shared.data) for v in context.views.values()]
        return [tirx.AllocBuffer(context.shared), *views, *context.opening, *found]

    def _function(self, head: list[Any], grid: int) -> LoweredNest:
        context = self.context
        body = sequence([*head, *self.writer.written])
        body = _extent(self.thread, "threadIdx.x", context.block, body)
        body = _extent(self.block, "blockIdx.x", grid, body)
        # 2 is TVM's CallingConv::kDeviceKernelLaunch.
        attributes = {
            "global_symbol": self.name, "tirx.noalias": True, "calling_conv": 2,
            "target": self.target, "tirx.is_global_func": True,
        }  # fmt: skip
        # `setmaxnreg` counts on one block to a multiprocessor, with all of its registers.
        beside = 1 if context.state.alone else self._beside()
        if beside is not None:
            attributes["tirx.launch_bounds_min_blocks_per_sm"] = beside
        attrs = tvm.ir.make_node("ir.DictAttrs", **attributes)
        function = tirx.PrimFunc([v for _, v in context.arguments], body, attrs=attrs)
        arguments = tuple(a for a, _ in context.arguments)
        size = context.cluster.size
        launch = KernelLaunch(
            self.name, grid, context.block, size, context.shared_bytes, arguments,
            told=self._blocks(), dependent=self.dependent,
        )  # fmt: skip
        return LoweredNest(function, launch, tuple(context.remarks), tuple(context.holdings))

    def _beside(self) -> int | None:
        """Blocks that a multiprocessor holds, where each thread may have the most registers.

        That is where shared memory lets so few be there. ptxas does not know of it, and would
        rather spill than leave registers to blocks that do not come.
        """
        limits = unit_limits(self.program.machine)
        if not limits or not self.context.shared_bytes:
            return None
        count = max(1, limits["shared"] // (self.context.shared_bytes + RESERVED))
        fits = count * self.context.block * self.dialect.most_registers <= limits["registers"]
        return count if fits else None


def _told(extent: Index) -> bool:
    """Whether an extent follows from those that a call tells, and from no element of a tensor."""
    # What an element counts, blocks alone can read: as many start as there may be.
    if extent.variables() or any(True for _ in extent.elements()):
        return False
    return any(True for _ in extent.sizes())


def _extent(variable: Any, tag: str, extent: int, body: Any) -> Any:
    axis = tirx.IterVar(tvm.ir.Range(0, extent), variable, tirx.IterVar.ThreadIndex, tag)
    return tirx.AttrStmt(axis, "thread_extent", tirx.IntImm("int32", extent), body)


def threads(program: TileProgram, body: tuple[Node, ...], group: int = GROUP) -> int:
    """Return the threads of a block: those of its roles, or by what it holds in registers."""
    if (found := block_threads(program, body)) is not None:
        return found
    names = used(tuple(own(body)))
    held = tuple(b for b in program.buffers if b.memory == "REGISTER" and b.name in names)
    groups = [p.count for p in program.machine.processors if p.name == "WARPGROUP"]
    most = group * (groups[0] if groups else 1)
    count = group
    # Powers of two, as fragments share out no other number of threads (`spread`).
    while count < most and elements(held) > MOST_HELD * count:
        count *= 2
    return count


def _shared_bytes(program: TileProgram) -> int:
    memory = next((m for m in program.machine.memories if m.name == "SHARED"), None)
    return (memory.capacity_bytes if memory is not None else None) or (1 << 16)
