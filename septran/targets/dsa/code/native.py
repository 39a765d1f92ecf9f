"""Control programs as machine code that a C compiler made, with the recorder."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from septran.errors import TargetError
from septran.simulator.commands import RECORD, parameter_address
from septran.targets.dsa.code.codegen import SHORT_FLOATS, Code
from septran.targets.dsa.code.jit import rounded
from septran.targets.dsa.code.recorder import (
    BEGIN,
    FORGET,
    LOST,
    REFUSED,
    TAKE,
    line_macros,
    recorder_source,
)
from septran.targets.dsa.code.toolchain import as_utf8, compiler, run_compiler, scratch
from septran.targets.dsa.code.vendor import Vendor
from septran.temporary import opened_apart

Array = np.ndarray[Any, Any]
LIBRARY = "kernel.so"
SCALARS: Mapping[str, Any] = {
    "float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_uint8,
    **{f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}")
       for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(SHORT_FLOATS, ctypes.c_float),
}  # fmt: skip
_compiling = threading.Lock()


class RecordingError(TargetError):
    """There is no room for the commands of a kernel."""

    code = "SEP544"


class VendorRuleError(TargetError):
    """A call of the vendor's language breaks a rule of its reference."""

    code = "SEP548"


@dataclass(frozen=True)
class CProgram:
    """A control program that a C compiler compiled."""

    path: Path
    """The shared library."""
    function: str
    buffers: int
    scalars: tuple[str, ...]
    """Their dtypes."""
    library: Any = field(repr=False, compare=False)
    lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)
    """The recorder is one for each library, and ctypes lets other threads run."""

    @staticmethod
    def of(path: Path, function: str, buffers: int, scalars: Sequence[str]) -> CProgram:
        """Open a library; raises OSError where it was made for another system."""
        return CProgram(path, function, buffers, tuple(scalars), _opened(path))

    def __call__(self, core: int, scalars: Sequence[Any], tables: Sequence[Array] = ()) -> Array:
        """The records of one core; `tables` are the flat arrays of indices that it reads."""
        pointers = [ctypes.c_void_p(parameter_address(n)) for n in range(self.buffers)]
        pointers += [ctypes.c_void_p(table.ctypes.data) for table in tables]
        numbers = [SCALARS[t](rounded(t, v)) for t, v in zip(self.scalars, scalars, strict=True)]
        begin, take = getattr(self.library, BEGIN), getattr(self.library, TAKE)
        take.restype = ctypes.c_int64
        control = self.library[self.function]  # a fresh object: by item, not by attribute
        control.restype = None
        first = ctypes.c_void_p()
        with self.lock:
            begin(ctypes.c_int32(core))
            control(ctypes.c_int32(core), *pointers, *numbers)
            count = take(ctypes.byref(first))
            if count == REFUSED:
                raise self._refused()
            if count == LOST:
                raise RecordingError(f"no memory is left for the commands of {self.function}")
            size = count * RECORD.itemsize
            # Copied before the lock is given back: the next call records in the same place.
            records = ctypes.string_at(first.value, size) if count and first.value else b""
        return np.frombuffer(bytearray(records), RECORD)

    def _refused(self) -> VendorRuleError:
        """What the header of a vendor's language says of the first call that it does not allow."""
        problem = self.library.septran_problem
        problem.restype = ctypes.c_char_p
        return VendorRuleError((problem() or b"").decode("utf-8", "replace"))


def _opened(path: Path) -> Any:
    return opened_apart(path.read_bytes(), lambda copy: ctypes.CDLL(str(copy)))


def compile_code(vendor: Vendor, code: Code, buffers: int, scalars: Sequence[str]) -> CProgram:
    """The C of a kernel with the recorder of its machine; raises CompileError."""
    folder = Path(tempfile.mkdtemp(prefix=f"{code.name[:40]}-", dir=scratch()))
    # What lines.h includes is not included again: a header may be without a guard.
    once = code.text.replace(f'#include "{vendor.header}"\n', "\n", 1)
    _write(folder, "kernel.c", once)
    _write(folder, "lines.h", line_macros(vendor))
    library = folder / LIBRARY
    where = _header_folder(vendor)
    run_compiler(
        f"the C of {code.name}",
        ("-I", str(where), "-include", str(folder / "lines.h"), "-shared",
         str(folder / "kernel.c"), str(recorder(vendor)), "-o", str(library)),
        {str(where): str(vendor.header_path.parent)},
    )  # fmt: skip
    program = CProgram.of(library, code.name, buffers, scalars)
    # Before the process ends, which may make thousands; `scratch` goes with the process.
    weakref.finalize(program, _let_go, program.library, folder, os.getpid()).atexit = False
    return program


def _let_go(library: Any, folder: Path, process: int) -> None:
    """Give back the memory of the records, and the folder: libraries stay loaded."""
    library[FORGET]()
    if os.getpid() == process:  # not the parent's, from a process that was forked
        shutil.rmtree(folder, ignore_errors=True)


def recorder(vendor: Vendor) -> Path:
    """The recorder of a machine as an object file, compiled once in a process."""
    text, header = recorder_source(vendor), vendor.header_files.digest
    key = hashlib.sha256(repr((text, header, compiler())).encode()).hexdigest()[:16]
    where = _header_folder(vendor)
    with _compiling:
        return _recorder(key, vendor, text, where)


def _recorder(key: str, vendor: Vendor, text: str, where: Path) -> Path:
    folder = scratch() / f"recorder-{key}"
    found = folder / "recorder.o"
    if not found.exists():
        folder.mkdir(exist_ok=True)
        source, part = _write(folder, "recorder.c", text), folder / "part.o"
        what = f"the recorder of {vendor.machine.name}, whose header is {vendor.header_path}"
        options = ("-c", "-I", str(where), str(source), "-o", str(part))
        run_compiler(what, options, {str(where): str(vendor.header_path.parent)})
        # Renamed when it is complete, as whatever is found above is used.
        part.replace(found)
    return found


def _header_folder(vendor: Vendor) -> Path:
    """Return a folder with the header, and nothing else of the folder that it comes from."""
    digest = hashlib.sha256(f"{vendor.header}\0{vendor.header_files.digest}".encode()).hexdigest()
    with _compiling:
        return vendor.header_files.copy_to(scratch() / f"header-{digest[:16]}")


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(as_utf8(text))
    return path
