"""Channels as DMA semaphores: one for each copy of a fill, in each stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from septran.ir.index import Index
from septran.targets.tpu.copies import CopyPlan, waitable
from septran.tile.nodes import Commit, Copy, For, Node, TileProgram


@dataclass(frozen=True)
class Fills:
    """The fills of one channel."""

    stages: int
    copies: tuple[CopyPlan, ...]
    """The copies of each fill; none where they are waited for when they are issued."""
    number: Mapping[int, tuple[Index, int]]
    """The fill that each copy belongs to, and its place there, by the node's identity."""

    @property
    def semaphores(self) -> str:
        """Their extents, as text."""
        count = len(self.copies)
        return f"({self.stages}, {count})" if count > 1 else f"({self.stages},)"

    def semaphore(self, slot: str, place: int) -> str:
        """The one of a stage and a copy.

        Copies that share one would be told apart by their bytes alone, so that a wait for one of
        them might be over once the other has landed.
        """
        return f"at[{slot}, {place}]" if len(self.copies) > 1 else f"at[{slot}]"


def channel_fills(program: TileProgram, plans: Mapping[int, CopyPlan]) -> dict[str, Fills]:
    """The fills of every channel of a program.

    A wait names what it waits for, and so it can only where all fills of a channel are alike:
    copies that are made in loops, or are of various sizes, are waited for where they are issued.
    """
    found: dict[str, list[tuple[Copy, ...]]] = {c.name: [] for c in program.channels}
    numbers: dict[int, tuple[Index, int]] = {}
    left = _gather(program.body, found, numbers)
    result = {}
    for channel in program.channels:
        fills = [tuple(plans[id(node)] for node in fill) for fill in found[channel.name]]
        alike = len({tuple(_signature(program, p) for p in fill) for fill in fills}) == 1
        named = all(waitable(p, program) for fill in fills for p in fill)
        whole = alike and named and channel.name not in left
        result[channel.name] = Fills(channel.stages, fills[0] if whole else (), numbers)
    return result


def _signature(program: TileProgram, plan: CopyPlan) -> tuple[str, tuple[int, ...]]:
    main = program.machine.main_memory.name
    node = plan.node
    inside = node.source if program.buffer(node.target.buffer).memory == main else node.target
    return inside.buffer, plan.moved


def _gather(
    body: tuple[Node, ...],
    found: dict[str, list[tuple[Copy, ...]]],
    numbers: dict[int, tuple[Index, int]],
) -> set[str]:
    """Note the fills that are committed in a body; the channels whose copies are left."""
    open_copies: dict[str, list[Copy]] = {}
    left: set[str] = set()
    for node in body:
        match node:
            case Copy(channel=str(name)):
                open_copies.setdefault(name, []).append(node)
            case Commit(channel=name, index=index):
                copies = open_copies.pop(name, [])
                found[name].append(tuple(copies))
                numbers.update((id(copy), (index, n)) for n, copy in enumerate(copies))
            case For():
                left |= _gather(node.body, found, numbers)
    return left | set(open_copies)
