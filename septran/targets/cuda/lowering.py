"""From a tile program to CUDA: one kernel for each nest of parallel loops, node by node.

Each node is written by an emitter ``emit(context, node)``, which `Emitters` finds by its type,
engine or instruction; the one table of them is literal, in `emitter_table`. An instruction that
wants its REGISTER operands in certain fragments has a ``demand(context, node) -> {buffer:
Fragment}`` there, too.

`Context` is what emitters share:

    context.writer          emit statements: `evaluate(T.ptx[...](...))`, `bind`, `loop`, `when`
    context.storages[name]  how a buffer is held: `flat` (a TensorIR buffer), `fragment`,
                            `offset` and `stage_elements` (in elements)
    context.threads         first thread, count and named barrier of those that run the body
    context.thread          the thread's number in them, as an `Index`; `context.number` is
                            threadIdx.x as a TensorIR variable
    context.lower(index)    an `Index` as a TensorIR integer
    context.sync()          a barrier of the threads that run the body
    context.reserve(bytes)  shared memory for the whole kernel; its offset in bytes
    context.shared_view(dtype)   all of shared memory as elements of a type
    context.tensor_map(TensorMap(...))   a kernel argument
    context.state           what emitters remember from node to node
    enter(context, threads, body)   write a role's body: its arrays, then its nodes
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from septran.dtypes import itemsize
from septran.ir.index import Index
from septran.targets.cuda.context import Context, Threads
from septran.targets.cuda.fragment.fragments import Fragment, Holding
from septran.targets.cuda.fragment.inference import infer
from septran.targets.cuda.fragment.registers import declare_one
from septran.targets.cuda.fragment.statements import Split
from septran.targets.cuda.gemm import wgmma_scoreboard as inflight
from septran.targets.cuda.run.instrumentation import marked
from septran.targets.cuda.sync import pingpong
from septran.targets.cuda.writer import ROLLED
from septran.tile.nodes import (
    Acquire,
    Buffer,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Role,
    TileProgram,
    nodes,
    regions,
)

VECTOR_BYTES = 16
PLAIN = ("load_store", "ldmatrix", "stmatrix", "stmatrix_tma")
"""Engines whose copies can be written element by element."""


def emit_body(context: Context, body: tuple[Node, ...]) -> None:
    """Write the nodes of a body in order, each under a comment that says where it is from."""
    for position, node in enumerate(body):
        if not isinstance(node, For | Role):
            context.writer.note(describe(node))
        with marked(context, "wait for products"):
            inflight.settle(context, node)
        if isinstance(node, For):  # an iteration before may still read it
            context.unsettle()
        with marked(context, "wait for the turn"):
            pingpong.before(context, body, position)
        with marked(context, node):
            context.emitters.of(context, node)(context, node)
        pingpong.after(context, body, position)
        inflight.note(context, node)
        # Some thread may still read what the last iteration left in scratch memory.
        if isinstance(node, For):
            context.unsettle()
    with marked(context, "wait for products"):
        inflight.settle(context)


def describe(node: Node) -> str:
    """Return what a node is and where it comes from, in one line."""
    match node:
        case Copy():
            what = f"{node.target} = copy({node.source}) by {node.engine}: "
        case Compute():
            what = f"{node.primitive} -> {node.operands[0]} by {node.instruction}: "
        case _:
            what = f"{type(node).__name__.lower()}: "
    return what + str(node.origin)


def emit_for(context: Context, loop: For) -> None:
    """A loop whose iterations all threads of the body go through together."""
    unrolled = loop.kind == "unrolled"
    if not unrolled and loop.extent != Index.of(1) and _only_issues(loop.body):
        context.writer.note(ROLLED)  # copies of its body would cost registers, and bring nothing
    with context.loop(loop.variable.name, loop.extent, unrolled=unrolled) as index:
        context.alias(loop.variable, index)
        context.indices.tops[loop.variable] = loop.extent
        emit_body(context, loop.body)
    context.loops.pop(loop.variable.name, None)


def _only_issues(body: tuple[Node, ...]) -> bool:
    """Whether a body does nothing but to issue copies."""
    return all(
        isinstance(n, Acquire | Commit) or (isinstance(n, Copy) and n.channel is not None)
        for n in body
    )


def enter(
    context: Context, threads: Threads, body: tuple[Node, ...], role: Role | None = None
) -> None:
    """Write a body for some of a block's threads: their arrays first, then its nodes."""
    with context.role(threads):
        _lay_out(context, body)
        with pingpong.taken(context, role):
            emit_body(context, body)


def own(body: tuple[Node, ...]) -> Iterator[Node]:
    """The nodes of a body that its own threads run: not those of roles in it."""
    for node in body:
        if isinstance(node, Role):
            continue
        yield node
        if isinstance(node, For):
            yield from own(node.body)


def _lay_out(context: Context, body: tuple[Node, ...]) -> None:
    """Infer the fragments of the REGISTER buffers that a body uses, and declare them."""
    buffers = {b.name: b for b in context.program.buffers}
    splits = _split(context, body)
    strict, demanded, used = _demanded(context, body)
    buffers |= {b.name: b for split in splits for b in split.made}
    # For the whole body at once, as layouts of buffers that meet depend on each other.
    found = infer(splits, buffers, strict, context.threads.count, _vector(context))
    context.state.domains.update(found.domains)
    for name in used:
        if name in found.buffers and name not in context.storages:
            buffer, fragment = buffers[name], found.buffers[name]
            declare_one(context, name, buffer.shape, buffer.dtype, fragment)
            first, by = context.threads.first, demanded.get(name, "")
            context.holdings.append(Holding(name, fragment, first, by))


def _split(context: Context, body: tuple[Node, ...]) -> list[Split]:
    """Return what is done element by element, as statements."""
    splits: list[Split] = []
    for number, node in enumerate(own(body)):
        plain = isinstance(node, Copy) and node.engine in PLAIN and node.channel is None
        # Products, and copies by engines, have emitters that ask for layouts, and no statements.
        if plain or (isinstance(node, Compute) and node.primitive != "gemm"):
            assert isinstance(node, Copy | Compute)
            split = Split.of(node, f"%{number}.", lambda name: context.buffer(name).dtype)
            context.state.splits[id(node)] = split
            splits.append(split)
    return splits


def _demanded(
    context: Context, body: tuple[Node, ...]
) -> tuple[dict[str, Fragment], dict[str, str], dict[str, None]]:
    """Return the fragments that instructions demand, who demands them, and all buffers used."""
    strict: dict[str, Fragment] = {}
    by: dict[str, str] = {}
    used: dict[str, None] = {}
    for node in own(body):
        names = [r.buffer for r in regions(node)]
        used.update(dict.fromkeys(n for n in names if context.buffer(n).memory == "REGISTER"))
        if isinstance(node, Compute) and node.instruction in context.emitters.demands:
            for name, fragment in context.emitters.demands[node.instruction](context, node).items():
                # The first demand wins: where another contradicts it, that statement converts.
                strict.setdefault(name, fragment)
                by.setdefault(name, node.instruction)
    return strict, by, used


def _vector(context: Context) -> int:
    """Elements of the kernel's tensors that 16 bytes hold."""
    params = [context.buffer(n) for n in context.program.params]
    sizes = [itemsize(b.dtype) for b in params if itemsize(b.dtype) > 1]
    return VECTOR_BYTES // min(sizes, default=4)


def uniform(program: TileProgram) -> frozenset[str]:
    """Buffers of which every node touches the same extents: what lies beyond is never read."""
    seen: dict[str, set[object]] = {}
    for node in nodes(program.body):
        for region in regions(node):
            seen.setdefault(region.buffer, set()).add((region.shape, region.valid, region.index))
        if isinstance(node, Compute) and node.primitive == "scan":
            seen[node.operands[0].buffer].add("it is written in parts")
    return frozenset(name for name, kinds in seen.items() if len(kinds) == 1)


def elements(buffers: tuple[Buffer, ...]) -> int:
    """The number of elements of the largest buffer."""
    return max((math.prod(b.shape) for b in buffers), default=1)
