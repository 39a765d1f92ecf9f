"""TVM's thread pool: as many threads as this process may use cores."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import tvm_ffi

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


def set_threads(count: int) -> None:
    """Run parallel loops on `count` threads from now on, at most as many as the pool has."""
    use_all_cores()
    _configure()(1, count)


@functools.cache
def _survive_forks() -> None:
    """A forked process has none of its parent's threads: a parallel loop would wait for ever.

    The thread that forked goes on alone there; threads that are started later have pools
    of their own. Such a process must end by ``os._exit``, as multiprocessing's do: at another
    exit the pool's own end waits for threads that are not there.
    """
    if not hasattr(os, "register_at_fork"):
        return
    configure = _configure()

    def alone() -> None:
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
