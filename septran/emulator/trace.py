"""The trace of a run, in the form of a DSA's records, so that the same timeline draws it."""

from __future__ import annotations

from typing import Any

import numpy as np

from septran.simulator import TRACE

Array = np.ndarray[Any, Any]
RECORD = np.dtype(
    [("site", "u8"), ("command", "i4"), ("queue", "i4"), ("block", "i4"), ("warp", "i4"),
     *((name, "i8") for name in ("issue", "start", "end", "bytes", "flops", "barrier",
                                 "bandwidth", "sync"))]
)  # fmt: skip
CONFLICT = np.dtype([("site", "u8"), ("requests", "u8"), ("wavefronts", "u8"), ("ideal", "u8")])
COMMANDS = (
    "tma load", "tma store", "bulk load", "bulk store", "wgmma", "mma", "wait mbarrier",
    "wait block", "wait named barrier", "wait cluster", "wait cp.async", "wait stores",
    "wait wgmma", "threads",
)  # fmt: skip
"""By number, as in runtime/trace.h; ``threads`` is a warp at work between two waits."""
MULTIPROCESSORS = 132
"""Those of an H200, on which the trace places blocks."""


def queues(records: Array) -> tuple[str, ...]:
    """Names by number: the engines of a multiprocessor, then its warps."""
    warps = int(records["queue"].max()) - 1 if len(records) else 0
    return ("copy engine", "tensor cores", *(f"warp {n}" for n in range(max(0, warps))))


def trace_of(records: Array, lines: dict[int, int], start: int = 0) -> Array:
    """Runtime records as `TRACE`, with CUDA lines; `start` is when the launch began.

    Blocks are given to multiprocessors in order, each to the one that is free first.
    """
    trace = np.zeros(len(records), TRACE)
    for name in (
        "command",
        "queue",
        "issue",
        "start",
        "end",
        "bytes",
        "flops",
        "bandwidth",
        "sync",
    ):
        trace[name] = records[name]
    trace["flag"] = records["barrier"]
    # Each address once: there are far fewer than records.
    sites, where = np.unique(records["site"], return_inverse=True)
    trace["line"] = np.array([lines.get(int(s), 0) for s in sites], np.int32)[where]
    free = [start] * MULTIPROCESSORS
    for block in np.unique(records["block"]):
        mine = records["block"] == block
        core = free.index(min(free))
        trace["core"][mine] = core
        for name in ("issue", "start", "end"):
            trace[name][mine] += free[core]
        free[core] = int(trace["end"][mine].max())
    return trace
