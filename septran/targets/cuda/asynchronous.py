"""Puts the emitters of asynchronous copies and of tensor cores into the tables."""

from __future__ import annotations

from septran.targets.cuda import (
    channels,
    cp_async,
    epilogue,
    gather,
    mma_sync,
    roles,
    stores,
    tma,
    wgmma,
)
from septran.targets.cuda.context import Context
from septran.targets.cuda.copies import emit_statements
from septran.targets.cuda.emitters import COMPUTES, COPIES, DEMANDS, NODES
from septran.targets.cuda.ring_loops import emit_for
from septran.tile.nodes import Acquire, Barrier, Commit, Copy, For, Release, Role, Wait

NODES.update(
    {
        For: emit_for,
        Role: roles.emit_role,
        Barrier: channels.barrier,
        Acquire: channels.acquire,
        Commit: channels.commit,
        Wait: channels.wait,
        Release: channels.release,
    }
)


def _tma(context: Context, copy: Copy) -> None:
    inward = channels.ring(context, copy.channel).inward
    (tma.load if inward else tma.store)(context, copy)


COPIES.update(
    {
        "tma": _tma,
        "cp_async": cp_async.copy,
        "gather": gather.copy,
        "stmatrix": stores.copy,
        "stmatrix_tma": epilogue.copy,
        "ldmatrix": emit_statements,
    }
)
for _module in (wgmma, mma_sync):
    COMPUTES.update(dict.fromkeys(_module.NAMES, _module.gemm))
    DEMANDS.update(dict.fromkeys(_module.NAMES, _module.demands))
