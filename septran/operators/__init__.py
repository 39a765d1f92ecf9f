"""The operator library: one logic file an operator, found by its name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from septran.errors import nearest
from septran.task.errors import LoadError
from septran.task.frontend.definition import Task
from septran.task.frontend.loader import find_entry

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """Sizes and flags that an operator is checked with on every machine."""

    operator: str
    sizes: Mapping[str, int]
    """Extents of its dimensions by name."""
    static: Mapping[str, Any]
    """Static flags that are not as by default."""
    dtype: str = "float32"
    """Of all inputs that leave theirs open."""

    def __str__(self) -> str:
        named = [f"{name}={value}" for name, value in {**self.sizes, **self.static}.items()]
        return " ".join([*named, *([self.dtype] if self.dtype != "float32" else [])])


def names() -> tuple[str, ...]:
    """The operators, by file."""
    return tuple(sorted(p.stem for p in _FOLDER.glob("[!_]*.py")))


def module(name: str) -> ModuleType:
    """The module of an operator; raises LoadError with the nearest name."""
    if not isinstance(name, str) or name not in names():
        raise LoadError(f"no operator {name!r}", None, hint=nearest(name, names()))
    return importlib.import_module(f"septran.operators.{name}")


def load(name: str) -> Task:
    """The entry task of an operator; raises LoadError."""
    return find_entry(module(name))


def cases(name: str) -> tuple[Case, ...]:
    """What `name` is checked with: the `CASES` of its module, else its `EXAMPLE` alone.

    A case is one dict: dimensions, static flags, and ``dtype`` where it is not float32.
    """
    own = module(name)
    task = find_entry(own)
    flags = {keyword.name for keyword in task.keywords if keyword.static}
    return tuple(
        Case(
            name,
            {n: size for n, size in given.items() if n not in flags and n != "dtype"},
            {n: value for n, value in given.items() if n in flags},
            given.get("dtype", "float32"),
        )
        for given in getattr(own, "CASES", (own.EXAMPLE,))
    )
