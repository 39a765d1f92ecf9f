"""A piece of work that runs on a host of a cluster, in a process of its own there."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran.tuning.cluster.hosts import Host, this_host
from septran.tuning.measuring import MeasuringWorker

ELSEWHERE = "elsewhere"
"""The outcome of a job that came to a host where it must not run."""


@dataclass(frozen=True)
class ClusterJob:
    """A request to a module that answers requests (`answering`)."""

    module: str
    """Run by ``python -m``; it may crash, hang or fill the memory."""
    request: Mapping[str, Any]
    seconds: float
    """After which its process is ended."""
    needs: Host = field(default_factory=Host)
    """The host that it needs."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Written into the job's folder; entries of `request` name them by `paths`."""
    paths: tuple[str, ...] = ()
    """The entries of `request` that are names in the job's folder."""
    timed: bool = False
    """Whether it takes times: of those, a host runs one after another."""


def answer(job: ClusterJob) -> dict[str, Any]:
    """Run a job on this host; returns what its process answers, with the files that it wrote."""
    here = this_host()
    if not here.suits(job.needs):
        return {"kind": ELSEWHERE, "message": f"{here} is not {job.needs}"}
    with tempfile.TemporaryDirectory(prefix="septran-job-") as name, _turn(job.timed):
        folder = Path(name)
        for path, content in job.files.items():
            (folder / path).write_bytes(content)
        for key in job.paths:
            if job.request[key] not in job.files:
                (folder / job.request[key]).mkdir(exist_ok=True)
        own = {k: str(folder / v) if k in job.paths else v for k, v in job.request.items()}
        began = time.monotonic()
        found = _process(job.module, own, job.seconds)
        found["files"] = {
            str(file.relative_to(folder)): file.read_bytes()
            for file in sorted(folder.rglob("*"))
            if file.is_file() and str(file.relative_to(folder)) not in job.files
        }
        return found | {"spent": time.monotonic() - began, "process": os.getpid()}


_lock = threading.Lock()
_workers: dict[str, MeasuringWorker] = {}
"""The processes that answer, by module; each is kept for the next job."""


def _process(module: str, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Ask the process of a module, one job after another."""
    with _lock:
        if module not in _workers:
            _workers[module] = MeasuringWorker((sys.executable, "-m", module))
        return _workers[module].ask(request, seconds)


@contextlib.contextmanager
def _turn(timed: bool) -> Iterator[None]:
    """Wait until no other process of this user on this host takes times."""
    if not timed or sys.platform == "win32":
        yield
        return
    import fcntl

    name = f"septran-measuring-{os.getuid()}.lock"
    with (Path(tempfile.gettempdir()) / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
