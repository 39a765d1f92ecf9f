"""Measurement of candidates in a process of its own, whatever they do to it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

POLL_SECONDS = 0.1
"""The number of seconds between checks whether someone asked to stop."""
COMMAND = (sys.executable, "-m", "septran.tuning.worker")


class Stopped(Exception):
    """Someone asked to stop while a candidate was being measured."""


class MeasuringWorker:
    """A process that runs candidates one after another, replaced after it broke down."""

    def __init__(
        self, command: Sequence[str] = COMMAND, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """Starts nothing yet. `stopped` is called ten times a second."""
        self._command = tuple(command)
        self.stopped = stopped
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Return its answer, or what happened instead: ``crashed`` or ``timed out``.

        Raises Stopped.
        """
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            return self._crashed()
        line = self._line(process, time.monotonic() + seconds)
        if line is None:
            self.close()
            message = f"not done after {seconds:g} s: it was ended"
            return {"kind": "timed out", "message": message}
        try:
            answer = json.loads(line)
        except ValueError:
            return self._crashed()
        return dict(answer)

    @property
    def running(self) -> bool:
        """Whether its process was started, and has not broken down."""
        return self._process is not None

    def close(self) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not read before it broke down
                    pipe.close()

    def __enter__(self) -> MeasuringWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            folders = os.pathsep.join(path for path in sys.path if path)
            # A session of its own, so that `close` ends what it started, too; the same packages as
            # here.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": folders},
                start_new_session=True,
            )  # fmt: skip
        return self._process

    def _line(self, process: subprocess.Popen[bytes], end: float) -> bytes | None:
        """Return the next line, its part before the process ended, or None after the time limit."""
        assert process.stdout is not None
        read = bytearray()
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while not read.endswith(b"\n"):
                if self.stopped():
                    self.close()
                    raise Stopped
                if time.monotonic() > end:
                    return None
                if ready.select(POLL_SECONDS):
                    some = os.read(process.stdout.fileno(), 1 << 16)
                    if not some:
                        break
                    read += some
        return bytes(read)

    def _crashed(self) -> dict[str, Any]:
        process = self._process
        code = 0
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it only stopped to answer
                code = process.wait(1)
        self.close()
        if code < 0:
            return {"kind": "crashed", "message": f"ended by {signal.Signals(-code).name}"}
        return {"kind": "crashed", "message": f"its process ended with code {code}"}
