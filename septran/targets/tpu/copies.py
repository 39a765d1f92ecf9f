"""Copies as DMA: descriptors that are started, and waited for on a semaphore of their channel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from septran.ir.index import Index, Var, axis
from septran.targets.lower.python_indices import PythonIndices
from septran.targets.tpu.access import Reach, looped, reach, reaches_end
from septran.targets.tpu.context import Context
from septran.targets.tpu.unsupported import unsupported
from septran.tile.nodes import Copy, Region, TileProgram


@dataclass(frozen=True)
class CopyPlan:
    """How a copy is carried out: in one transfer, or in one for each step of loops."""

    node: Copy
    loops: tuple[int, ...]
    """The axes of the view that are gone through, each as far as it exists."""
    sizes: tuple[int, ...]
    """How much of each other axis a transfer moves."""

    @property
    def whole(self) -> bool:
        """Whether one transfer does it."""
        return all(single(self.node, n) for n in self.loops)

    @property
    def moved(self) -> tuple[int, ...]:
        """The extents of what a transfer moves, which is all that a wait needs to know."""
        return tuple(s for n, s in enumerate(self.sizes) if n not in self.loops)


def plan_copy(program: TileProgram, indices: PythonIndices, node: Copy) -> CopyPlan:
    """What is moved in one transfer.

    DMA moves tiles of a fixed size. Elements that do not exist are moved with the others where
    they are padding, or where nobody uses what they replace; else the axis is gone through.
    """
    loops = set(looped(node.source, strided=False) | looped(node.target, strided=False))
    for region in (node.source, node.target):  # an axis that both have is a slice of both
        used = {
            n for entry in region.index for n in range(region.rank) if axis(n) in entry.variables()
        }
        loops |= {n for n in range(region.rank) if n not in used}
    sizes = []
    for n, extent in enumerate(node.target.shape):
        exists = node.source.valid[n] if node.source.ragged else node.target.valid[n]
        exists = indices.simple(exists)
        if n in loops or exists == Index.of(extent) or _may_be_whole(program, indices, node, n):
            sizes.append(extent)
        elif exists.is_constant:
            sizes.append(exists.constant)
        else:
            loops.add(n)
            sizes.append(extent)
    ordered = tuple(sorted(n for n in loops if not single(node, n)))
    alone = tuple(n for n in loops if single(node, n))
    return CopyPlan(node, (*ordered, *alone), tuple(sizes))


def single(node: Copy, number: int) -> bool:
    """Whether a copy has one element along an axis."""
    one = Index.of(1)
    return node.source.valid[number] == one and node.target.valid[number] == one


def _may_be_whole(program: TileProgram, indices: PythonIndices, node: Copy, number: int) -> bool:
    """Whether a whole tile may be moved along an axis of which less exists."""
    target = program.buffer(node.target.buffer)
    if node.zero_fill and not node.source.padded:
        return False
    return reaches_end(node.target, number, target, indices)


def copy_reaches(
    program: TileProgram, indices: PythonIndices, plan: CopyPlan
) -> Iterator[tuple[str, Reach]]:
    """How far a copy reaches before and behind the axes of the two buffers."""
    for region in (plan.node.source, plan.node.target):
        yield region.buffer, reach(program, indices, region, plan.sizes, plan.loops)


def emit_copy(context: Context, plan: CopyPlan, semaphore: str | None) -> None:
    """Start a copy; without a semaphore it is waited for at once."""
    node, writer = plan.node, context.writer
    if not plan.whole and math.prod(plan.moved) == 1:
        raise unsupported(
            node.origin,
            f"{node.source} would be moved element by element, and DMA moves rows",
            "let the last axis of what is copied run along the tensor's innermost axis, as in a "
            "slice X[n, h, w, a:b], and not along several axes at once",
        )
    if node.multicast:
        raise unsupported(node.origin, "a TPU's core sends nothing to others")
    if not (context.in_hbm(node.source.buffer) or context.in_hbm(node.target.buffer)):
        raise unsupported(node.origin, f"{node.engine} moves within vector memory")
    if node.zero_fill and not node.source.padded:
        _zeros(context, node.target)
    with ExitStack() as stack:
        fixed = _loops(context, plan, stack)
        (source, order), (target, own) = (
            _reference(context, region, fixed, plan) for region in (node.source, node.target)
        )
        if order != own:
            raise unsupported(
                node.origin,
                f"DMA keeps the order of axes, and {node.source} has another than {node.target}",
            )
        if semaphore is None:
            writer.line(f"pltpu.sync_copy({source}, {target})")
        else:
            writer.line(f"pltpu.make_async_copy({source}, {target}, {semaphore}).start()")


def emit_wait(context: Context, plan: CopyPlan, slot: Index, semaphore: str) -> None:
    """Wait for a copy of that size, whichever of a channel's it was."""
    region = plan.node.target
    if context.in_hbm(region.buffer):
        region = plan.node.source
    buffer = context.buffer(region.buffer)
    stage = slot % buffer.stages if buffer.stages > 1 else Index()
    fixed = {n: Index() for n in plan.loops}
    place, _ = _reference(context, replace(region, stage=stage), fixed, plan)
    context.writer.line(f"pltpu.make_async_copy({place}, {place}, {semaphore}).wait()")


def waitable(plan: CopyPlan, program: TileProgram) -> bool:
    """Whether a wait elsewhere can name what was moved: one transfer, always of one place."""
    main = program.machine.main_memory.name
    node = plan.node
    here = node.source if program.buffer(node.target.buffer).memory == main else node.target
    fixed = not any(v for entry in here.index for v in entry.variables() if v.name[0] != "$")
    return (
        plan.whole
        and fixed
        and not any(entry.elements() and list(entry.elements()) for entry in here.index)
    )


def _loops(context: Context, plan: CopyPlan, stack: ExitStack) -> dict[int, Index]:
    """Open the loops of a copy; what their axes are inside."""
    fixed: dict[int, Index] = {}
    for n in plan.loops:
        if single(plan.node, n):
            fixed[n] = Index()
            continue
        extent = plan.node.source.valid[n]
        name = context.writer.name("r")
        variable = Var(f"{name} of a copy")
        context.indices.names[variable] = name
        context.indices.ranges = {
            **context.indices.ranges,
            variable: (0, plan.node.target.shape[n] - 1),
        }
        stack.enter_context(context.writer.loop(name, context.indices.text(extent)))
        fixed[n] = Index.of(variable)
    return fixed


def _reference(
    context: Context, region: Region, fixed: Mapping[int, Index], plan: CopyPlan
) -> tuple[str, list[int]]:
    """A part of a buffer as a copy names it, and the axes of the view in its order."""
    text, order = context.at(region, fixed, plan.sizes, value=False)
    name = context.names[region.buffer]
    return (f"{name}.at[{text}]" if text else name), order


def _zeros(context: Context, target: Region) -> None:
    """Zeros in a whole tile, before what exists of it arrives."""
    text, _ = context.at(target, {}, target.shape, value=True)
    name, buffer = context.names[target.buffer], context.buffer(target.buffer)
    context.writer.line(f"{name}[{text}] = jnp.zeros({target.shape}, jnp.{buffer.dtype})")
