"""What each backend says of itself, for layers that know no target.

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
    """What machine files call it: its folder's name."""
    device: str = "cpu"
    """Where its kernels take tensors, in torch's words; an emulator takes them on the CPU."""
    keys: frozenset[str] = frozenset()
    """Keys of a mapping on which its code depends, of those that not every backend uses."""
    simulated: bool = False
    """Whether a simulator counts cycles by the figures of the machine file."""
    features: Callable[[str], frozenset[str]] | None = None
    """What a processor, by a machine's ``arch``, has of what instructions may require; None:
    nobody knows."""
    banked: bool = False
    """Whether its memories on the chip have banks, whose conflicts cost time."""
    looks: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """What `septran doctor` looks at: what there is, in words; raises where kernels need more."""
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
    """The facts of one; those of any other, which a program alone can name, are the defaults."""
    return backends().get(name) or Backend(name)


@functools.cache
def with_code() -> tuple[str, ...]:
    """Backends that this version can generate code for."""
    return tuple(name for name in backends() if _has(name, "target"))


def _path() -> list[str]:
    return list(importlib.import_module(_FOLDERS).__path__)


def _has(folder: str, module: str) -> bool:
    return importlib.util.find_spec(f"{_FOLDERS}.{folder}.{module}") is not None
