"""Parallel loops on the OpenMP threads that torch has, so that two pools do not fight.

Idle threads of OpenMP's pool and of TVM's both spin for a while in expectation of more work.
On the same cores either then keeps the other from running: a product of 0.1 ms takes several
right after one of torch's operations. So where a kernel is called with torch's tensors, torch's
pool runs its loops, too, as many threads as `torch.set_num_threads` or OMP_NUM_THREADS say.
In programs without, and where torch has no OpenMP, TVM's pool does. Code from a cache or an
archive calls the same launcher, as it looks the function up when it is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm_ffi

SLOTS = (
    "TVMBackendParallelLaunch",
    "TVMBackendParallelBarrier",
    "GOMP_parallel",
    "threads",
    "omp_get_thread_num",
    "omp_get_num_threads",
    "GOMP_barrier",
    "TVMFFIErrorSetRaisedFromCStr",
)
"""The functions that ``launcher.ll`` calls, in its order. Without the third TVM's pool works."""

_OPENMP = SLOTS.index("GOMP_parallel")
_COUNT = "_ZN2at15get_num_threadsEv"
"""`at::get_num_threads()`: what `torch.set_num_threads` set, in any thread of Python's."""


@dataclass(frozen=True)
class Launcher:
    """The code of ``launcher.ll`` in this process."""

    module: Any
    """Keeps the code."""
    slots: Any
    """An array of `SLOTS`' addresses."""
    limit: ctypes.c_int32
    """As many threads as a kernel takes at most; 0: as many as there are."""

    def share(self) -> None:
        """Let torch's OpenMP run parallel loops, if torch is there and has one."""
        library = _torch_library()
        if library is None:
            return
        found = {name: _address(library, name) for name in SLOTS[_OPENMP + 1 : -1]}
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
    with _making:
        return _launcher()


@functools.cache
def _launcher() -> Launcher:
    import tvm

    # Layout and triple must be those of TVM's own code generator.
    empty = tvm.get_global_func("codegen.LLVMModuleCreate")("llvm", "launcher")
    header = [s for s in empty.inspect_source("ll").splitlines() if s.startswith("target ")]
    text = Path(__file__).with_name("launcher.ll").read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".ll") as file:
        file.write("\n".join([*header, text]))
        file.flush()
        module = tvm.get_global_func("ffi.Module.load_from_file.ll")(file.name, "ll")
    made = Launcher(
        module,
        (ctypes.c_void_p * len(SLOTS)).from_address(module["slots"]()),
        ctypes.c_int32.from_address(module["limit"]()),
    )
    runtime = ctypes.CDLL(None)  # TVM loads its own for everybody
    ffi = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    for library, name in ((runtime, SLOTS[0]), (runtime, SLOTS[1]), (ffi, SLOTS[-1])):
        made.slots[SLOTS.index(name)] = _address(library, name)
    # Of several registrations of a name the last counts. tvm/ffi/extra/c_env_api.h
    for name, function in ((SLOTS[0], "launch"), (SLOTS[1], "barrier")):
        address = ctypes.c_void_p(module[function]())
        ffi.TVMFFIEnvModRegisterContextSymbol(f"__{name}".encode(), address)
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
    """Of a function of `library` or of what it was linked with.

    Functions that are preloaded come first, as they do for the library itself.
    """
    for place in (ctypes.CDLL(None), library):
        try:
            return ctypes.cast(getattr(place, name), ctypes.c_void_p).value
        except AttributeError:
            continue
    return None
