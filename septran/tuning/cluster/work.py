"""Requests to processes of a cluster, asked as if they ran here."""

from __future__ import annotations

import contextlib
import math
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from septran.machine.model import Machine
from septran.runtime.signature import Signature
from septran.runtime.stages import Stages
from septran.tuning.cluster.engines import JobEngine, engine_of
from septran.tuning.cluster.hosts import Host, that_builds, this_host
from septran.tuning.cluster.jobs import ELSEWHERE, ClusterJob
from septran.tuning.cluster.parts import KernelParts
from septran.tuning.measuring import MeasuringWorker, Stopped

POLL_SECONDS = 0.2
GRACE_SECONDS = 60.0
"""Beside the time that a job may run, that for its way and for those before it on its host."""
BUILD_SECONDS = 300.0
"""For how long one kernel may be compiled."""
TRIES = 3
"""How often a job is begun where the engine is lost meanwhile."""

Given = TypeVar("Given")
Result = TypeVar("Result")


class ClusterWorker(MeasuringWorker):
    """Answers requests by jobs; what no process of the cluster may run is run here."""

    def __init__(
        self,
        engine: JobEngine,
        module: str,
        *,
        needs: Host | None = None,
        timed: bool = False,
        sensible: Callable[[Mapping[str, Any]], bool] = lambda _: True,
        grace: float = GRACE_SECONDS,
    ) -> None:
        """`sensible` is false for an answer that no such process gives."""
        # What nothing over there may run answers here, in a process of the same module.
        super().__init__((sys.executable, "-m", module))
        self.engine = engine
        self._job = ClusterJob(module, {}, 0.0, needs or Host(), timed=timed)
        self._sensible, self._grace = sensible, grace
        self._ended = threading.Event()
        self._here = threading.Lock()

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer, or what happened instead; raises Stopped.

        A kernel's file goes along, and what is written into the folder of results comes back.
        """
        job = _with_files(replace(self._job, request=request, seconds=seconds))
        found = self.run(job)
        if found is None:
            with self._here:
                return super().ask(request, seconds)
        for name, content in found.pop("files", {}).items():
            if request.get("results"):
                (Path(request["results"]) / Path(name).name).write_bytes(content)
        return {k: v for k, v in found.items() if k not in ("spent", "process")}

    def run(self, job: ClusterJob) -> dict[str, Any] | None:
        """Return a job's answer, or what became of it; None where nothing may run it."""
        for _ in range(TRIES):
            try:
                pending = self.engine.submit(job)
                if pending is None:
                    return None
                found = self._awaited(pending, job.seconds + self._grace)
            except Stopped:
                raise
            except Exception as error:  # of the engine, or of a worker that is no more
                if self.engine.lost(error):
                    continue
                message = f"its worker was lost: {type(error).__name__}: {error}"
                return {"kind": "crashed", "message": message.splitlines()[0][:200]}
            return self._judged(found)
        return {"kind": "crashed", "message": f"the cluster was lost {TRIES} times"}

    def _awaited(self, pending: Any, seconds: float) -> Any:
        end = time.monotonic() + seconds
        while True:
            if self._ended.is_set() or self.stopped():
                pending.cancel()
                raise Stopped
            try:
                return pending.result(POLL_SECONDS)
            except TimeoutError:
                if pending.done():  # it came meanwhile, or the error is the job's own
                    return pending.result()
            if time.monotonic() > end:
                pending.cancel()
                return {"kind": "timed out", "message": f"no answer after {seconds:g} s"}

    def _judged(self, found: Any) -> dict[str, Any] | None:
        """An answer that makes sense; that of a worker that says anything is a breakdown."""
        if isinstance(found, dict) and found.get("kind") == ELSEWHERE:
            return None
        broken = isinstance(found, dict) and found.get("kind") in ("crashed", "timed out", "failed")
        files = found.get("files", {}) if isinstance(found, dict) else None
        right = isinstance(files, dict) and all(isinstance(b, bytes) for b in files.values())
        if right and (broken or self._sensible(found)):
            return dict(found)
        return {"kind": "crashed", "message": f"its worker answers nonsense: {found!r:.100}"}

    def close(self) -> None:
        """Give up what is still asked, and end the process that was started here."""
        self._ended.set()
        super().close()


def _with_files(job: ClusterJob) -> ClusterJob:
    """A job with the file of the kernel that its request names, and a folder for results."""
    request, files = dict(job.request), {}
    if "kernel" in request:
        files["kernel.zip"] = Path(request["kernel"]).read_bytes()
        request["kernel"] = "kernel.zip"
    if request.get("results"):
        request["results"] = "results"
    paths = tuple(key for key in ("kernel", "results") if request.get(key))
    return replace(job, request=request, files=files, paths=paths)


class Builders:
    """Compiles kernels on the cluster, each wherever code for its machine can be made."""

    def __init__(self, engine: JobEngine, machine: Machine) -> None:
        self.worker = ClusterWorker(engine, "septran.tuning.cluster.builder")
        self._needs = that_builds(machine)

    def save(self, signature: Signature, stages: Stages, path: Path) -> str:
        """Write a kernel's file to `path`; returns why it could not be made, or nothing.

        Raises Stopped. A program that cannot leave this process is compiled here.
        """
        parts = KernelParts.of(signature, stages)
        try:
            content = parts.to_bytes()
        except (TypeError, AttributeError, pickle.PicklingError):
            parts.save(path)
            return ""
        job = ClusterJob(
            "septran.tuning.cluster.builder", {"parts": "parts", "results": "results"},
            BUILD_SECONDS, self._needs, {"parts": content}, ("parts", "results"),
        )  # fmt: skip
        found = self.worker.run(job)
        if found is None:
            parts.save(path)
            return ""
        kernel = found.get("files", {}).get("results/kernel.zip")
        if kernel is None:
            return f"{found['kind']}: {found.get('message', 'no kernel came back')}"
        path.write_bytes(kernel)
        return ""

    def close(self) -> None:
        """Give up what is still asked."""
        self.worker.close()


@contextlib.contextmanager
def cluster_worker(
    workers: Any,
    here: MeasuringWorker,
    module: str,
    sensible: Callable[[Mapping[str, Any]], bool],
    needs: Host | None = None,
) -> Iterator[tuple[MeasuringWorker, int]]:
    """What answers a module's requests, and how many side by side: `here` without `workers`."""
    if workers is None:
        with here:
            yield here, 1
        return
    engine = engine_of(workers)
    needs = needs or Host(code=this_host().code)
    asked = ClusterWorker(engine, module, needs=needs, timed=False, sensible=sensible)
    try:
        yield asked, engine.width
    finally:
        asked.close()
        engine.close()


def is_time(found: Mapping[str, Any]) -> bool:
    """Whether an answer of `septran.tuning.worker` is one."""
    seconds, cycles = found.get("seconds"), found.get("cycles")
    if found.get("kind") == "wrong":
        return isinstance(found.get("message"), str)
    number = isinstance(seconds, int | float) and math.isfinite(seconds) and seconds > 0
    return found.get("kind") == "measured" and (number or (seconds is None and _counts(cycles)))


def _counts(cycles: Any) -> bool:
    return isinstance(cycles, int) and cycles > 0


def side_by_side(
    width: int,
    given: Iterable[Given],
    run: Callable[[Given], Result],
    done: Callable[[Given, Result], bool],
) -> None:
    """Run what comes, `width` at a time; the next is taken when one is done.

    `done` says whether to go on. What an iterator yields may depend on what was done until then.
    """
    if width == 1:
        for one in given:
            if not done(one, run(one)):
                return
        return
    pool = ThreadPoolExecutor(width)
    waiting: dict[Future[Result], Given] = {}
    try:
        goes_on = True
        for one in given:
            waiting[pool.submit(run, one)] = one
            while goes_on and len(waiting) >= width:
                first = next(as_completed(waiting))
                goes_on = done(waiting.pop(first), first.result())
            if not goes_on:
                break
        for left in as_completed(list(waiting)):
            done(waiting[left], left.result())
    finally:
        # After an interrupt, who closes the cluster ends what the threads still wait for.
        pool.shutdown(wait=False, cancel_futures=True)
