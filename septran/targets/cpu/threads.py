"""TVM's thread pool: as many threads as this process may use cores."""

from __future__ import annotations

import importlib
import os

import tvm_ffi


def usable_cores() -> int:
    """Cores that the affinity mask allows (TVM itself would take half of all)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_all_cores() -> None:
    """Let the pool have every usable core, unless ``TVM_NUM_THREADS`` says otherwise."""
    os.environ.setdefault("TVM_NUM_THREADS", str(usable_cores()))


def set_threads(count: int) -> None:
    """Run parallel loops on `count` threads from now on, at most as many as the pool has."""
    use_all_cores()
    importlib.import_module("tvm")  # its library registers the function
    tvm_ffi.get_global_func("runtime.config_threadpool")(1, count)
