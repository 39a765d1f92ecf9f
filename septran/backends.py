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
from typing import Any

_FOLDERS = "septran.targets"


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
    loops: Callable[[], Any] | None = None
    """The module of loops whose times tell what this host can do; None: it is not measured."""
    banked: bool = False
    """Whether its memories on the chip have banks, whose conflicts cost time."""
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
