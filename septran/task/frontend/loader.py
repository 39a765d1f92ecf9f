"""Load logic files: ordinary Python modules that define tasks."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from septran.argument_checks import require
from septran.errors import LogicError, nearest
from septran.location import Location
from septran.task.errors import LoadError
from septran.task.frontend.definition import Task
from septran.task.frontend.python_errors import instead

ALIASES = ("task_lang", "tasklang")
"""The module names under which a logic file may import the language."""
_LOADING = threading.RLock()
"""Held while a file is loaded: `sys.path` and `sys.modules` are shared by all threads."""


def load_logic(path: str | Path) -> ModuleType:
    """Run a logic file and return its module. A logic file is code: load only what you trust.

    Within it ``import task_lang`` and ``import tasklang`` give the language, and modules
    beside it can be imported.

    Raises:
        LoadError: it does not exist, or fails as Python.
    """
    try:
        file = Path(path).resolve()
        found = file.is_file()
    except (OSError, ValueError, TypeError) as error:
        raise LoadError(
            f"{path!r} is no logic file: {error}", None, hint="give a path to a .py file"
        ) from None
    if file.is_dir() or file.suffix != ".py":
        raise _no_logic(str(path), file)
    if not found:
        raise LoadError(
            f"no logic file {file.name!r} in {file.parent}",
            None,
            hint="`septran ops` lists those of the library, which are found by name",
        )
    # With the path in it, as files of one name in two folders are two modules.
    name = f"septran_logic_{file.stem}_{abs(hash(str(file))):x}"
    spec = importlib.util.spec_from_file_location(name, file, loader=_FromText(name, str(file)))
    if spec is None or spec.loader is None:
        raise LoadError(
            f"{file.name} is not a Python file",
            Location(str(file), 1),
            hint="a logic file ends in .py",
        )
    module = importlib.util.module_from_spec(spec)
    with _LOADING, _importable(file.parent):
        try:
            spec.loader.exec_module(module)
        except LogicError:
            raise
        except SyntaxError as error:
            where = Location(str(file), error.lineno or 1, error.offset)
            raise LoadError(
                f"not valid Python: {error.msg}",
                where,
                hint="`python -m py_compile` says the same of it",
            ) from None
        except (Exception, SystemExit) as error:  # also one that would end the caller
            line = _line_in(error, str(file))
            message = f"{type(error).__name__} while it was loaded: {error}"
            hint = _import_hint(error) if isinstance(error, ImportError) else None
            raise LoadError(message, Location(str(file), line), hint=hint) from error
    return module


class _FromText(importlib.machinery.SourceFileLoader):
    """Loads a file from its text, never from byte code that an earlier process left.

    Python takes byte code for that of a file of the same size and the same second: a constant that
    is edited quickly would stay what it was.
    """

    def path_stats(self, path: str) -> dict[str, Any]:
        """Refuse, so that byte code is neither read nor written."""
        raise OSError(f"no byte code of {path} is used")


def _no_logic(asked: str, file: Path) -> LoadError:
    """Return the error for a folder, or a file of another kind."""
    if file.is_dir():
        logic = next((p for p in sorted(file.glob("*.py")) if p.name[0] != "_"), file / "logic.py")
        hint = f"name a file in it, such as {logic}"
        return LoadError(f"{asked!r} is a folder, not a logic file", None, hint=hint)
    beside = file.with_name(f"{file.name}.py")
    hint = (
        f"did you mean {str(beside)!r}?"
        if beside.is_file()
        else "name a .py file, or an operator: gemm"
    )
    message = f"{asked!r} is no logic file: the name of one ends in .py"
    return LoadError(message, None, hint=hint)


def load_entry(path: str | Path, name: str | None = None) -> Task:
    """Return the entry task of a logic file; raises LoadError."""
    return find_entry(load_logic(path), name)


def find_entry(module: ModuleType, name: str | None = None) -> Task:
    """Return the task called `name`; else ``ENTRY``, the task named as the file, or the last one.

    "The last" is the last public composite that is not a variant, as a logic is written bottom-up.
    Raises LoadError.
    """
    hint = "pass what task.load_logic(file) gives, or use task.load_entry(file)"
    require("module", module, ModuleType, hint)
    file = getattr(module, "__file__", None) or ""  # modules of C have none
    tasks = {n: t for n, t in vars(module).items() if isinstance(t, Task)}
    if name is not None:
        if name not in tasks:
            raise LoadError(
                f"no task {name!r} in {Path(file).name}",
                Location(file, 1),
                hint=nearest(name, tasks),
            )
        return tasks[name]
    stem = Path(file).stem
    marked = getattr(module, "ENTRY", tasks.get(stem))
    if isinstance(marked, Task):
        return marked
    if marked is not None:
        raise LoadError(
            f"ENTRY is {marked!r}, which is no task",
            Location(file, 1),
            hint=f"name the task itself: ENTRY = {marked if str(marked) in tasks else 'my_gemm'}",
        )
    public = [t for n, t in tasks.items() if not n.startswith("_") and t.name == t.variant]
    own = [t for t in public if t.file == file] or public
    for candidates in ([t for t in own if not t.leaf], own):
        if candidates:
            return candidates[-1]
    raise LoadError(
        "it defines no task",
        Location(file, 1),
        hint="put @task.define above the function that says what is computed",
    )


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Make the language's aliases and the folder's modules importable while a file is loaded."""
    language = importlib.import_module("septran.task")
    held: dict[str, Any] = {name: sys.modules.get(name) for name in ALIASES}
    before = set(sys.modules)
    sys.modules.update(dict.fromkeys(ALIASES, language))
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in held.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
        for name in set(sys.modules) - before:  # a same-named file elsewhere is another module
            if (
                getattr(sys.modules[name], "__file__", None)
                and folder == Path(sys.modules[name].__file__ or "").parent
            ):
                del sys.modules[name]


def _import_hint(error: ImportError) -> str | None:
    """Return a hint at what the language has instead of a name that a file imports from it."""
    word = re.search(r"cannot import name '(\w+)'", str(error))
    if word is None or error.name not in ("septran", "septran.task"):
        return None
    return instead(word[1], importlib.import_module(error.name).__all__)


def _line_in(error: BaseException, file: str) -> int:
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
