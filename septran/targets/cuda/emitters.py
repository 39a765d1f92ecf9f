"""The type of the tables of emitters, by node type, engine and instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import Fragment
from septran.tile.nodes import Compute, Copy, Node

Emit = Callable[[Context, Any], None]
Demand = Callable[[Context, Compute], Mapping[str, Fragment]]


@dataclass(frozen=True)
class CudaEmitters:
    """All that a kernel can be written with; `emitter_table` has the one there is."""

    nodes: Mapping[type, Emit]
    """Emitters by type: `For`, `Barrier`, `Role`, `Acquire`, `Commit`, `Wait`, `Release`."""
    copies: Mapping[str, Emit]
    """Emitters of copies by engine, synchronous or not."""
    computes: Mapping[str, Emit]
    """Emitters of computations by instruction."""
    demands: Mapping[str, Demand]
    """For each instruction, the fragments that its REGISTER operands must be, by buffer."""

    maps: frozenset[str] = frozenset({"fragment"})
    """Instructions for tensor expressions; the others are for gemm."""

    @property
    def primitives(self) -> dict[str, str]:
        """The primitive that each instruction computes, by the instruction's name."""
        return {name: "map" if name in self.maps else "gemm" for name in self.computes}

    def of(self, context: Context, node: Node) -> Emit:
        """The emitter of a node; `require_emitters` has seen to it that there is one."""
        match node:
            case Copy(channel=None):
                return self.copies[node.engine]
            case Copy(channel=str(name)):
                return self.copies[context.program.channel(name).engine]
            case Compute():
                return self.computes[node.instruction]
            case _:
                return self.nodes[type(node)]
