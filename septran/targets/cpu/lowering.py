"""From a tile program to TensorIR: each node by the emitter of its kind and instruction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from septran.dtypes import itemsize
from septran.errors import TargetError
from septran.targets.cpu.addresses import Indices, Storage
from septran.targets.cpu.context import Context
from septran.targets.cpu.copies import emit_copy
from septran.targets.cpu.elements import held_dtype
from septran.targets.cpu.fill import emit_fill
from septran.targets.cpu.isa import vector_unit
from septran.targets.cpu.microkernel import EXACT_STEPS, emit_gemm
from septran.targets.cpu.writer import Writer, flat_buffer
from septran.tile.loops import trips, used, walk
from septran.tile.nodes import Buffer, Compute, Copy, For, Node, TileProgram, regions

Emitter = Callable[[Context, Compute], None]
EMITTERS: Mapping[str, Emitter] = {"gemm": emit_gemm, "fill": emit_fill}
"""By primitive: what each instruction of a CPU implements."""

LARGEST_INDEX = 2**31 - 1
SLACK_BYTES = 256
"""Behind each owned buffer, so that a whole vector may be read at its end."""
PARALLEL_WORK = 1 << 15
"""Operations below which waking other threads costs more than it saves."""


class UnsupportedNodeError(TargetError):
    """A node of the tile program means nothing to a CPU."""

    code = "SEP510"


def lower_program(program: TileProgram) -> Any:
    """The PrimFunc of `program`: parameters in its order, then its scalars."""
    wide = any(math.prod(b.shape) * b.stages > LARGEST_INDEX for b in program.buffers)
    writer = Writer("int64" if wide else "int32")
    context = Context(writer, Indices(writer), program.machine, vector_unit(program.machine))
    params = [_parameter(context, program.buffer(name)) for name in program.params]
    scalars = [tirx.Var(writer.name(s.name), s.dtype) for s in program.scalars]
    context.scalars.update(zip((s.name for s in program.scalars), scalars, strict=True))
    _Lowering(program, context).run()
    return writer.function(program.name, [*params, *scalars])


def _parameter(context: Context, buffer: Buffer) -> Any:
    """Declare a parameter in its own shape, and flat beside it for what is generated."""
    name = context.writer.name(buffer.name)
    param = tirx.decl_buffer(buffer.shape, buffer.dtype, name, data_alignment=1)
    held = held_dtype(buffer.dtype)
    flat = flat_buffer(f"{name}_flat", math.prod(buffer.shape), held, alignment=1)
    context.writer.emit(tirx.DeclBuffer(flat, data=param.data))
    context.storages[buffer.name] = Storage(
        buffer.name, buffer.shape, buffer.dtype, buffer.layout, flat, held
    )
    return param


@dataclass
class _Lowering:
    program: TileProgram
    context: Context
    private: dict[For, list[str]] = field(default_factory=dict)
    """For each loop that is spread over cores, the buffers that only it uses."""

    def run(self) -> None:
        """The whole body, after the buffers that no parallel loop has to itself."""
        for name in [b.name for b in self.program.buffers if b.name not in self.program.params]:
            users = {
                loops[0] if (loops := _spreading(around, node)) else None
                for node, around in walk(self.program.body)
                if not isinstance(node, For) and name in used((node,))
            }
            owner = users.pop() if len(users) == 1 else None
            if owner is None:
                self._allocate(name)
            else:
                self.private.setdefault(owner, []).append(name)
        self._body(self.program.body)

    def _allocate(self, name: str) -> None:
        """Room for a buffer and for the rest of a vector behind it."""
        buffer = self.program.buffer(name)
        held = self._held(buffer)
        elements = buffer.layout.elements(buffer.shape) * buffer.stages
        slack = SLACK_BYTES // itemsize(held)
        flat = self.context.writer.allocate(name, elements + slack, held)
        self.context.storages[name] = Storage(
            name, buffer.shape, buffer.dtype, buffer.layout, flat, held, owned=True
        )

    def _held(self, buffer: Buffer) -> str:
        """Short types that only gemm reads are widened once, when they are packed."""
        wide = {"float16", "bfloat16", *EXACT_STEPS}
        if buffer.dtype in wide and _only_for_gemm(self.program.body, buffer.name):
            return "float32"
        return held_dtype(buffer.dtype)

    def _body(self, body: tuple[Node, ...]) -> None:
        for node in body:
            match node:
                case For():
                    self._loop(node)
                case Copy(channel=None):
                    with self.context.writer.note(str(node.origin)):
                        emit_copy(self.context, node)
                case Compute():
                    with self.context.writer.note(str(node.origin)):
                        EMITTERS[node.primitive](self.context, node)
                case _:
                    what = type(node).__name__.lower()
                    raise UnsupportedNodeError(
                        f"a {what} has no meaning on {self.program.machine.name}",
                        node.origin.mapping or node.origin.logic,
                        hint="its copies are complete when they return",
                    )

    def _loop(self, loop: For) -> None:
        if _spreads(loop) and not self.context.parallel:
            self._parallel(loop)
            return
        with self.context.loop(loop.variable.name, loop.extent) as index:
            self.context.alias(loop.variable, index)
            self._body(loop.body)

    def _parallel(self, loop: For) -> None:
        """A nest of parallel loops, as one loop whose iterations the threads share."""
        nest = _nest(loop)
        total = loop.extent * math.prod(inner.extent.as_int() for inner in nest[1:])
        spread = _work(loop) >= PARALLEL_WORK
        with self.context.loop("unit", total, spread) as unit:
            for inner in reversed(nest[1:]):
                size = inner.extent.as_int()
                self.context.alias(inner.variable, self.context.variable("i", unit % size))
                unit = self.context.variable("i", unit // size)
            self.context.alias(loop.variable, unit)
            for name in self.private.get(loop, ()):
                self._allocate(name)
            self._body(nest[-1].body)


def _spreads(node: Node) -> bool:
    return isinstance(node, For) and node.kind == "parallel" and node.processor is not None


def _spreading(around: tuple[For, ...], node: Node) -> tuple[For, ...]:
    return tuple(loop for loop in around if _spreads(loop))


def _nest(loop: For) -> list[For]:
    """The loop and the parallel ones directly in it whose extents are fixed."""
    nest = [loop]
    while len(nest[-1].body) == 1:
        inner = nest[-1].body[0]
        if not (isinstance(inner, For) and _spreads(inner) and inner.extent.is_constant):
            break
        nest.append(inner)
    return nest


def _work(loop: For) -> int:
    """About how many operations all iterations do together."""
    total = 0
    for node, around in walk((loop,)):
        if isinstance(node, Compute | Copy):
            each = max((math.prod(r.shape) for r in regions(node)), default=0)
            if isinstance(node, Compute) and node.primitive == "gemm":
                each *= node.operands[1].shape[1]
            total += each * trips(around)
    return total


def _only_for_gemm(body: tuple[Node, ...], name: str) -> bool:
    """Whether a buffer is only filled by copies of its type and read by gemm."""
    for node, _ in walk(body):
        if isinstance(node, Copy) and node.source.buffer == name:
            return False
        if isinstance(node, Compute) and any(r.buffer == name for r in node.operands):
            gemm = node.primitive == "gemm" and node.operands[0].buffer != name
            if not gemm:
                return False
    return True
