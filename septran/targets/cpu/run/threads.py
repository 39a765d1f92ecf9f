"""Threads of parallel loops: those of torch's OpenMP, else of TVM's pool.

TVM's pool has as many threads as this process may use cores; launcher.py says when which runs.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi

from septran.targets.cpu.run.launcher import launcher

SPINS = 1000
"""How often an idle thread of the pool looks for work before it sleeps (some microseconds).

TVM's own default is 300,000, with a yield between any two: the thread then shares a core
with whoever else runs there for milliseconds, and the scheduler sees no reason to part them.
"""


def usable_cores() -> int:
    """Cores that the affinity mask allows (TVM itself would take half of all)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_all_cores() -> None:
    """Let the pool have every usable core, unless the environment says otherwise.

    Its threads are not bound: in several processes at once they would all be to the same cores.
    """
    _survive_forks()
    os.environ.setdefault("TVM_NUM_THREADS", str(usable_cores()))
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", str(SPINS))
    os.environ.setdefault("TVM_BIND_THREADS", "0")


def share_threads(arguments: Sequence[Any]) -> None:
    """Leave parallel loops to torch's threads from the first call with a tensor of torch's on.

    Not as soon as torch is imported, as TVM does that by itself: threads that wait for work
    spin longer in OpenMP's pool, which programs without torch would pay for where several
    processes share the cores.
    """
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())
    if _Sharing.possible and any(isinstance(argument, tensor) for argument in arguments):
        _Sharing.possible = False
        launcher().share()


class _Sharing:
    """Of this process."""

    possible = True
    """Not once torch's threads were looked for, nor in a process that was forked."""


def set_threads(count: int) -> None:
    """Run parallel loops on `count` threads from now on, at most as many as the pool has."""
    use_all_cores()
    launcher().limit.value = count
    _configure()(1, count)


@functools.cache
def _survive_forks() -> None:
    """A forked process has none of its parent's threads: a parallel loop would wait for ever.

    The thread that forked goes on alone there; threads that are started later have pools
    of their own. Such a process must end by ``os._exit``, as multiprocessing's do: at another
    exit the pool's own end waits for threads that are not there. OpenMP's pool knows nothing
    of forks, so TVM's takes its place.
    """
    if not hasattr(os, "register_at_fork"):
        return
    configure = _configure()

    threads = launcher()

    def alone() -> None:
        threads.part()
        _Sharing.possible = False
        wanted = os.environ.get("TVM_NUM_THREADS", str(usable_cores()))
        os.environ["TVM_NUM_THREADS"] = "1"  # for a thread that has no pool yet
        configure(1, 1)
        os.environ["TVM_NUM_THREADS"] = wanted

    os.register_at_fork(after_in_child=alone)


def _configure() -> Callable[[int, int], None]:
    """TVM's function that sizes the pool, which is there once TVM itself is loaded."""
    import tvm  # noqa: F401

    configure: Callable[[int, int], None] = tvm_ffi.get_global_func("runtime.config_threadpool")
    return configure
