"""Threads of parallel loops: those of torch's OpenMP, else of TVM's pool.

TVM's pool has as many threads as this process may use cores; launcher.py says when which runs.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tvm_ffi

from septran.targets.cpu.run.launcher import launcher

SPINS = 1000
"""How often an idle thread of the pool looks for work before it sleeps (some microseconds).

TVM's own default is 300,000, with a yield between any two: the thread then shares a core
with whoever else runs there for milliseconds, and the scheduler sees no reason to part them.
"""


GROUPS, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Where Linux mounts its control groups, and says which of them this process is in."""


def usable_cores() -> int:
    """Cores that affinity and quota allow (TVM itself would take half of all)."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(allowed or 1, quota_cores() or sys.maxsize)


@functools.cache
def quota_cores(groups: Path = GROUPS, membership: Path = MEMBERSHIP) -> int:
    """Cores whose whole time the control groups of this process may use; 0: no limit.

    A part of a core counts as one. Containers are limited so; no affinity mask shows it.
    """
    limits = [limit for folder in _groups(groups, membership) for limit in _quotas(folder)]
    return min(limits, default=0)


def _groups(groups: Path, membership: Path) -> Iterator[Path]:
    """Folders of the groups that this process is in, of either version, and those around them.

    A container sees its own group at the top, while its membership may show the host's path.
    """
    lines = []
    with suppress(OSError):
        lines = membership.read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for top in (groups / controllers, groups / "unified") if controllers else (groups,):
            inner = top / path.lstrip("/")
            yield from (f for f in (inner, *inner.parents) if f.is_relative_to(top))


def _quotas(folder: Path) -> Iterator[int]:
    """Yield what a group's files allow: ``cpu.max`` of version 2, two files of version 1."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with suppress(OSError, ValueError):  # no such file, or "max"
            text = " ".join((folder / name).read_text(encoding="utf-8") for name in names)
            quota, period = map(int, text.split())
            if quota > 0 and period > 0:
                yield -(-quota // period)


def use_all_cores() -> None:
    """Let the pool have every usable core, unless the environment says otherwise.

    Its threads are not bound: in several processes at once they would all be to the same cores.
    """
    _prepare_launcher()
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
    """The sharing of threads in this process."""

    possible = True
    """Not once torch's threads were looked for, nor in a process that was forked."""


def set_threads(count: int) -> None:
    """Run parallel loops on `count` threads from now on, at most as many as the pool has."""
    use_all_cores()
    launcher().limit.value = min(count, quota_cores() or count)
    _configure()(1, count)


@functools.cache
def _prepare_launcher() -> None:
    """Once in a process, before the first kernel."""
    launcher().limit.value = quota_cores()
    _survive_forks()


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
