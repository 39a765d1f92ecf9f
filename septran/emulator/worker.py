"""Runs translated kernels in a process of its own: ``python worker.py SOCKET``.

A kernel is native code: one that is wrong may fault, abort or run on for ever, and ends this
process instead of the user's. The script needs nothing but the standard library, so that it starts
in the time of a Python. Each request comes with a file of shared memory, which is mapped where the
request says, so that addresses in arguments and tensor maps are the same on both sides.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import mmap
import os
import select
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any

LENGTH = struct.Struct("<Q")
"""Before each message: its bytes."""
PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE
FIXED = 0x10 | (0x100000 if sys.platform == "linux" else 0)
"""MAP_FIXED, and MAP_FIXED_NOREPLACE where there is such a thing."""
FAILED = ctypes.c_void_p(-1).value


def _native() -> Any:
    """The module beside this one; the package around it is not wanted here."""
    path = Path(__file__).with_name("native.py")
    spec = importlib.util.spec_from_file_location("septran_emulator_native", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class MappedMemory:
    """The shared file, mapped at a fixed address as long as a request is worked on."""

    def __init__(self, file: int, address: int, size: int) -> None:
        self.c = ctypes.CDLL(None, use_errno=True)
        self.c.mmap.restype = ctypes.c_void_p
        self.c.mmap.argtypes = [
            ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long,
        ]  # fmt: skip
        self.c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.address, self.size = address, size
        found = self.c.mmap(address, size, PROTECTION, mmap.MAP_SHARED | FIXED, file, 0)
        if found in (None, FAILED) or found != address:
            raise OSError(ctypes.get_errno(), f"no {size} bytes at {address:#x}")

    def close(self) -> None:
        """Unmap it."""
        self.c.munmap(self.address, self.size)


class EmulatorWorker:
    """Answers one request after another."""

    def __init__(self) -> None:
        self.native = _native()
        self.libraries: dict[str, Any] = {}

    def answer(self, request: dict[str, Any], file: int) -> tuple[dict[str, Any], list[bytes]]:
        """Run the launches of a call until one of them goes wrong."""
        memory = MappedMemory(file, request["memory"], request["memory_bytes"])
        try:
            path = request["library"]
            if path not in self.libraries:
                self.libraries[path] = self.native.NativeLibrary(Path(path))
            library = self.libraries[path]
            results, blobs = [], []
            for launch in request["launches"]:
                result, found = self.launch(library, request, launch)
                results.append(result)
                blobs += found
                # As on a GPU: behind a fault nothing of a stream runs any more.
                if result["fault"]:
                    break
            return {"results": results, "libraries": len(self.libraries)}, blobs
        finally:
            memory.close()

    def launch(
        self, library: Any, request: dict[str, Any], launch: dict[str, Any]
    ) -> tuple[dict[str, Any], list[bytes]]:
        """One kernel: what it did as plain data, its bank conflicts and its trace as bytes."""
        values = [
            self.native.aligned_copy(bytes.fromhex(d), align) for d, align in launch["arguments"]
        ]
        pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        buffers = [self.native.EmulatedArray(*b) for b in request["buffers"]]
        table = (self.native.EmulatedArray * max(1, len(buffers)))(*buffers)
        three, base = ctypes.c_uint32 * 3, library.base
        asked = self.native.Request(
            entry=library.entry(launch["kernel"]), arguments=ctypes.addressof(pointers),
            grid=three(*launch["grid"]), block=three(*launch["block"]),
            buffers=len(buffers), buffer=ctypes.addressof(table), memory=request["memory"],
            memory_bytes=request["memory_bytes"], crash=request["crash"], image=base,
            **{name: launch[name] for name in self.native.PLAIN},
        )  # fmt: skip
        result = library.c.emu_launch(ctypes.addressof(asked))
        try:
            return library.outcome(result, base), library.blobs(result)
        finally:
            library.c.emu_free(result)


def receive(channel: socket.socket) -> tuple[dict[str, Any], int]:
    """A request and its file; raises EOFError where the other side is gone."""
    first, files, _, _ = socket.recv_fds(channel, LENGTH.size, 1)
    if len(first) < LENGTH.size:
        raise EOFError
    data = bytearray()
    (size,) = LENGTH.unpack(first)
    while len(data) < size:
        part = channel.recv(min(1 << 20, size - len(data)))
        if not part:
            raise EOFError
        data += part
    request: dict[str, Any] = json.loads(data)
    return request, files[0]


def send(channel: socket.socket, head: dict[str, Any], blobs: list[bytes]) -> None:
    """An answer: plain data, then bytes of the lengths that it names."""
    data = json.dumps({**head, "blobs": [len(b) for b in blobs]}).encode()
    channel.sendall(LENGTH.pack(len(data)) + data)
    for blob in blobs:
        channel.sendall(blob)


def _end_with_the_parent(channel: socket.socket) -> None:
    """End as soon as the other side is gone, whatever runs: nobody waits for it."""
    poll, parent = select.poll(), os.getppid()
    poll.register(channel, select.POLLHUP | select.POLLERR)
    while os.getppid() == parent:
        if poll.poll(1000):
            break
    os._exit(0)


def main() -> None:
    """Answer requests until there are no more."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    # A thread, as the kernel may keep this one busy for ever.
    watch = threading.Thread(target=_end_with_the_parent, args=(channel.dup(),), daemon=True)
    watch.start()
    worker = EmulatorWorker()
    while True:
        try:
            request, file = receive(channel)
        except (EOFError, ConnectionError):
            break
        try:
            head, blobs = worker.answer(request, file)
        except (OSError, MemoryError) as error:
            head, blobs = {"refused": f"{type(error).__name__}: {error}"}, []
        finally:
            os.close(file)
        send(channel, head, blobs)
    os._exit(0)


if __name__ == "__main__":
    main()
