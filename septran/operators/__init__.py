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
    """The sizes and flags of one check of an operator on every machine."""

    operator: str
    sizes: Mapping[str, int]
    """The extents of its dimensions by name."""
    static: Mapping[str, Any]
    """The static flags that differ from their defaults."""
    dtype: str = "float32"
    """The element type of all inputs that leave theirs open."""

    def __str__(self) -> str:
        named = [f"{name}={value}" for name, value in {**self.sizes, **self.static}.items()]
        return " ".join([*named, *([self.dtype] if self.dtype != "float32" else [])])


def names() -> tuple[str, ...]:
    """Return the names of the operators, which are those of their files."""
    return tuple(sorted(p.stem for p in _FOLDER.glob("[!_]*.py")))


def module(name: str) -> ModuleType:
    """Return the module of an operator; raises LoadError with the nearest name."""
    if not isinstance(name, str) or name not in names():
        raise LoadError(f"no operator {name!r}", None, hint=nearest(name, names()))
    return importlib.import_module(f"septran.operators.{name}")


def load(name: str) -> Task:
    """Return the entry task of an operator; raises LoadError."""
    return find_entry(module(name))


def cases(name: str) -> tuple[Case, ...]:
    """Return the cases of `name`: the `CASES` of its module, else its `EXAMPLE` alone."""
    return cases_of(load(name))


def cases_of(task: Task) -> tuple[Case, ...]:
    """Return the cases that the file of an entry task names; none where it names no sizes."""
    own: Mapping[str, Any] = task.function.__globals__
    flags = {keyword.name for keyword in task.keywords if keyword.static}
    example = (own["EXAMPLE"],) if "EXAMPLE" in own else ()
    return tuple(
        Case(
            task.name,
            {n: size for n, size in given.items() if n not in flags and n != "dtype"},
            {n: value for n, value in given.items() if n in flags},
            given.get("dtype", "float32"),
        )
        for given in own.get("CASES", example)
    )
