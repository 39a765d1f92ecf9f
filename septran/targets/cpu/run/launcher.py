"""Parallel loops on the OpenMP threads that torch has, so that two pools do not fight.

Idle threads of OpenMP's pool and of TVM's both spin for a while in expectation of more work.
On the same cores either then keeps the other from running: a product of 0.1 ms takes several
right after one of torch's operations. So where a kernel is called with torch's tensors, torch's
pool runs its loops, too, as many threads as `torch.set_num_threads` or OMP_NUM_THREADS say, on
as many cores as the calling thread may use. Each has a part of the loop, in pieces; who is ready
takes those of threads that are late. Where another busy process has a core, a thread less is
taken for a while: OpenMP's threads spin for milliseconds at the end of every loop, and where two
share a core, one keeps the other from arriving.

In programs without torch's tensors, and where torch has no OpenMP, TVM's pool does. Either way a
thread that wakes on the core of another one of the loop is moved to a core of its own. Code from a
cache or an archive calls the same launcher, as it looks the function up when it is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import tvm_ffi

SLOTS = (
    "TVMBackendParallelLaunch",
    "GOMP_parallel",
    "threads",
    "omp_get_thread_num",
    "TVMFFIErrorSetRaisedFromCStr",
    "clock_gettime",
    "sched_getaffinity",
    "sched_getcpu",
    "sched_setaffinity",
)
"""The functions that ``launcher.ll`` calls, in its order. Without the second TVM's pool works."""

_OPENMP = SLOTS.index("GOMP_parallel")
_OF_TORCH = SLOTS[_OPENMP + 1 : _OPENMP + 3]
_COUNT = "_ZN2at15get_num_threadsEv"
"""`at::get_num_threads()`: what `torch.set_num_threads` set, in any thread of Python's."""

PIECES = 16
"""Pieces of a loop for each thread. A piece has a whole number of iterations, so few pieces would
be uneven: with 16 and two threads, one waits for at most a sixteenth of its work."""
LOSS = 1_000_000
"""Nanoseconds without work, from which on a launch asks whether a thread is too many."""
PATIENCE = 16
"""One thread less is taken for this many times the time that a launch lost."""
SETTLING = 10_000_000
"""Nanoseconds after a thread was moved to a core of its own in which no other one is: moving takes
some ten microseconds, in vain where other processes have the cores."""


@dataclass(frozen=True)
class Launcher:
    """The code of ``launcher.ll`` in this process."""

    module: Any
    """TVM's module of the code, which stays in memory as long as this object does."""
    slots: Any
    """An array of `SLOTS`' addresses."""
    limit: ctypes.c_int32
    """As many threads as a kernel takes at most; 0: as many as there are."""
    left_out: ctypes.c_int32
    """How many of torch's threads are not taken for now, as other processes have their cores."""

    def share(self) -> None:
        """Let torch's OpenMP run parallel loops, if torch is there and has one."""
        library = _torch_library()
        if library is None:
            return
        found = {name: _address(library, name) for name in _OF_TORCH}
        found["threads"] = _address(library, _COUNT) or _address(library, "omp_get_max_threads")
        openmp = _address(library, SLOTS[_OPENMP])
        if openmp is None or None in found.values():
            return
        for name, address in found.items():
            self.slots[SLOTS.index(name)] = address
        self.slots[_OPENMP] = openmp  # the last, as kernels may be running

    def part(self) -> None:
        """Let TVM's pool run parallel loops from now on."""
        self.slots[_OPENMP] = None

    @property
    def shares(self) -> bool:
        """Whether torch's OpenMP runs parallel loops."""
        return self.slots[_OPENMP] is not None


@functools.cache
def launcher() -> Launcher:
    """The launcher, which all kernels that are loaded from now on call."""
    # functools.cache may run a function in two threads at once, and there is one launcher only.
    with _making:
        return _launcher()


@functools.cache
def _launcher() -> Launcher:
    import tvm

    # Layout and triple must be those of TVM's own code generator.
    empty = tvm.get_global_func("codegen.LLVMModuleCreate")("llvm", "launcher")
    header = [s for s in empty.inspect_source("ll").splitlines() if s.startswith("target ")]
    text = Template(Path(__file__).with_name("launcher.ll").read_text(encoding="utf-8")).substitute(
        pieces=PIECES,
        loss=LOSS,
        patience=PATIENCE,
        settling=SETTLING,
        clock=time.CLOCK_MONOTONIC,
    )
    with tempfile.NamedTemporaryFile("w", suffix=".ll") as file:
        file.write("\n".join([*header, text]))
        file.flush()
        module = tvm.get_global_func("ffi.Module.load_from_file.ll")(file.name, "ll")
    made = Launcher(
        module,
        (ctypes.c_void_p * len(SLOTS)).from_address(module["slots"]()),
        ctypes.c_int32.from_address(module["limit"]()),
        ctypes.c_int32.from_address(module["left_out"]()),
    )
    runtime = ctypes.CDLL(None)  # TVM loads its own for everybody
    ffi = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    for name in (SLOTS[0], "clock_gettime", *(s for s in SLOTS if s.startswith("sched_"))):
        made.slots[SLOTS.index(name)] = _address(runtime, name)
    raised = "TVMFFIErrorSetRaisedFromCStr"
    made.slots[SLOTS.index(raised)] = _address(ffi, raised)
    # Of several registrations of a name the last counts. tvm/ffi/extra/c_env_api.h
    address = ctypes.c_void_p(module["launch"]())
    ffi.TVMFFIEnvModRegisterContextSymbol(f"__{SLOTS[0]}".encode(), address)
    return made


_making = threading.Lock()


def _torch_library() -> ctypes.CDLL | None:
    """The library of torch's CPU operators; None where torch is not in the process."""
    torch = sys.modules.get("torch")
    folder = getattr(torch, "__file__", None)
    if folder is None or not hasattr(os, "RTLD_NOLOAD"):
        return None
    try:  # NOLOAD: it is there already, or nothing is to be loaded
        place = Path(folder).parent / "lib" / "libtorch_cpu.so"
        return ctypes.CDLL(str(place), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None


def _address(library: ctypes.CDLL, name: str) -> int | None:
    """The address of a function in `library` or in what it was linked with.

    Functions that are preloaded come first, as they do for the library itself.
    """
    for place in (ctypes.CDLL(None), library):
        try:
            return ctypes.cast(getattr(place, name), ctypes.c_void_p).value
        except AttributeError:
            continue
    return None
