"""``kernel.check(guard=True)``: a kernel in a process of its own, between guard pages.

A read beyond a buffer is otherwise seen by nobody, as long as something is there.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from septran.runtime.signature import Specialisation
from septran.targets.registry import guarding_for

PATIENCE = 300
"""The number of seconds after which a kernel counts as one that never ends."""
COMMAND = (sys.executable, "-m", "septran.runtime.guard.worker")


def run_guarded(
    specialisation: Specialisation,
    arrays: Sequence[np.ndarray[Any, Any]],
    scalars: Sequence[float | int | bool],
) -> tuple[str, ...]:
    """Run twice, each buffer ending and then beginning at a guard page; return stray accesses.

    Results are written to `arrays`, and the answer also reports where those of the two runs
    differ.
    """
    program = specialisation.stages.tile_program
    backend = program.machine.backend
    code = guarding_for(backend).guarded(program)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "module.json").write_text(code.text, "utf-8")
        (folder / "functions.so").write_bytes(code.library)
        for number, array in enumerate(arrays):
            (folder / str(number)).write_bytes(array.tobytes())
        tensors = [
            {"name": tensor.name, "shape": array.shape, "dtype": tensor.dtype}
            for tensor, array in zip(specialisation.tensors, arrays, strict=True)
        ]
        request = {
            "folder": name, "backend": backend, "name": code.name, "arch": code.arch,
            "tensors": tensors,
            "rooms": [astuple(room) for room in code.rooms], "scalars": list(scalars),
        }  # fmt: skip
        fault = _WORKER.ask(request)
        if fault:
            return (f"{program.name} between guard pages: {fault}",)
        return tuple(_results(folder, specialisation, arrays))


def _results(
    folder: Path, specialisation: Specialisation, arrays: Sequence[np.ndarray[Any, Any]]
) -> list[str]:
    differing = []
    for number, (tensor, array) in enumerate(zip(specialisation.tensors, arrays, strict=True)):
        found = [(folder / f"{number}.{side}").read_bytes() for side in ("start", "end")]
        array[...] = np.frombuffer(found[1], array.dtype).reshape(array.shape)
        if found[0] != found[1]:
            differing.append(f"{tensor.name} depends on where buffers lie")
    return differing


class _Worker:
    """A process that runs kernels one after another, replaced after it broke down."""

    def __init__(self) -> None:
        atexit.register(self.close)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def ask(self, request: Mapping[str, Any]) -> str | None:
        """Return the stray access of a kernel, or how its process ended; None if it was clean."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            # A process that has just ended: reading its answer below shows it.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stdout, selectors.EVENT_READ)
                if not waiting.select(PATIENCE):
                    self._end(process)
                    return f"it did not end within {PATIENCE} seconds"
            line = process.stdout.readline()
            if not line:
                return f"its process ended by {_signal(self._end(process))}"
            fault: str | None = json.loads(line)["touched"]
            if fault:
                self._end(process)
            return fault

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            if self._process is not None:
                self._end(self._process)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Let the process end, and return its exit status."""
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        try:
            status = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._process = None
        return status


_WORKER = _Worker()
"""One worker for all kernels, as starting it takes longer than most runs."""


def _signal(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"status {status}"
