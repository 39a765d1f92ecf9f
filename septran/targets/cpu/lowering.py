"""From a tile program to TensorIR: each node by the emitter of its engine or instruction.

A copy is written by ``emit(context, copy)``, computations by ``emit(context, nodes, private)``;
the one table of emitters is literal, in `emitter_table`. What they share is `Context`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.ir import StringImm

from septran.dtypes import itemsize
from septran.errors import TargetError
from septran.ir.index import Index, Var, axis, minimum
from septran.mapping.extern.name import EXTERN
from septran.targets.cpu.addresses import Storage
from septran.targets.cpu.context import Context
from septran.targets.cpu.emitter_table import EMITTERS
from septran.targets.cpu.gemm.computed import Computed, Rows, computed, few_rows
from septran.targets.cpu.gemm.group_dots import packed_in_groups
from septran.targets.cpu.gemm.microkernel import EXACT_STEPS
from septran.targets.cpu.gemm.prefetch import NextPack, next_packs
from septran.targets.cpu.map.elements import OTHER_SIGNS, held_dtype
from septran.targets.cpu.run.guards import emit_guards
from septran.targets.cpu.run.isa import vector_unit
from septran.targets.cpu.simd import fence
from septran.targets.cpu.writer import CpuWriter
from septran.targets.index_width import index_dtype
from septran.targets.lower.indices import Indices
from septran.targets.lower.writer import flat_buffer
from septran.targets.registry import require_emitters
from septran.tile.analyses.cpu_decisions import PARALLEL_WORK, streamed, work_of
from septran.tile.analyses.groups import pitch_in_place
from septran.tile.analyses.indirect import indirect
from septran.tile.analyses.loops import ranges, used, walk
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    TileProgram,
    reads,
    regions,
    tables,
    writes,
)

SLACK_BYTES = 256
"""Behind each owned buffer, so that a whole vector may be read at its end."""
ENOUGH_UNITS = 64
"""Iterations of a nest that all cores have enough of, mostly."""

UNIT = "unit"
"""The name of a nest's index where its iterations, the blocks, are shared by threads."""


class UnsupportedByCpuError(TargetError):
    """A node of the tile program means nothing to a CPU."""

    code = "SEP510"


def lower_program(program: TileProgram, writer: CpuWriter | None = None) -> Any:
    """The PrimFunc of `program`: parameters in its order, then its scalars.

    `writer` is a new one of a subclass where more is to be written than the kernel needs.
    """
    require_emitters(program.machine, EMITTERS.copies, EMITTERS.primitives)
    writer = writer or CpuWriter()
    writer.index_dtype = index_dtype(program)
    context = Context(writer, Indices(writer), program.machine, vector_unit(program.machine))
    declare_sizes(context, program)
    params = [_parameter(context, program, program.buffer(name)) for name in program.params]
    scalars = [tirx.Var(writer.name(s.name), s.dtype) for s in program.scalars]
    # Of all buffers, as some of them never get a storage.
    context.dtypes.update((b.name, b.dtype) for b in program.buffers)
    context.scalars.update(zip((s.name for s in program.scalars), scalars, strict=True))
    _check_sizes(context, program)
    emit_guards(context, program)
    lowering = _Lowering(program, context, indices=frozenset(indirect(program.body)))
    for name in sorted(lowering.indices & set(program.params)):
        lowering.has_indices(name)
    lowering.run()
    return writer.function(program.name, [*params, *scalars])


def declare_sizes(context: Context, program: TileProgram) -> None:
    """Declare a variable for each extent that is known only when the kernel is called.

    TVM sets it from the shape of the first tensor that has it, and compares the others with it.
    """
    for size in program.sizes():
        variable = tirx.Var(context.writer.name(size.name), context.writer.index_dtype)
        context.indices.sizes[size] = variable


def _check_sizes(context: Context, program: TileProgram) -> None:
    """Assert that no size is beyond what memory is set aside for, or below what is made use of."""
    for size in program.sizes():
        value = context.indices.sizes[size]
        inside = tirx.all(
            value >= context.writer.index(size.least), value <= context.writer.index(size.most)
        )
        words = StringImm(f"{size} is not in {size.least} to {size.most}")
        context.writer.emit(tirx.AssertStmt(inside, StringImm("ValueError"), [words]))


def _parameter(context: Context, program: TileProgram, buffer: Buffer) -> Any:
    """Declare a parameter in its own shape, and flat beside it for what is generated."""
    name = context.writer.name(buffer.name)
    # Callers' arrays lie anywhere: nothing may be concluded from their addresses.
    shape = [context.lower(extent) for extent in buffer.extents] if buffer.exists else buffer.shape
    param = tirx.decl_buffer(shape, buffer.dtype, name, data_alignment=1)
    held = held_dtype(buffer.dtype)
    flat = flat_buffer(f"{name}_flat", math.prod(buffer.shape), held, alignment=1)
    context.writer.emit(tirx.DeclBuffer(flat, data=param.data))
    context.storages[buffer.name] = Storage(
        buffer.name, buffer.shape, buffer.dtype, buffer.layout, flat, held,
        streamed=streamed(program, buffer), exists=buffer.exists,
    )  # fmt: skip
    return param


@dataclass
class _Lowering:
    program: TileProgram
    context: Context
    private: dict[For, list[str]] = field(default_factory=dict)
    """For each loop that is spread over cores, the buffers that only it uses."""
    temporary: dict[tuple[Node, ...], list[str]] = field(default_factory=dict)
    """For each group of neighbours, the buffers that only it uses."""
    nest: tuple[For, ...] = ()
    """The loops around, as far as their extents are known."""
    number: Index = field(default_factory=Index)
    """Number of their iteration, counted over all loops."""
    indices: frozenset[str] = frozenset()
    """The tensors whose elements choose rows or count iterations."""
    beside_computed: set[str] = field(default_factory=set)
    """Left operands of products whose right one is computed where it is multiplied."""

    def has_indices(self, name: str) -> None:
        """Let elements be read of a tensor, which has a place now."""
        extents = self.program.buffer(name).extents
        self.context.indices.tables[name] = self.context.storages[name].flat, extents

    def run(self) -> None:
        """The whole body, after the buffers that no loop or neighbourhood has to itself."""
        # Before anything is written: it decides which buffers are allocated here, outside of all
        # loops.
        self._find_private(self.program.body, None)
        inside = {n for names in (*self.private.values(), *self.temporary.values()) for n in names}
        for buffer in self.program.buffers:
            if buffer.name not in inside and buffer.name not in self.program.params:
                self._allocate(buffer.name)
        self._body(self.program.body)

    def _find_private(self, body: tuple[Node, ...], spread: For | None) -> None:
        """Note which buffers only one group of neighbours, or one parallel loop, uses."""
        for group in self._groups(body):
            own = self._only_in(group)
            if made := self._computed(group):
                self.temporary[group] = made.temporary
                self.beside_computed.add(made.gemm.operands[1].buffer)
                continue
            if isinstance(group[0], Compute) and group[0].primitive not in ("gemm", EXTERN):
                self.temporary[group] = [n for n in own if _starts_written(group, n)]
            elif isinstance(group[0], For):
                loop = group[0]
                if spread is None and _spreads(loop):
                    self.private[loop] = own
                self._find_private(loop.body, spread or (loop if _spreads(loop) else None))

    def _groups(self, body: tuple[Node, ...]) -> list[tuple[Node, ...]]:
        """The nodes of a body in groups that are written together."""
        found: list[tuple[Node, ...]] = []
        for group in groups(body):
            if found and self._computed((*found[-1], *group)):
                found[-1] += group
            else:
                found.append(group)
        return found

    def _computed(self, group: tuple[Node, ...]) -> Computed | None:
        """A group's gemm, where the nodes before it compute its B, and that behind it its result.

        What they hand over is nobody else's.
        """
        made = computed(self.program, group)
        if made is None or EMITTERS.of(made.gemm.instruction).emit_computed is None:
            return None
        mine = set(made.temporary) <= set(self._only_in(group))
        return made if mine and few_rows(self.context, made.gemm) else None

    def _only_in(self, group: tuple[Node, ...]) -> list[str]:
        """Names of the buffers that no node outside of `group` uses."""
        names = used(group) - set(self.program.params)
        mine, everywhere = _uses(group), _uses(self.program.body)
        return sorted(n for n in names if mine[n] == everywhere[n])

    def _allocate(self, name: str) -> None:
        """Room for a buffer and for the rest of a vector behind it."""
        buffer = self.program.buffer(name)
        held = self._held(buffer)
        elements = buffer.layout.elements(buffer.shape) * buffer.stages
        slack = SLACK_BYTES // itemsize(held)
        flat = self.context.writer.scratch(name, elements + slack, held)
        self.context.storages[name] = Storage(
            name, buffer.shape, buffer.dtype, buffer.layout, flat, held, owned=True,
            computed=_computed_in(self.program, name),
        )  # fmt: skip
        if name in self.indices:
            self.has_indices(name)

    def _held(self, buffer: Buffer) -> str:
        """Return what instructions that widen it read alone is widened once, when it is written."""
        # What is computed by groups of bytes is multiplied by groups of bytes.
        grouped = buffer.name in self.beside_computed and buffer.dtype in EXACT_STEPS
        own = buffer.name in self.indices or (grouped and _computed_in(self.program, buffer.name))
        wanted = "" if own else _wanted(self.program, buffer)
        if grouped and wanted == OTHER_SIGNS[buffer.dtype]:
            wanted = ""  # of both operands it is the computed one whose signs are changed
        return wanted or held_dtype(buffer.dtype)

    def _body(self, body: tuple[Node, ...]) -> None:
        for group in self._groups(body):
            match group[0]:
                case For() as loop:
                    self._loop(loop)
                case Copy(channel=None) as copy:
                    with (
                        self.context.writer.origin(str(copy.origin)),
                        self.context.rows(regions(copy)),
                    ):
                        EMITTERS.copies[copy.engine](self.context, copy)
                    self._fence(group)
                case Compute():
                    self._compute(group)
                case node:
                    what = type(node).__name__.lower()
                    raise UnsupportedByCpuError(
                        f"a {what} has no meaning on {self.program.machine.name}",
                        node.origin.mapping or node.origin.logic,
                        hint="its copies are complete when they return",
                    )

    def _compute(self, group: tuple[Node, ...]) -> None:
        nodes = [n for n in group if isinstance(n, Compute)]
        private = [self.program.buffer(n) for n in self.temporary.get(group, ())]
        made = self._computed(group)
        touched = [region for node in nodes for region in regions(node)]
        with (
            self.context.writer.origin("; ".join(dict.fromkeys(str(n.origin) for n in nodes))),
            self.context.rows(touched),
        ):
            main = made.gemm if made else nodes[-1]
            instruction = EMITTERS.of(main.instruction)
            if made and instruction.emit_computed:
                instruction.emit_computed(self.context, main, Rows.of(self.context, made))
            else:
                instruction.emit(self.context, nodes, private)
        self._fence(group)

    def _fence(self, group: tuple[Node, ...]) -> None:
        """Wait for what a group streamed to memory."""
        names = {r.buffer for node in group for r in writes(node)} & set(self.program.params)
        if any(self.context.storages[name].streamed for name in names):
            fence(self.context.writer, self.context.unit)

    def _loop(self, loop: For) -> None:
        if _spreads(loop) and not self.context.parallel:
            self._parallel(loop)
            return
        around, nest, number = self.context.next_packs, self.nest, self.number
        with self.context.loop(loop.variable.name, loop.extent) as index:
            self.context.alias(loop.variable, index)
            if loop.extent.is_constant:
                count = loop.extent.constant
                # What a loop around packs next is prefetched a part in each iteration of this one.
                inside = {name: a.within(index, count) for name, a in around.items()}
                self.nest, self.number = (*nest, loop), number * count + index
                self.context.next_packs = inside | self._next_packs(loop)
            else:
                self.context.next_packs, self.nest, self.number = {}, (), Index()
            self._body(loop.body)
        self.context.next_packs, self.nest, self.number = around, nest, number

    def _next_packs(self, loop: For) -> dict[str, NextPack]:
        """Return the operand that the next iteration packs, of the loops that end with `loop`."""
        total = math.prod(around.extent.as_int() for around in self.nest)

        def following() -> dict[Var, Index]:
            after = self.context.variable("next", minimum(self.number + 1, total - 1))
            return self._digits(self.nest, after)

        return next_packs(self.context, self.program, loop.body, following)

    def _parallel(self, loop: For) -> None:
        """A nest of parallel loops, as one loop whose iterations the threads share."""
        nest = _nest(loop)
        total = loop.extent * math.prod(inner.extent.as_int() for inner in nest[1:])
        spread = work_of(loop, ranges(self.program.body)) >= PARALLEL_WORK
        with self.context.loop(UNIT, total, spread) as unit:
            for inner, index in self._digits(nest, unit).items():
                self.context.alias(inner, index)
            self.context.next_packs, self.nest, self.number = {}, (), Index()
            if total.is_constant:
                self.nest, self.number = tuple(nest), unit
                self.context.next_packs = self._next_packs(nest[-1])
            # Inside the loop, as each of the threads needs a buffer of its own.
            elsewhere = {n for names in self.temporary.values() for n in names}
            for name in self.private.get(loop, ()):
                if name not in elsewhere:
                    self._allocate(name)
            self._body(nest[-1].body)
        self.context.next_packs, self.nest, self.number = {}, (), Index()

    def _digits(self, nest: Sequence[For], unit: Index) -> dict[Var, Index]:
        """The indices of a nest's loops at one of its iterations."""
        found = {}
        for inner in reversed(nest[1:]):
            size = max(1, inner.extent.as_int())  # of a loop without iterations nothing runs
            found[inner.variable] = self.context.variable("i", unit % size)
            unit = self.context.variable("i", unit // size)
        return {**found, nest[0].variable: unit}


def groups(body: tuple[Node, ...]) -> list[tuple[Node, ...]]:
    """The nodes of a body, neighbours by the same instruction (but gemms) together."""
    found: list[list[Node]] = []
    for node in body:
        if found and _joins(found[-1][-1], node) and not _through_index(node, found[-1]):
            found[-1].append(node)
        else:
            found.append([node])
    return [tuple(group) for group in found]


def _joins(last: Node, node: Node) -> bool:
    if not (isinstance(last, Compute) and isinstance(node, Compute)):
        return False
    alone = {"gemm", "scan", EXTERN} & {last.primitive, node.primitive}
    return last.instruction == node.instruction and not alone


def _through_index(node: Node, group: Sequence[Node]) -> bool:
    """Whether a node reads through an index what a group writes: any part of it, not its own."""
    chosen = (r.buffer for r in regions(node) if any(r.chosen()))
    return not {r.buffer for n in group for r in writes(n)}.isdisjoint((*tables(node), *chosen))


def _uses(body: tuple[Node, ...]) -> Counter[str]:
    """Return how many nodes use each buffer."""
    each = (tables(node) if isinstance(node, For) else used((node,)) for node, _ in walk(body))
    return Counter(name for names in each for name in names)


def _starts_written(group: tuple[Node, ...], name: str) -> bool:
    """Whether a group writes all of a buffer before it reads any of it."""
    for node in group:
        if any(r.buffer == name for r in reads(node)):
            return False
        for region in writes(node):
            if region.buffer == name:
                return all(entry == Index.of(axis(n)) for n, entry in enumerate(region.index))
    return False


def _spreads(node: Node) -> bool:
    return isinstance(node, For) and node.kind == "parallel" and node.processor is not None


def _nest(loop: For) -> list[For]:
    """The loop and the parallel ones directly in it whose extents are fixed.

    Those that a core would do by itself join while there are few iterations: a batch of one
    is no reason to leave the other cores idle.
    """
    nest = [loop]
    units = loop.extent.constant if loop.extent.is_constant else ENOUGH_UNITS
    while len(nest[-1].body) == 1:
        inner = nest[-1].body[0]
        if not (isinstance(inner, For) and inner.kind == "parallel" and inner.extent.is_constant):
            break
        if inner.processor is None and units >= ENOUGH_UNITS:
            break
        nest.append(inner)
        units *= inner.extent.constant
    return nest


def nests(program: TileProgram) -> tuple[For, ...]:
    """The loops whose iterations are blocks, in program order."""
    return tuple(
        node for node, around in walk(program.body)
        if isinstance(node, For) and _spreads(node) and not any(map(_spreads, around))
    )  # fmt: skip


def _wanted(program: TileProgram, buffer: Buffer) -> str:
    """Return the type to which all readers convert what copies and maps write; '' if none."""
    wanted = set()
    for node, _ in walk(program.body):
        # A copy passes elements on as they are held.
        if isinstance(node, Copy) and node.source.buffer == buffer.name:
            return ""
        if not isinstance(node, Compute):
            continue
        # What is summed is held in its own type, as is what no emitter of maps writes.
        writes_it = node.operands[0].buffer == buffer.name
        if writes_it and EMITTERS.of(node.instruction).primitive != "map":
            return ""
        if any(r.buffer == buffer.name for r in reads(node)):
            wanted.add(_taken_as(program, node, buffer))
    return wanted.pop() if len(wanted) == 1 else ""


def _computed_in(program: TileProgram, name: str) -> bool:
    """Whether a computation writes a buffer."""
    nodes = (node for node, _ in walk(program.body) if isinstance(node, Compute))
    return any(region.buffer == name for node in nodes for region in writes(node))


def _taken_as(program: TileProgram, node: Compute, buffer: Buffer) -> str:
    """Return the type to which an instruction converts an operand's elements; '' if none."""
    instruction = EMITTERS.of(node.instruction)
    if any(program.buffer(r.buffer).layout.group > 1 for r in node.operands):
        if instruction.flips and _flipped(program, node, buffer):
            return OTHER_SIGNS[buffer.dtype]
        return instruction.grouped
    if _multiplies_groups(program, node):
        return ""
    return "float32" if buffer.dtype in instruction.widened else ""


def _flipped(program: TileProgram, node: Compute, buffer: Buffer) -> bool:
    """Whether a gemm multiplies bytes that copies have packed by others of the same type."""
    left, right = node.operands[1:]
    packed = right if right.buffer == buffer.name else left.transposed((1, 0))
    other = program.buffer((left if packed is right else right).buffer)
    # Of runs the other operand's signs are changed: see `GroupProduct`.
    if other.layout.group > 1 or other.dtype != buffer.dtype or buffer.layout.run:
        return False
    if _computed_in(program, buffer.name):
        return False
    return packed_in_groups(packed, buffer.layout, buffer.layout.group)


def _multiplies_groups(program: TileProgram, node: Compute) -> bool:
    """Whether its right operand lies in the instruction's groups where nothing has packed it."""
    if node.primitive != "gemm":
        return False
    b, panels = node.operands[2], program.machine.instruction(node.instruction).panels
    return pitch_in_place(b, program.buffer(b.buffer), panels, ranges(program.body)) > 0
