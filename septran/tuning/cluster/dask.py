"""Jobs on the workers of a Dask scheduler (`pip install "septran[cluster]"`)."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from septran.errors import CallError
from septran.tuning.cluster.engines import PendingAnswer
from septran.tuning.cluster.hosts import Host, this_host
from septran.tuning.cluster.jobs import ClusterJob, answer

CONNECT_SECONDS = 20.0
"""For how long a scheduler or a worker is waited for, also one that restarts."""
HOST_SECONDS = 120.0
"""For how long a worker that came may take to say what host it is on: it imports the package."""
LOOK_SECONDS = 2.0
"""How often it is looked whether the worker of a job is still there."""
WAIT_SECONDS = 0.2


class NoClusterError(CallError):
    """No scheduler of a cluster answers, or what speaks to it is not installed."""

    code = "SEP685"


class WorkerGoneError(Exception):
    """The worker of a job is no more."""


class PlacedAnswer:
    """The answer of a job on one worker."""

    def __init__(self, engine: DaskEngine, where: str, future: Any) -> None:
        self._engine, self._where, self._future = engine, where, future
        self._looked, self._scheduler = time.monotonic(), engine.scheduler

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """The answer; raises TimeoutError, and WorkerGoneError where none can come any more."""
        try:
            found: dict[str, Any] = self._future.result(timeout)
        except TimeoutError:
            now = time.monotonic()
            if not self.done() and now > self._looked + LOOK_SECONDS:
                self._looked = now
                if self._where not in self._engine.addresses():
                    self._engine.left(self._where)
                    if self._engine.scheduler != self._scheduler:
                        raise CancelledError("the scheduler is another one") from None
                    raise WorkerGoneError(f"{self._where} is no more") from None
            raise
        except BaseException:
            self._engine.left(self._where)
            raise
        self._engine.left(self._where)
        return found

    def done(self) -> bool:
        """Whether there is an answer, or none will come."""
        return bool(self._future.done())

    def cancel(self) -> None:
        """Give up the job; a worker that does not answer gets no other one."""
        self._future.cancel()
        self._engine.left(self._where, hangs=True)


class DaskEngine:
    """The workers of one scheduler, each with what kind of host it is on."""

    def __init__(self, address: str = "", client: Any = None) -> None:
        """Connect; raises NoClusterError where nothing answers at `address`."""
        self._address, self._own = address, client is None
        self.scheduler = ""
        self._hosts: dict[str, Host] = {}
        self._asked: dict[str, tuple[Any, float]] = {}
        self._busy: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._client = self._connected() if client is None else client
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            self.close()
            hint = f"start one: dask worker {self._address} --nthreads 1"
            raise NoClusterError("the scheduler has no workers", hint=hint) from error
        end = time.monotonic() + CONNECT_SECONDS
        while self._unknown() and not (self._hosts and time.monotonic() > end):
            time.sleep(WAIT_SECONDS)
        self.width = max(1, len(self._hosts))

    def _connected(self) -> Any:
        try:
            from distributed import Client
        except ImportError as error:
            hint = 'pip install "septran[cluster]"'
            raise NoClusterError("dask:// needs distributed", hint=hint) from error
        # What it reports of workers that end is told by the candidates that this costs.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            make: Any = Client  # without types
            return make(self._address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise NoClusterError(
                f"no scheduler answers at {self._address}: {error}",
                hint="start one with `dask scheduler`, and workers with `dask worker`",
            ) from error

    def addresses(self) -> set[str]:
        """The workers that the scheduler has now."""
        found = self._client.scheduler_info(n_workers=-1)
        self.scheduler = found.get("id", "")
        return set(found["workers"])

    def submit(self, job: ClusterJob) -> PendingAnswer | None:
        """Begin a job on the idlest worker whose host suits it; None where there is none.

        Where none suits, those that have not said yet what host they are on are waited for.
        """
        while True:
            with self._lock:
                unknown = self._unknown()
                suited = [where for where, host in self._hosts.items() if host.suits(job.needs)]
                if suited:
                    where = min(suited, key=lambda one: self._busy[one])
                    self._busy[where] += 1
                    return PlacedAnswer(self, where, self._on(where, answer, job))
            if not unknown:
                return None
            time.sleep(WAIT_SECONDS)

    def _on(self, where: str, function: Callable[..., Any], *args: Any) -> Any:
        """The future of a call on one worker, which no other one gets."""
        return self._client.submit(
            function, *args, pure=False, retries=0, workers=[where], allow_other_workers=False
        )

    def left(self, where: str, *, hangs: bool = False) -> None:
        """A job is done with its worker; one that `hangs` gets no other until it answers."""
        with self._lock:
            self._busy[where] -= 1
            if hangs and self._hosts.pop(where, None) is not None:
                self._asked[where] = self._on(where, this_host), time.monotonic()

    def lost(self, error: Exception) -> bool:
        """Whether the scheduler went away; it is waited for then, as one restarts."""
        if not isinstance(error, CancelledError | OSError):
            return False  # KilledWorker, for one: the job has ended what it ran on
        end = time.monotonic() + CONNECT_SECONDS
        with self._lock:
            while time.monotonic() < end:
                with contextlib.suppress(Exception):
                    if self._own and self._client.status != "running":
                        self._client.close(timeout=1)
                        self._client = self._connected()
                    self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
                    return True
                time.sleep(0.2)
        return False

    def _unknown(self) -> bool:
        """Note the hosts of the workers that are there now; returns whether to wait for some."""
        with self._lock:
            there, now = self.addresses(), time.monotonic()
            for gone in (set(self._hosts) | set(self._asked)) - there:
                self._hosts.pop(gone, None)
                self._asked.pop(gone, None)
            for where in there - set(self._hosts) - set(self._asked):
                self._asked[where] = self._on(where, this_host), now + HOST_SECONDS
            for where, (future, _) in list(self._asked.items()):
                # One that cannot say it, as it has another version, stays with those asked.
                if future.status == "finished":
                    self._hosts[where] = future.result()
                    del self._asked[where]
            asked = self._asked.values()
            return any(not future.done() and now < end for future, end in asked)

    def close(self) -> None:
        """Leave the scheduler; its workers stay."""
        if self._own:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)
