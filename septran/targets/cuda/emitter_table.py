"""The one table of emitters of CUDA: an instruction or engine is an entry here and its module."""

from __future__ import annotations

from types import MappingProxyType

from septran.targets.cuda.context import Context
from septran.targets.cuda.copy import cp_async, epilogue, gather, stores, tma
from septran.targets.cuda.copy.copies import emit_statements
from septran.targets.cuda.emitters import CudaEmitters
from septran.targets.cuda.gemm import mma_sync, wgmma
from septran.targets.cuda.gemm.simt import demand_simt, emit_simt
from septran.targets.cuda.sync import channels
from septran.targets.cuda.sync.ring_loops import emit_for
from septran.targets.cuda.sync.roles import emit_role
from septran.tile.nodes import Acquire, Barrier, Commit, Copy, For, Release, Role, Wait


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
