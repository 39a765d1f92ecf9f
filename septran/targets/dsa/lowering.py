"""From a tile program to TensorIR: one PrimFunc that is a core's control program.

Its parameters are the core's number, the program's parameters, the temporaries in main
memory (`steps.workspaces`), the tensors of indices once more (it reads their elements itself,
to know what it asks for), the run-time scalars, and the extents that calls tell. A buffer in a
memory of the core is declared at ``dsa.pointer(memory, offset)``; what is done are the commands of
`commands`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from septran.dtypes import itemsize
from septran.ir.index import Index
from septran.simulator.queues import Queues
from septran.targets.dsa.channels import ARRIVED, FREE, FlagRing, Flags, flags
from septran.targets.dsa.context import Context, Storage, local_buffer
from septran.targets.dsa.copies import emit_copy
from septran.targets.dsa.dependences import Order, fenced, orders, synchronised
from septran.targets.dsa.matrix import emit_gemm
from septran.targets.dsa.steps import (
    Fence,
    Handover,
    QueuedWork,
    Step,
    StepLoop,
    Stepper,
    core_count,
    private,
    workspaces,
)
from septran.targets.dsa.transposed_operands import transpose_operands
from septran.targets.dsa.vectors import emit_map, emit_scan
from septran.targets.index_width import index_dtype
from septran.targets.lower.indices import Indices
from septran.targets.lower.writer import Writer, flat_buffer
from septran.tile.analyses.indirect import indirect
from septran.tile.analyses.temporaries import shared_with_buffers
from septran.tile.nodes import (
    Acquire,
    Buffer,
    Commit,
    Compute,
    Copy,
    For,
    Release,
    TileProgram,
    Wait,
    nodes,
    regions,
    writes,
)

EMITTERS: Mapping[str, Callable[[Context, Compute, int], None]] = {
    "gemm": emit_gemm,
    "map": emit_map,
    "fill": emit_map,
    "copy": emit_map,
    "scan": emit_scan,
}
"""By primitive."""


def lower_program(program: TileProgram) -> Any:
    """The PrimFunc of `program`; raises TargetError with the origin of the node."""
    # Before workspaces are counted: a transposed buffer has the same bytes, but other runs.
    program = transpose_operands(program)
    extra = workspaces(program)
    writer = Writer(index_dtype(program, (size for _, size in extra)))
    core = tirx.Var(writer.name("core"), "int32")
    queues = Queues(program.machine)
    context = Context(writer, Indices(writer), program.machine, queues)
    # What no computation writes keeps the zeros that its fills wrote beyond the tensor's end.
    context.whole_blocks = _copied_only(program)
    context.starts = shared_with_buffers(program)
    kind = writer.index_dtype
    sizes = {size: tirx.Var(writer.name(size.name), kind) for size in program.sizes()}
    context.indices.sizes.update(sizes)
    params = [_parameter(context, program.buffer(name)) for name in program.params]
    for name, size in extra:
        params.append(_workspace(context, program, program.buffer(name), size, core))
    params += [_table(context, program.buffer(name)) for name in indirect(program.body)]
    scalars = [tirx.Var(writer.name(s.name), s.dtype) for s in program.scalars]
    context.scalars.update(zip((s.name for s in program.scalars), scalars, strict=True))
    _Lowering.of(program, context, core).run()
    return writer.function(program.name, [core, *params, *scalars, *sizes.values()])


def _copied_only(program: TileProgram) -> frozenset[str]:
    """The buffers that no computation writes."""
    found = {b.name for b in program.buffers}
    for node in nodes(program.body):
        if isinstance(node, Compute):
            found -= {region.buffer for region in writes(node)}
    return frozenset(found)


def _parameter(context: Context, buffer: Buffer) -> Any:
    """Declare a parameter in its own shape, and flat beside it for what is generated."""
    name = context.writer.name(buffer.name)
    param = tirx.decl_buffer(buffer.shape, buffer.dtype, name, data_alignment=1)
    flat = flat_buffer(f"{name}_flat", math.prod(buffer.shape), buffer.dtype, alignment=1)
    context.writer.emit(tirx.DeclBuffer(flat, data=param.data))
    context.storages[buffer.name] = Storage(buffer, flat)
    return param


def _table(context: Context, buffer: Buffer) -> Any:
    """A tensor of indices, as the control program reads it."""
    size = math.prod(buffer.shape)
    param = flat_buffer(context.writer.name(buffer.name), size, buffer.dtype, alignment=1)
    context.indices.tables[buffer.name] = param, buffer.extents
    return param


def _workspace(context: Context, program: TileProgram, buffer: Buffer, size: int, core: Any) -> Any:
    """A temporary in main memory; each core has its own part of one that it has to itself."""
    elements = size // itemsize(buffer.dtype)
    name = context.writer.name(buffer.name)
    param = flat_buffer(name, elements, buffer.dtype)
    cores = core_count(program)
    base = Index()
    if cores > 1 and private(program, buffer.name):
        own = context.indices.fresh(_core_index(context, core), 0, cores - 1)
        base = own * (elements // cores)
    context.storages[buffer.name] = Storage(buffer, param, base)
    return param


def _core_index(context: Context, core: Any) -> Any:
    dtype = context.writer.index_dtype
    return core if dtype == "int32" else tirx.Cast(dtype, core)


@dataclass
class _Lowering:
    program: TileProgram
    context: Context
    core: Any
    steps: tuple[Step, ...]
    flags: Flags
    orders: Mapping[Step, tuple[Order, ...]]
    spread: bool = False
    """Whether the loops around are dealt to the cores already."""
    cores: int = field(default=1)

    @staticmethod
    def of(program: TileProgram, context: Context, core: Any) -> _Lowering:
        cores = core_count(program)
        steps = Stepper(program, context.queues).body(program.body)
        if cores > 1:
            steps = fenced(program, steps)
        steps = synchronised(program, steps)
        found = flags(program, steps, context.queues)
        needed = orders(steps, found, context.queues)
        return _Lowering(program, context, core, steps, found, needed, cores=cores)

    def run(self) -> None:
        """Buffers, free slots, the body, and the flags that are left."""
        main = self.program.machine.main_memory.name
        for buffer in self.program.buffers:
            if buffer.memory != main:
                self._declare(buffer)
        with self.context.writer.body() as inside:
            self._slots("set_flag", "is free at first")
            self._body(self.steps)
            # No flag may stay set: the next kernel would find it.
            self._slots("wait_flag", "is free at last")
        # The temporaries that were used are known only now, but are declared before the body.
        for (memory, _), flat in self.context.temporaries.items():
            self.context.declare(flat, memory, self.context.starts.get(memory, 0))
        for statement in inside:
            self.context.writer.emit(statement)

    def _declare(self, buffer: Buffer) -> None:
        """A buffer at its place in a memory of the core."""
        place = next((p for p in self.program.plan if p.buffer == buffer.name), None)
        if place is None:
            raise TypeError(f"{buffer.name} has no place in {buffer.memory}")
        elements = buffer.layout.elements(buffer.shape) if buffer.shape else 1
        name = self.context.writer.name(buffer.name)
        flat = local_buffer(name, buffer.memory, elements * buffer.stages, buffer.dtype)
        self.context.declare(flat, buffer.memory, place.offset_bytes)
        self.context.storages[buffer.name] = Storage(buffer, flat)

    def _slots(self, command: str, what: str) -> None:
        """Count the flags of free slots up or down, once for each slot."""
        for ring in self.flags.rings:
            if not ring.handshake:
                continue
            text = f"every slot of {', '.join(ring.buffers)} {what}"
            with self.context.writer.origin(text):
                for peer in ring.peers:
                    numbers = self.flags.numbers[ring, FREE, peer, ring.queue]
                    for slot in range(numbers.count):
                        self.context.command(
                            command, src=peer, dst=ring.queue, flag=numbers.base + slot
                        )

    def _body(self, body: tuple[Step, ...]) -> None:
        for step in body:
            self._order(step)
            match step:
                case QueuedWork():
                    self._work(step)
                case Handover():
                    self._handover(step)
                case Fence():
                    what = "cores meet" if self.cores > 1 else "all queues end"
                    with self.context.writer.origin(f"{what}: {step.node.origin}"):
                        self.context.command("barrier" if self.cores > 1 else "sync")
                case StepLoop():
                    self._loop(step)

    def _order(self, step: Step) -> None:
        """Let queues wait for what the step depends on."""
        found = self.orders.get(step, ())
        together = [o for o in found if {o.before, o.after} & self.context.queues.synchronous]
        # A queue that has no flags is waited for by waiting for all of them.
        if together:
            with self.context.writer.origin("; ".join(dict.fromkeys(o.why for o in together))):
                self.context.command("sync")
            return
        for order in found:
            flag = self.flags.direct.get((order.before, order.after), 0)
            names = self.context.queues.names
            text = f"{names[order.after]} waits for {names[order.before]}: {order.why}"
            with self.context.writer.origin(text):
                ends = {"src": order.before, "dst": order.after, "flag": flag}
                self.context.command("set_flag", **ends)
                self.context.command("wait_flag", **ends)

    def _work(self, step: QueuedWork) -> None:
        touched = regions(step.node)
        with self._alone(), self.context.note(step.node), self.context.rows(touched):
            if isinstance(step.node, Copy):
                emit_copy(self.context, step.node, step.queue)
            else:
                EMITTERS[step.node.primitive](self.context, step.node, step.queue)

    @contextmanager
    def _alone(self) -> Any:
        """Write code outside of the loops over cores, which the first core alone runs."""
        if self.cores == 1 or self.spread:
            yield
        else:
            with self.context.writer.when(self.core == tirx.const(0, "int32")):
                yield

    def _handover(self, step: Handover) -> None:
        node = step.node
        ring = self.flags.ring(node.channel)
        if ring is None:
            return
        with self._alone(), self.context.note(node):
            match node:
                case Commit():
                    self._flags("set_flag", ring, ARRIVED, node.index)
                case Wait():
                    # A negative number is of a fill before the first, which nobody makes.
                    with self.context.when_positive(node.index + 1):
                        self._flags("wait_flag", ring, ARRIVED, node.index)
                case Release() if ring.handshake:
                    self._flags("set_flag", ring, FREE, node.index)
                case Acquire() if ring.handshake:
                    self._flags("wait_flag", ring, FREE, node.index)

    def _flags(self, command: str, ring: FlagRing, kind: str, fill: Index) -> None:
        for peer in ring.peers:
            pair = (ring.queue, peer) if kind == ARRIVED else (peer, ring.queue)
            flag = self.flags.numbers[ring, kind, *pair].of(fill)
            self.context.command(command, src=pair[0], dst=pair[1], flag=flag)

    def _loop(self, step: StepLoop) -> None:
        loop = step.node
        if loop.processor is not None and not self.spread:
            self._spread(step)
            return
        with self.context.loop(loop.variable.name, loop.extent) as index:
            self.context.alias(loop.variable, index)
            self._body(step.body)

    def _spread(self, step: StepLoop) -> None:
        """Deal a nest of loops over cores out, by its flat iteration number."""
        self.spread = True
        if self.cores == 1:
            self._loop(step)
        else:
            self._deal(step)
        self.spread = False

    def _deal(self, step: StepLoop) -> None:
        nest = [step]
        while len(nest[-1].body) == 1:
            inner = nest[-1].body[0]
            if not (isinstance(inner, StepLoop) and _over_cores(inner.node)):
                break
            fixed = all(s.node.extent.is_constant for s in nest)
            if not inner.node.extent.is_constant and not (fixed and _told(inner.node)):
                break
            nest.append(inner)
        # What varies counts slowest, wherever it is: the iterations of a nest are in any order.
        first = next((s for s in nest if not s.node.extent.is_constant), step)
        rest = [s for s in nest if s is not first]
        total = first.node.extent * math.prod(s.node.extent.as_int() for s in rest)
        core = _core_index(self.context, self.core)
        own = self.context.indices.fresh(core, 0, self.cores - 1)
        most = -(-self.context.indices.bounds(total)[1] // self.cores)
        last = self.context.lower(total + (self.cores - 1) - own)
        # Iterations own, own + cores, ...: ceil((total - own) / cores), never negative here.
        mine = tirx.truncdiv(last, self.context.writer.index(self.cores))
        with self.context.writer.loop("turn", mine) as variable:
            turn = self.context.indices.fresh(variable, 0, max(0, most - 1))
            flat = turn * self.cores + own
            for inner in reversed(rest):
                size = inner.node.extent.as_int()
                self.context.alias(inner.node.variable, self.context.variable("i", flat % size))
                flat = self.context.variable("i", flat // size)
            self.context.alias(first.node.variable, self.context.variable("i", flat))
            for inner in nest[1:]:
                # The inner loops are none any more, but what is ordered in front of them stays.
                self._order(inner)
            self._body(nest[-1].body)


def _over_cores(loop: For) -> bool:
    return loop.processor is not None and loop.kind == "parallel"


def _told(loop: For) -> bool:
    """Whether an extent follows from those that a call tells, and from no index around."""
    return not loop.extent.variables() and not any(True for _ in loop.extent.elements())
