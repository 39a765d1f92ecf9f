"""What carries jobs to other processes: an executor of `concurrent.futures`, or Dask's."""

from __future__ import annotations

import re
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager
from multiprocessing import get_context
from typing import Any, Protocol

from septran.argument_checks import WrongArgumentError
from septran.tuning.cluster.jobs import ClusterJob, answer

SCHEME = "dask://"


class PendingAnswer(Protocol):
    """The answer of a job that may not be there yet, as of `concurrent.futures`."""

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """The answer; raises TimeoutError where it is not there after so many seconds."""

    def done(self) -> bool:
        """Whether there is an answer, or none will come."""

    def cancel(self) -> Any:
        """Give up the job, as far as that can be done."""


class JobEngine(Protocol):
    """A way to run jobs in other processes."""

    width: int
    """The number of jobs that run side by side."""

    def submit(self, job: ClusterJob) -> PendingAnswer | None:
        """Begin a job; None where no process may run it."""

    def lost(self, error: Exception) -> bool:
        """Whether an error is the engine's and not the job's, and a job may be begun once more."""

    def close(self) -> None:
        """End what this engine started."""


class ExecutorEngine:
    """Any executor of `concurrent.futures`, whose processes are where it put them."""

    def __init__(self, executor: Executor, width: int, *, ends: bool = False) -> None:
        """`ends` is whether closing shuts it down."""
        self.executor, self.width, self._ends = executor, width, ends
        self._broken = False

    def submit(self, job: ClusterJob) -> PendingAnswer | None:
        """Begin a job; None once the executor has broken down."""
        if self._broken:
            return None
        try:
            return self.executor.submit(answer, job)
        except (BrokenExecutor, RuntimeError):  # broken, or shut down
            self._broken = True
            return None

    def lost(self, error: Exception) -> bool:
        """An executor that broke down does not come back; its job counts as the culprit."""
        self._broken |= isinstance(error, BrokenExecutor)
        return False

    def close(self) -> None:
        """Shut down an executor that was made for this."""
        if self._ends:
            # What still runs is ended by its own limit.
            self.executor.shutdown(wait=True, cancel_futures=True)


def engine_of(workers: Any) -> JobEngine:
    """The engine that a caller means.

    A number of processes here, an executor, or ``dask://HOST:PORT``. Raises WrongArgumentError.
    """
    if isinstance(workers, int) and not isinstance(workers, bool) and workers > 0:
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        engine: JobEngine = ExecutorEngine(pool, workers, ends=True)
    elif isinstance(workers, str) and re.fullmatch(r"dask://[^\s/]+:\d+", workers):
        from septran.tuning.cluster.dask import DaskEngine

        engine = DaskEngine("tcp://" + workers.removeprefix(SCHEME))
    elif isinstance(workers, Executor):
        width = getattr(workers, "_max_workers", 1)
        engine = ExecutorEngine(workers, width if isinstance(width, int) else 1)
    elif isinstance(workers, AbstractContextManager) and hasattr(workers, "scheduler_info"):
        from septran.tuning.cluster.dask import DaskEngine

        engine = DaskEngine(client=workers)
    else:
        raise WrongArgumentError(
            f"workers is {workers!r}, neither a number of processes nor an executor",
            hint="write workers=4, a concurrent.futures.Executor, or 'dask://scheduler:8786'",
        )
    return engine
