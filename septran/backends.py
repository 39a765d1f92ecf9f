"""The facts that each backend declares, for layers that import no target.

A backend is a folder of `septran/targets` with a `backend.py`, which needs neither TVM nor any
module but this. The folder's `target.py`, where there is one, generates its code.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

_FOLDERS = "septran.targets"


class BufferLoops(Protocol):
    """Loops over large buffers, one part of them for each thread."""

    def run(self, name: str, size: int, times: int) -> int:
        """``read``, ``write``, ``copy`` or ``stream`` `size` bytes in each thread, so many times.

        Returns the bytes that all threads have moved.
        """


class LinkLoops(Protocol):
    """A walk through a buffer in which each load names the place of the next."""

    def lay(self, size: int) -> int:
        """Let the walk go through the first `size` bytes, and return its number of loads."""

    def follow(self, steps: int) -> None:
        """Go on by so many loads."""


class HostLoops(Protocol):
    """Loops in machine code whose times show what this host can do: a module of a target."""

    def buffers(self, size: int, threads: int) -> BufferLoops:
        """Loops over buffers with `size` bytes for each thread."""

    def links(self, size: int) -> LinkLoops:
        """A walk through a buffer of at most `size` bytes."""

    def cores(self) -> int:
        """The cores that may be used."""

    def host(self) -> str:
        """The code generator's name of this processor."""

    def runs(self, machine: Any) -> bool:
        """Whether the machine's code is for this kind of processor."""

    def use_threads(self, count: int) -> None:
        """Run parallel loops on so many threads from now on."""

    def clock(self) -> tuple[Callable[[int], object], int]:
        """Iterations of operations that wait for one another, and the cycles of each."""

    def launch(self, threads: int) -> Callable[[int], object]:
        """Iterations of an almost empty loop over threads."""

    def sums(
        self, instruction: str, threads: int = 1, dtype: str = ""
    ) -> tuple[Callable[[int], object], int] | None:
        """Iterations of an instruction's sums, and the multiply-adds of each.

        None where nothing is known of the instruction.
        """


@dataclass(frozen=True)
class Backend:
    """Facts about the code and the processors of one backend."""

    name: str
    """The name in machine files, which is the name of the backend's folder."""
    device: str = "cpu"
    """The device on which its kernels take tensors, as torch names it; an emulator takes "cpu"."""
    keys: frozenset[str] = frozenset()
    """The mapping keys on which its code depends, of those that not every backend uses."""
    simulated: bool = False
    """Whether a simulator counts cycles by the figures of the machine file."""
    features: Callable[[str], frozenset[str]] | None = None
    """A function from a machine's ``arch`` to the processor features that instructions may require.

    None where the features are not known.
    """
    exchange: str = ""
    """The memory through which threads exchange what they hold in registers, beside its buffers.

    How much of it that takes is known only when the code is made.
    """
    registers: Callable[[str], tuple[int, int, int]] | None = None
    """Of a processor, by a machine's ``arch``: bytes of a vector register, rows and columns of the
    tile of float32 that a product sums in them; None: nobody knows."""
    loops: Callable[[], HostLoops] | None = None
    """The module of loops whose times show what this host can do; None: it is not measured."""
    banked: bool = False
    """Whether its memories on the chip have banks, whose conflicts cost time."""
    dynamic: bool = False
    """Whether calls may tell the extents of named dimensions."""
    compiles_functions: bool = False
    """Whether a leaf may be a function of the user's, which is compiled with the kernel."""
    schedule: Callable[[Any], Any] | None = None
    """A function that works out when each unit works in a tile program.

    It returns a `timing.schedule.UnitSchedule`, and raises SepTranError where there is none.
    None: nobody can.
    """
    looks: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """The checks of `septran doctor`, by name.

    Each returns what it found, in words, and raises where kernels need more.
    """
    lint: Callable[[Any], Iterable[str]] = lambda _: ()
    """Notes on a machine file; raises what its code would refuse of it for any kernel."""


@functools.cache
def backends() -> Mapping[str, Backend]:
    """Every backend by its name, in alphabetical order."""
    found: dict[str, Backend] = {}
    for folder in sorted(m.name for m in pkgutil.iter_modules(_path()) if m.ispkg):
        if _has(folder, "backend"):
            backend: Backend = importlib.import_module(f"{_FOLDERS}.{folder}.backend").BACKEND
            assert backend.name == folder, f"the backend of {folder}/ calls itself {backend.name}"
            found[folder] = backend
    return MappingProxyType(found)


def backend_of(name: str) -> Backend:
    """Return the facts of a backend; one that only a program names has the defaults."""
    return backends().get(name) or Backend(name)


@functools.cache
def with_code() -> tuple[str, ...]:
    """Backends that this version can generate code for."""
    return tuple(name for name in backends() if _has(name, "target"))


def _path() -> list[str]:
    return list(importlib.import_module(_FOLDERS).__path__)


def _has(folder: str, module: str) -> bool:
    return importlib.util.find_spec(f"{_FOLDERS}.{folder}.{module}") is not None
