"""The processes in which kernels are emulated: started when needed, kept for the next call.

A worker serves one call at a time, and one worker is enough for a program with one thread. After
a fork the child starts workers of its own. A worker ends when the process that started it does,
or when it has loaded so many libraries that a fresh one is better; it leaves no file behind.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran.emulator.errors import EmulationError
from septran.emulator.worker import LENGTH

WORKER = Path(__file__).with_name("worker.py")
ADDRESS = 1 << 36
"""Where the emulated global memory lies in a worker: far from all that a Python maps."""
MOST_LIBRARIES = 64
"""A worker that has loaded so many ends: each takes of the room for thread-local data."""
CRASH = struct.Struct("<Qqqqqqq")
"""What a fault leaves at the start of the memory, as ``Crash`` in runtime/interface.h."""
CRASH_MAGIC = 0x5E97A4DEAD
POLL_SECONDS = 0.5
"""Seconds between looks at signals, which may come to another thread than the one that waits."""
DUMP_SECONDS = 1.0
"""Seconds that a worker has to say where it is when it is stopped."""


class CrashError(EmulationError):
    """A kernel ended the process that emulated it, or did not end in time."""

    code = "SEP597"


@dataclass(frozen=True)
class Crash:
    """The place of an emulation whose process died."""

    reason: str
    launch: int = 0
    """Number of the launch in its call."""
    block: int = -1
    thread: int = -1
    sites: tuple[int, ...] = ()
    """Addresses in the kernel's library: of the fault, and of the last known instruction."""


class MemoryFile:
    """A file of memory without a name, mapped here; a worker maps it at `ADDRESS`."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        if hasattr(os, "memfd_create"):
            self.file = os.memfd_create("septran-emulator", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as unnamed:
                self.file = os.dup(unnamed.fileno())
        try:
            os.ftruncate(self.file, self.size)
            self.bytes = mmap.mmap(self.file, self.size)
        except BaseException:
            os.close(self.file)
            raise

    def close(self) -> None:
        """Give the memory back once no array looks at it."""
        os.close(self.file)
        with contextlib.suppress(BufferError):
            self.bytes.close()


@dataclass
class _Worker:
    """A process, and the socket to it."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    libraries: int = 0

    @staticmethod
    def start() -> _Worker:
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        with theirs:
            process = subprocess.Popen(
                # Its own session: Ctrl-C in a terminal reaches the user's process alone. Without
                # the user's paths and site-packages Python starts in less time.
                [sys.executable, "-I", "-S", str(WORKER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        return _Worker(process, ours)

    def end(self) -> int:
        """Kill it; its return code where it had ended by itself."""
        self.channel.close()
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait()

    def ask(self, request: bytes, file: int, seconds: float | None) -> tuple[Any, list[bytes]]:
        """The answer, as plain data and bytes; EOFError if it dies, TimeoutError if it is late."""
        until = None if seconds is None else time.monotonic() + seconds
        # A file can only go with some bytes, for which the length serves.
        socket.send_fds(self.channel, [LENGTH.pack(len(request))], [file])
        self.channel.sendall(request)
        (size,) = LENGTH.unpack(self._read(LENGTH.size, until))
        head = json.loads(self._read(size, until))
        return head, [self._read(n, until) for n in head["blobs"]]

    def _read(self, size: int, until: float | None) -> bytes:
        data = bytearray()
        while len(data) < size:
            left = POLL_SECONDS
            if until is not None:
                left = min(left, max(0.0, until - time.monotonic()))
            if not select.select([self.channel], [], [], left)[0]:
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError
                continue
            part = self.channel.recv(min(1 << 20, size - len(data)))
            if not part:
                raise EOFError
            data += part
        return bytes(data)


@dataclass
class _Pool:
    """The workers of this process that are free."""

    free: list[_Worker] = field(default_factory=list)
    all: list[_Worker] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> _Worker:
        with self.lock:
            while self.free:
                worker = self.free.pop()
                if worker.process.poll() is None:
                    return worker
                self.all.remove(worker)
                worker.end()
        worker = _Worker.start()
        with self.lock:
            self.all.append(worker)
        return worker

    def give(self, worker: _Worker) -> None:
        with self.lock:
            if worker.libraries < MOST_LIBRARIES:
                self.free.append(worker)
                return
        self.drop(worker)

    def drop(self, worker: _Worker) -> int:
        with self.lock:
            if worker in self.all:
                self.all.remove(worker)
        return worker.end()

    def end(self) -> None:
        for worker in self.all:
            worker.end()
        self.all, self.free = [], []

    def forget(self) -> None:
        """After a fork: the workers are the parent's, and see that it ends by its sockets alone."""
        for worker in self.all:
            worker.channel.close()
            worker.process.returncode = 0  # not ours to wait for
        self.__init__()  # type: ignore[misc]


_pool = _Pool()
atexit.register(_pool.end)
os.register_at_fork(after_in_child=_pool.forget)


def run(
    request: dict[str, Any], memory: MemoryFile, seconds: float | None
) -> tuple[Any, list[bytes]] | Crash:
    """Return what a worker answers, or what is known of its death."""
    data = json.dumps({**request, "crash": ADDRESS}).encode()
    worker = _pool.take()
    try:
        head, blobs = worker.ask(data, memory.file, seconds)
    except TimeoutError:
        return _stopped(worker, memory, f"it did not end within {seconds:g} s")
    except (EOFError, ConnectionError):
        code = _return_code(worker)
        why = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return _crash_record(memory, f"its native code ended the emulator's process: {why}")
    except BaseException:  # Ctrl-C: nobody wants the answer any more
        _pool.drop(worker)
        raise
    if "refused" in head:
        _pool.drop(worker)
        raise CrashError(f"the emulator cannot run this: {head['refused']}")
    worker.libraries = head["libraries"]
    _pool.give(worker)
    return head, blobs


def _stopped(worker: _Worker, memory: MemoryFile, why: str) -> Crash:
    """Stop a worker by a signal that makes it say where it is."""
    worker.process.send_signal(signal.SIGABRT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.process.wait(DUMP_SECONDS)
    _pool.drop(worker)
    return _crash_record(memory, why)


def _return_code(worker: _Worker) -> int:
    """The return code of a worker that hung up."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.process.wait(DUMP_SECONDS)
    return _pool.drop(worker)


def _crash_record(memory: MemoryFile, why: str) -> Crash:
    """Return what the signal handler wrote down."""
    magic, launch, block, thread, base, *sites = CRASH.unpack_from(memory.bytes, 0)
    if magic != CRASH_MAGIC:
        return Crash(why)
    return Crash(why, launch, block, thread, tuple(s - base for s in sites if s > base))
