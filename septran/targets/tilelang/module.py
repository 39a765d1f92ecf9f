"""A tile program as a TileLang program that a person would write.

It is made of the tile program before pipelines, roles and waits are: TileLang makes those itself,
of the stages and instructions that the mapping asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from septran.mapping.keys import RASTER
from septran.mapping.resolved import ResolvedMapping
from septran.targets.lower.python_writer import PythonWriter, tuple_text
from septran.targets.tilelang.blocks import KernelBlocks, placed
from septran.targets.tilelang.context import CALLS, TileLangContext, TileLangIndices
from septran.targets.tilelang.kernels import KernelBody
from septran.targets.tilelang.unsupported import unsupported
from septran.tile.analyses.loops import ranges
from septran.tile.nodes import Buffer, Node, TileProgram, nodes, regions, tables
from septran.tile.passes.copies.eliminate_copies import eliminate_copies
from septran.tile.passes.copies.instantiate import instantiate
from septran.tile.passes.copies.stage_footprints import stage_footprints
from septran.tile.passes.layout.expand_steps import expand_steps

SHARED = (
    "Not all tiles can be shared out over the threads alike: what is in registers is shared here"
)
_TAKEN = {"tilelang", "T", "compiled"}
_OF_CPP = """
    alignas alignof asm auto bool break case catch char class const constexpr continue decltype
    default delete do double else enum explicit export extern false float for friend goto if
    inline int long mutable namespace new noexcept nullptr operator private protected public
    register return short signed sizeof static struct switch template this throw true try typedef
    typename union unsigned using virtual void volatile while and or not xor half
"""
"""Words of C++, in which TileLang keeps a program's names."""
TARGETS = {"cuda": "cuda", "rocm": "hip"}
"""What TileLang calls the backends whose blocks, shared memory and fragments it has, too."""
MEMORIES = ("SHARED", "REGISTER")
MOST_AXES = 3
"""The axes of a grid."""

HEAD = '''\
"""{name}, as SepTran maps it to {machine}: a program for TileLang.

{program}({arguments}) writes {outputs}.
"""

import tilelang
import tilelang.language as T

'''
TAIL = '''

def compiled(target="{target}"):
    """The kernel, compiled; call it with all tensors in the order above."""
    return tilelang.compile({program}, target=target)
'''


def plain_program(resolved: ResolvedMapping) -> TileProgram:
    """The tile program with its tiles, copies and products, and nothing that overlaps."""
    program = instantiate(resolved)
    for change in (eliminate_copies, stage_footprints, expand_steps):
        program = change(program)
    return program


def write_tilelang(resolved: ResolvedMapping, final: TileProgram) -> str:
    """The text of a TileLang module; raises UnsupportedByTileLangError.

    `final` is the finished tile program, whose warpgroups and threads the kernels have.
    """
    machine = final.machine
    if machine.backend not in TARGETS:
        raise unsupported(
            None,
            f"TileLang has no blocks and fragments of {machine.name}",
            "take a GPU: nvidia-h200, nvidia-a100, amd-mi300x",
        )
    return _Module(plain_program(resolved), final).text()


@dataclass
class _Module:
    program: TileProgram
    final: TileProgram
    names: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        program = self.program
        writer = PythonWriter()
        writer.taken |= {*_TAKEN, *_OF_CPP.split()}
        name = writer.name(program.name)
        main = program.machine.main_memory.name
        held = [b for b in program.buffers if b.memory == main]
        for buffer in program.buffers:
            self.names[buffer.name] = writer.name(buffer.name)
        for scalar in program.scalars:
            self.names[scalar.name] = writer.name(scalar.name)
        with writer.block("@T.prim_func"):
            writer.depth -= 1
            with writer.block(f"def {name}(", *(f"    {p}" for p in self._parameters(held)), "):"):
                for number, node in enumerate(program.body):
                    self._kernel(writer, number, node, main)
            writer.depth += 1
        given = [self.names[b.name] for b in held] + [self.names[s.name] for s in program.scalars]
        head = HEAD.format(
            name=program.name, machine=program.machine.name, program=name,
            arguments=", ".join(given),
            outputs=", ".join(self.names[n] for n in program.outputs),
        )  # fmt: skip
        return (
            "\n".join([head, *writer.lines])
            + "\n"
            + TAIL.format(program=name, target=TARGETS[program.machine.backend])
        )

    def _parameters(self, held: list[Buffer]) -> list[str]:
        found = []
        for buffer in held:
            if buffer.exists:
                raise unsupported(
                    buffer.asked, f"{buffer.name} has an extent that a call brings",
                    "give the extents: shapes={...}",
                )  # fmt: skip
            shape = tuple_text(buffer.shape or (1,))
            found.append(f'{self.names[buffer.name]}: T.Tensor({shape}, "{buffer.dtype}"),')
        for scalar in self.program.scalars:
            found.append(f"{self.names[scalar.name]}: T.{scalar.dtype},")
        return found

    # ---- kernels --------------------------------------------------------------------------

    def _kernel(self, writer: PythonWriter, number: int, node: Node, main: str) -> None:
        blocks = KernelBlocks.of(node, self.program, self.final, number)
        program = placed(self.program, blocks)
        before = set(writer.taken)
        indices = TileLangIndices(ranges(program.body), CALLS, tables=self.names, program=program)
        context = TileLangContext(program, writer, indices, dict(self.names), blocks, main)
        heads = self._head(context, blocks)
        with writer.block(heads[0]):
            for line in heads[1:]:
                writer.line(line)
            if not blocks.fragments:
                writer.comment(SHARED)
            for buffer in self._own(program, blocks.body, main):
                writer.line(context.allocation(buffer))
            place = len(writer.lines)
            raster = self._raster(blocks)
            if raster > 1:
                writer.line(f"T.use_swizzle(panel_size={raster})")
            KernelBody(context).write(blocks.body)
            indent = "    " * writer.depth
            writer.lines[place:place] = [indent + line for line in context.head]
        writer.taken = before

    def _own(self, program: TileProgram, body: tuple[Node, ...], main: str) -> list[Buffer]:
        """The buffers of a block, in the program's order."""
        used = {r.buffer for n in nodes(body) for r in regions(n)}
        used |= {name for n in nodes(body) for name in tables(n)}
        found = [b for b in program.buffers if b.name in used and b.memory != main]
        for buffer in found:
            if buffer.memory not in MEMORIES:
                raise unsupported(
                    buffer.origin or buffer.asked,
                    f"TileLang has no memory like {buffer.memory}, where {buffer.name} is",
                )
        return found

    def _head(self, context: TileLangContext, blocks: KernelBlocks) -> list[str]:
        writer, indices = context.writer, context.indices
        names = [writer.name(loop.variable.name) for loop in blocks.grid]
        for loop, name in zip(blocks.grid, names, strict=True):
            indices.names[loop.variable] = name
        extents = [loop.extent.as_int() for loop in blocks.grid]
        if not names:
            block = writer.name("block")
            return [f"with T.Kernel(1, threads={blocks.threads}) as {block}:"]
        if len(names) > MOST_AXES:
            return self._merged(names, extents, blocks.threads, writer)
        shown = ", ".join(str(e) for e in reversed(extents))
        bound = ", ".join(reversed(names))
        bound = f"({bound})" if len(names) > 1 else bound
        return [f"with T.Kernel({shown}, threads={blocks.threads}) as {bound}:"]

    def _merged(
        self, names: list[str], extents: list[int], threads: int, writer: PythonWriter
    ) -> list[str]:
        """A grid of one axis for loops that are more than a grid has axes."""
        block, inner = writer.name("block"), 1
        lines: list[str] = []
        for number, (name, extent) in reversed(list(enumerate(zip(names, extents, strict=True)))):
            text = f"{block} // {inner}" if inner > 1 else block
            lines.insert(0, f"{name} = {text} % {extent}" if number else f"{name} = {text}")
            inner *= extent
        return [f"with T.Kernel({inner}, threads={threads}) as {block}:", *lines]

    def _raster(self, blocks: KernelBlocks) -> int:
        """The rows of tiles that blocks take together, where the mapping asks for some."""
        asked = (self.program.request(n.origin.task).get(RASTER) for n in blocks.grid)
        return max(asked, default=0) if len(blocks.grid) > 1 else 0
