"""An exported library in this process: its functions, called with pointers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran.errors import TargetError
from septran.targets.base import Source
from septran.targets.call_sizes import CallSize
from septran.targets.cpu.library.model import ABI
from septran.targets.tensor_memory import as_bytes
from septran.temporary import opened_apart

_SCALARS: Mapping[str, Any] = {
    "float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_uint8,
    **{f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}")
       for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


class LibraryLoadError(TargetError):
    """A library is not the one that its manifest describes, or has no code for this host."""

    code = "SEP519"


class LibraryCallError(TargetError):
    """A function of a library gave another status than that all is done."""

    code = "SEP520"


@dataclass(frozen=True)
class LibraryExecutable:
    """A kernel of a library that a C compiler linked."""

    name: str
    function: str
    """Its function in C."""
    prefix: str
    tensors: int
    """How many pointers it takes."""
    scalars: tuple[str, ...]
    """The types of the numbers behind them, those of extents among them."""
    sizes: tuple[CallSize, ...]
    """Where a call has the extents, which are the last of those."""
    header: str = field(repr=False)
    library: Any = field(repr=False, compare=False)

    @property
    def source(self) -> Source:
        """The header, as the library has no other text of the code."""
        return Source(self.name, "c", self.header)

    def __call__(self, *arguments: Any) -> None:
        """Run on DLPack tensors in the order of the parameters, then the scalars.

        Raises LibraryCallError.
        """
        pointers = [ctypes.c_void_p(as_bytes(x).ctypes.data) for x in arguments[: self.tensors]]
        told = [int(arguments[s.tensor].shape[s.axis]) for s in self.sizes]
        numbers = [*arguments[self.tensors :], *told]
        passed = [_SCALARS[t](v) for t, v in zip(self.scalars, numbers, strict=True)]
        status = getattr(self.library, self.function)(*pointers, *passed)
        if status:
            message = getattr(self.library, f"{self.prefix}_message")
            message.restype = ctypes.c_char_p
            raise LibraryCallError(
                f"{self.name} ended with {status}: {message(status).decode()}",
                hint="the library's header says what each status means",
            )

    def save(self, folder: Path) -> None:
        """Raise ValueError: the library is the saved form."""
        raise ValueError(f"{self.name} lies in a library already, which can be copied as it is")


def open_library(folder: Path, facts: Mapping[str, Any]) -> dict[str, LibraryExecutable]:
    """The kernels of a folder by name; `facts` are what was written with it.

    Raises LibraryLoadError.
    """
    name, prefix = str(facts["name"]), str(facts["prefix"])
    if facts["abi"] != ABI:
        raise LibraryLoadError(
            f"{name} was exported with ABI {facts['abi']}, and this version reads {ABI}",
            hint="export it again with this version",
        )
    library = _opened(folder / "lib" / f"lib{name}.so")
    _require_same(library, prefix, facts)
    header = (folder / "include" / f"{name}.h").read_text(encoding="utf-8")
    return {
        kernel: LibraryExecutable(
            kernel, str(said["function"]), prefix, int(said["tensors"]), tuple(said["scalars"]),
            tuple(CallSize(*size) for size in said["sizes"]), header, library,
        )
        for kernel, said in facts["kernels"].items()
    }  # fmt: skip


def _opened(file: Path) -> Any:
    if not file.exists():
        raise LibraryLoadError(
            f"there is no {file.name}: the host that exported it had no compiler for it",
            hint="`OUT=lib sh build.sh libraries` in its folder makes one",
        )
    try:
        return opened_apart(file.read_bytes(), lambda copy: ctypes.CDLL(str(copy)))
    except OSError as error:
        raise LibraryLoadError(
            f"{file.name} cannot be loaded here: {error}",
            hint="it was made for another system, or another kind of processor",
        ) from error


def _require_same(library: Any, prefix: str, facts: Mapping[str, Any]) -> None:
    """Raise LibraryLoadError where the library says of itself something else than the facts."""
    said = {"abi": getattr(library, f"{prefix}_abi"), "build": getattr(library, f"{prefix}_build")}
    said["build"].restype = ctypes.c_char_p
    found = {"abi": said["abi"](), "build": (said["build"]() or b"").decode()}
    for what, value in found.items():
        if value != facts[what]:
            raise LibraryLoadError(
                f"the library says that its {what} is {value}, and its manifest {facts[what]}",
                hint="the files of two exports are mixed; export it again",
            )
    if getattr(library, f"{prefix}_supported")():
        lacking = getattr(library, f"{prefix}_lacking")
        lacking.restype = ctypes.c_char_p
        raise LibraryLoadError(
            f"the library was compiled for processors with {lacking().decode()}, which this has "
            "not",
            hint="export it for this one, too: arch=['avx2', ...]",
        )
