"""The Python module of a program: its kernels, and the function that calls them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from septran.dtypes import itemsize
from septran.targets.index_width import index_dtype
from septran.targets.lower.python_writer import tuple_text
from septran.targets.tpu import element_types
from septran.targets.tpu.access import Reach, reach, sizes_of
from septran.targets.tpu.axis_order import as_moved
from septran.targets.tpu.channels import Fills, channel_fills
from septran.targets.tpu.context import Context, Pads, padded
from septran.targets.tpu.copies import CopyPlan, copy_reaches, plan_copy
from septran.targets.tpu.kernels import Body
from septran.targets.tpu.launches import PallasLaunch, launches
from septran.targets.tpu.prelude import prelude
from septran.targets.tpu.unsupported import UnsupportedByTpuError, VectorMemoryError, unsupported
from septran.targets.tpu.writer import PallasWriter, jax_indices
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    TileProgram,
    nodes,
    reads,
    regions,
    rewrite,
)
from septran.tile.substitution import substitute

HEAD = '''\
"""{name} for {machine}, as SepTran wrote it: {name}{arguments} is called from JAX.

`interpret` is what `pl.pallas_call` takes: False on a TPU, pltpu.InterpretParams() elsewhere.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

HBM, SMEM = pl.BlockSpec(memory_space=pltpu.HBM), pl.BlockSpec(memory_space=pltpu.SMEM)
'''


def write_module(program: TileProgram) -> str:
    """The text of a program's module; raises UnsupportedByTpuError, VectorMemoryError."""
    return _Module(as_moved(_unrolled(program))).text()


def function_name(program: TileProgram) -> str:
    """The name of the function that calls a program's kernels."""
    return PallasWriter().name(program.name)


def arguments_of(program: TileProgram) -> tuple[str, ...]:
    """The tensors that the function takes: those that are read, and outputs that are added to."""
    read = {r.buffer for node in nodes(program.body) for r in reads(node)}
    return tuple(n for n in program.params if n in read or n not in program.outputs)


def _unrolled(program: TileProgram) -> TileProgram:
    """The program without loops that turn once, or never."""

    def change(node: Node) -> tuple[Node, ...]:
        if not isinstance(node, For) or not node.extent.is_constant:
            return (node,)
        match node.extent.constant:
            case 1:
                return tuple(substitute(inner, {node.variable: 0}) for inner in node.body)
            case count:
                return (node,) if count > 1 else ()

    return replace(program, body=rewrite(program.body, change))


@dataclass
class _Module:
    program: TileProgram
    plans: dict[int, CopyPlan] = field(default_factory=dict)
    pads: dict[str, Pads] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if index_dtype(self.program) != "int32":
            raise UnsupportedByTpuError("its indices do not fit 32 bits, which a TPU's are of")
        indices = jax_indices(self.program)
        self.pads = {b.name: ((0, 0),) * len(b.shape) for b in self.program.buffers}
        for node in nodes(self.program.body):
            if isinstance(node, Copy):
                plan = self.plans[id(node)] = plan_copy(self.program, indices, node)
                for name, found in copy_reaches(self.program, indices, plan):
                    self._widen(name, found)
            elif isinstance(node, Compute):
                for region in regions(node):
                    sizes = sizes_of(region.shape, region.valid)
                    self._widen(region.buffer, reach(self.program, indices, region, sizes))
        self.fills: dict[str, Fills] = channel_fills(self.program, self.plans)

    def _widen(self, name: str, found: Reach) -> None:
        self.pads[name] = tuple(
            (max(a, c), max(b, d)) for (a, b), (c, d) in zip(self.pads[name], found, strict=True)
        )

    def text(self) -> str:
        program, name = self.program, function_name(self.program)
        self.names = PallasWriter(taken={*PallasWriter().taken, name})
        self.called = {b.name: self.names.name(b.name) for b in program.buffers}
        scalars = {s.name: self.names.name(s.name) for s in program.scalars}
        self.scalars = scalars
        kernels, calls = [], PallasWriter(depth=1)
        given = [self.called[n] for n in arguments_of(program)] + list(scalars.values())
        self._begin(calls)
        made = launches(program)
        for number, launch in enumerate(made):
            own = f"_{name}" if len(made) == 1 else f"_{name}_{number + 1}"
            kernels.append(self._kernel(own, launch, calls))
        self._end(calls)
        arguments = f"({', '.join([*given, '*', 'interpret=False'])})"
        head = HEAD.format(
            name=name, machine=program.machine.name, arguments=f"({', '.join(given)})"
        )
        function = "\n".join([f"def {name}{arguments}:", *self._doc(), *calls.lines]) + "\n"
        parts = [head, prelude(self.used), *kernels, function]
        return "\n\n".join(part for part in parts if part)

    def _doc(self) -> list[str]:
        outputs = ", ".join(
            f"{n}: {self.program.buffer(n).dtype}{list(self.program.buffer(n).shape)}"
            for n in self.program.outputs
        )
        return [
            f'    """{line}' if not n else f"    {line}"
            for n, line in enumerate(textwrap.wrap(f'Return {outputs}."""', 92))
        ]

    # ---- the function around the kernels --------------------------------------------------

    def _begin(self, calls: PallasWriter) -> None:
        """Types as a TPU has them, tables beside, and padding."""
        self.content = set(arguments_of(self.program))
        self.fresh_tables: dict[str, str] = {}
        tables = {n for launch in launches(self.program) for n in launch.tables()}
        for name in arguments_of(self.program):
            buffer, own = self.program.buffer(name), self.called[name]
            if element_types.held(buffer.dtype) != buffer.dtype:
                calls.line(f"{own} = {own}.astype(jnp.{element_types.held(buffer.dtype)})")
            if not buffer.shape:
                calls.line(f"{own} = jnp.reshape({own}, (1,))")
            if name in tables:
                self.fresh_tables[name] = own
                if self._padded(buffer):
                    self.fresh_tables[name] = self.names.name(f"{name}_table")
                    calls.line(f"{self.fresh_tables[name]} = {own}")
            self._pad(calls, buffer)

    def _padded(self, buffer: Buffer) -> bool:
        return any(pad != (0, 0) for pad in self.pads[buffer.name])

    def _pad(self, calls: PallasWriter, buffer: Buffer) -> None:
        if self._padded(buffer):
            own = self.called[buffer.name]
            calls.line(f"{own} = jnp.pad({own}, {self.pads[buffer.name]})")

    def _cut(self, buffer: Buffer) -> str:
        """The tensor without its padding."""
        own = self.called[buffer.name]
        if not self._padded(buffer):
            return own
        parts = [
            ":" if pad == (0, 0) else f"{pad[0] or ''}:{pad[0] + extent}"
            for pad, extent in zip(self.pads[buffer.name], buffer.shape, strict=True)
        ]
        while parts[-1] == ":":
            parts.pop()
        return f"{own}[{', '.join(parts)}]"

    def _end(self, calls: PallasWriter) -> None:
        results = []
        for name in self.program.outputs:
            buffer = self.program.buffer(name)
            text = self._cut(buffer)
            if not buffer.shape:
                text = f"jnp.reshape({text}, ())"
            results.append(f"{text} != 0" if buffer.dtype == "bool" else text)
        calls.line(f"return {', '.join(results)}")

    # ---- a kernel, and its call -------------------------------------------------------------

    def _kernel(self, own: str, launch: PallasLaunch, calls: PallasWriter) -> str:
        program = self.program
        main = program.machine.main_memory.name
        touched = [program.buffer(n) for n in launch.touched(program)]
        inside = [b for b in touched if b.memory != main]
        written = [b for b in touched if b.memory == main and b.name in launch.written()]
        read = [b for b in touched if b.memory == main and b not in written]
        before = [b for b in written if b.name in self.content]
        tables = self._tables(launch, {b.name for b in (*inside, *written)}, calls)
        self._zero_edges(launch, calls)
        writer = PallasWriter()
        writer.taken |= {own, *self.names.taken}
        context = Context(program, writer, jax_indices(program), self.pads)
        context.names = dict(self.called)
        channels = launch.channels(program)
        channels = tuple(c for c in channels if self.fills[c].copies)
        context.names.update((c, writer.name(c)) for c in channels)
        context.names.update(self.scalars)
        for name in launch.tables():
            context.indices.tables[name] = (
                writer.name(f"{self.called[name]}_table") if (name in tables) else self.called[name]
            )
        scalars = launch.scalars(program)
        parameters = [
            *(self.called[b.name] for b in read),
            *(f"_{self.called[b.name]}" for b in before),
            *(context.indices.tables[n] for n in tables),
            *(self.scalars[n] for n in scalars),
            *(self.called[b.name] for b in written),
            *(self.called[b.name] for b in inside),
            *(context.names[c] for c in channels),
        ]
        self._check_capacity(inside)
        with writer.block(*_wrapped(f"def {own}(", parameters, "):")):
            for number, loop in enumerate(launch.grid):
                index = writer.name(loop.variable.name)
                context.indices.names[loop.variable] = index
                writer.line(f"{index} = pl.program_id({number})")
            Body(context, self.plans, self.fills).write(launch.body)
        self.used |= context.used
        self._call(own, launch, calls, read, before, tables, scalars, written, inside, channels)
        self.content |= {b.name for b in written}
        return "\n".join(writer.lines) + "\n"

    def _tables(self, launch: PallasLaunch, own: set[str], calls: PallasWriter) -> dict[str, str]:
        """The tensors of indices that go into scalar memory, by what they are called outside."""
        found: dict[str, str] = {}
        main = self.program.machine.main_memory.name
        for name in launch.tables():
            buffer = self.program.buffer(name)
            if buffer.memory != main:
                continue
            if name in own:
                origin = next(n.origin for n in nodes(launch.body))
                raise unsupported(
                    origin,
                    f"{name} chooses rows in the kernel that writes it, and scalar memory "
                    "is filled before a kernel begins",
                    f"let a kernel of its own write {name}: end the operator there, and pass it "
                    "to a second one as an argument",
                )
            if name in self.fresh_tables:
                found[name] = self.fresh_tables[name]
            else:
                found[name] = self._cut(buffer)
        return found

    def _zero_edges(self, launch: PallasLaunch, calls: PallasWriter) -> None:
        """Zeros around a tensor that a kernel wrote, and another reads beyond its ends."""
        for node in nodes(launch.body):
            if isinstance(node, Copy) and node.source.padded:
                buffer = self.program.buffer(node.source.buffer)
                if buffer.name in self.content and buffer.name not in arguments_of(self.program):
                    calls.line(f"{self.called[buffer.name]} = {self._cut(buffer)}")
                    self._pad(calls, buffer)

    def _check_capacity(self, inside: Sequence[Buffer]) -> None:
        for memory in self.program.machine.memories[1:]:
            own = [b for b in inside if b.memory == memory.name]
            needed = sum(_bytes(padded(b, self.pads), b) for b in own)
            if memory.capacity_bytes is not None and needed > memory.capacity_bytes:
                raise VectorMemoryError(
                    f"a kernel of {self.program.name} holds {needed:,} bytes of {memory.name}, "
                    f"which has {memory.capacity_bytes:,}",
                    hint="smaller tiles take less",
                )

    def _call(
        self,
        own: str,
        launch: PallasLaunch,
        calls: PallasWriter,
        read: Sequence[Buffer],
        before: Sequence[Buffer],
        tables: dict[str, str],
        scalars: Sequence[str],
        written: Sequence[Buffer],
        inside: Sequence[Buffer],
        channels: Sequence[str],
    ) -> None:
        main_inputs = [*read, *before]
        given = [self.called[b.name] for b in main_inputs] + list(tables.values())
        for name in scalars:
            kind = next(s.dtype for s in self.program.scalars if s.name == name)
            given.append(f"jnp.full((1,), {self.scalars[name]}, jnp.{element_types.held(kind)})")
        results = [self.called[b.name] for b in written]
        calls.line(f"{', '.join(results)}{',' if len(results) == 1 else ''} = pl.pallas_call(")
        calls.depth += 1
        calls.line(f"{own},")
        if launch.grid:
            extents = [str(loop.extent.as_int()) for loop in launch.grid]
            calls.line(f"grid=({', '.join(extents)}{',' if len(extents) == 1 else ''}),")
        calls.line("out_shape=[")
        for b in written:
            calls.line(
                f"    jax.ShapeDtypeStruct({tuple_text(padded(b, self.pads))}, "
                f"jnp.{element_types.held(b.dtype)}),"
            )
        calls.line("],")
        smem = len(tables) + len(scalars)
        calls.line(f"in_specs={_specs('HBM', len(main_inputs), 'SMEM', smem)},")
        calls.line(f"out_specs={_specs('HBM', len(written))},")
        calls.line("scratch_shapes=[")
        for b in inside:
            shape = padded(b, self.pads)
            shape = (b.stages, *shape) if b.stages > 1 else shape
            calls.line(
                f"    pltpu.VMEM({tuple_text(shape)}, jnp.{element_types.held(b.dtype)}),  "
                f"# {self.called[b.name]}"
            )
        for c in channels:
            calls.line(f"    pltpu.SemaphoreType.DMA({self.fills[c].semaphores}),  # {c}")
        calls.line("],")
        if before:
            pairs = {len(read) + n: written.index(b) for n, b in enumerate(before)}
            calls.line(f"input_output_aliases={pairs},")
        self._parameters(calls, launch)
        calls.line("interpret=interpret,")
        calls.depth -= 1
        calls.line(f")({', '.join(given)})")

    def _parameters(self, calls: PallasWriter, launch: PallasLaunch) -> None:
        """What Mosaic is told: in which order iterations may be, and how much they hold."""
        vector = self.program.machine.memories[1]
        options = []
        if launch.grid:
            options.append(f"dimension_semantics={('parallel',) * len(launch.grid)}")
        if vector.capacity_bytes is not None:
            options.append(f"vmem_limit_bytes={vector.capacity_bytes}")
        calls.line(f"compiler_params=pltpu.CompilerParams({', '.join(options)}),")


def _bytes(shape: tuple[int, ...], buffer: Buffer) -> int:
    size = itemsize(element_types.held(buffer.dtype)) * buffer.stages
    for extent in shape:
        size *= extent
    return size


def _specs(first: str, count: int, second: str = "", more: int = 0) -> str:
    parts = [f"[{name}] * {n}" for name, n in ((first, count), (second, more)) if n]
    return " + ".join(parts) or "[]"


def _wrapped(begin: str, parts: Sequence[str], end: str) -> list[str]:
    """A head of a function, in as many lines as it takes."""
    text = f"{begin}{', '.join(parts)}{end}"
    if len(text) <= 100:
        return [text]
    lines = textwrap.wrap(", ".join(parts) + ",", 92)
    return [begin, *(f"    {line}" for line in lines), end]
