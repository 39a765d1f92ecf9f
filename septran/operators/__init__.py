"""The operator library: one logic file an operator, found by its name."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from septran.errors import nearest
from septran.task.definition import Task
from septran.task.errors import LoadError
from septran.task.loader import find_entry

_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """The operators, by file."""
    return tuple(sorted(p.stem for p in _FOLDER.glob("[!_]*.py")))


def module(name: str) -> ModuleType:
    """The module of an operator; raises LoadError with the nearest name."""
    if name not in names():
        raise LoadError(f"no operator {name!r}", None, hint=nearest(name, names()))
    return importlib.import_module(f"septran.operators.{name}")


def load(name: str) -> Task:
    """The entry task of an operator; raises LoadError."""
    return find_entry(module(name))
