"""The one table of emitters of CUDA: an instruction or engine is an entry here and its module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from septran.targets.cuda.context import Context
from septran.targets.cuda.copy import cp_async, epilogue, gather, stores, tma
from septran.targets.cuda.copy.copies import emit_statements
from septran.targets.cuda.fragment.fragments import Fragment
from septran.targets.cuda.gemm import mma_sync, wgmma
from septran.targets.cuda.gemm.simt import demand_simt, emit_simt
from septran.targets.cuda.sync import channels
from septran.targets.cuda.sync.ring_loops import emit_for
from septran.targets.cuda.sync.roles import emit_role
from septran.tile.nodes import (
    Acquire,
    Barrier,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Release,
    Role,
    Wait,
)

Emit = Callable[[Context, Any], None]
Demand = Callable[[Context, Compute], Mapping[str, Fragment]]
_OTHERS: Mapping[str, str] = {"fragment": "map", "atomic_add": "accumulate"}
"""What instructions compute that are not for gemm."""


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

    @property
    def primitives(self) -> dict[str, str]:
        """The primitive that each instruction computes, by the instruction's name."""
        return {name: _OTHERS.get(name, "gemm") for name in self.computes}

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


def _tma(context: Context, copy: Copy) -> None:
    inward = channels.ring(context, copy.channel).inward
    (tma.load if inward else tma.store)(context, copy)


EMITTERS = CudaEmitters(
    nodes=MappingProxyType(
        {
            For: emit_for,
            Role: emit_role,
            Barrier: channels.barrier,
            Acquire: channels.acquire,
            Commit: channels.commit,
            Wait: channels.wait,
            Release: channels.release,
        }
    ),
    copies=MappingProxyType(
        {
            "load_store": emit_statements,
            "ldmatrix": emit_statements,
            "cp_async": cp_async.copy,
            "gather": gather.copy,
            "stmatrix": stores.copy,
            "stmatrix_tma": epilogue.copy,
            "tma": _tma,
        }
    ),
    computes=MappingProxyType(
        {
            "fragment": emit_statements,
            "atomic_add": emit_statements,
            "simt": emit_simt,
            **dict.fromkeys(mma_sync.NAMES, mma_sync.gemm),
            **dict.fromkeys(wgmma.NAMES, wgmma.gemm),
        }
    ),
    demands=MappingProxyType(
        {
            "simt": demand_simt,
            **dict.fromkeys(mma_sync.NAMES, mma_sync.demands),
            **dict.fromkeys(wgmma.NAMES, wgmma.demands),
        }
    ),
)
