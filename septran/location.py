"""Places in users' files: a file, a line and, if known, a column."""

from __future__ import annotations

import functools
import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parent)
_INSIDE = _PACKAGE + os.sep
_LOGIC = (
    _INSIDE + "operators" + os.sep,
    f"{_INSIDE}lessons{os.sep}exercises{os.sep}",
)
"""Folders of the package that hold logic, like a user's own."""
_PACKAGES = ("site-packages", "dist-packages")
_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_NUMERIC = tuple(
    f"{os.sep}{folder}{os.sep}{name}{os.sep}" for folder in _PACKAGES for name in ("numpy", "torch")
)


@dataclass(frozen=True, order=True)
class Location:
    """A place in a logic, mapping or machine file, printed as ``file:line:column``."""

    file: str
    line: int
    """1-based."""
    column: int | None = None
    """1-based; None where only the line is known."""
    length: int = 1
    """Characters that the caret underlines."""

    def __str__(self) -> str:
        place = f"{self.short_file}:{self.line}"
        return place if self.column is None else f"{place}:{self.column}"

    @property
    def short_file(self) -> str:
        """The file, relative to the package's parent or the working folder if it lies inside.

        A cell of a notebook is called as the notebook numbers it: ``<cell In[3]>``.
        """
        return _cell(self.file) or _short(self.file)

    @property
    def of_user(self) -> bool:
        """Whether the place is in logic or a caller's own code, not in SepTran or a library."""
        return not _internal(self.file)

    @property
    def text(self) -> str:
        """The source line without its line end; empty where it cannot be read."""
        return linecache.getline(self.file, self.line).rstrip("\r\n")

    @classmethod
    def of_caller(cls) -> Location:
        """Return the place of the innermost frame outside SepTran's own machinery.

        The operator library and the lessons count as user code: it is logic like any other.
        Works in notebook cells, too, as IPython feeds `linecache`.
        """
        frame = _caller()
        return cls(frame.f_code.co_filename, frame.f_lineno)


def variable_of_caller(value: object) -> str | None:
    """Return the name that a script or a notebook has given to `value`; None where it has none."""
    frame = _caller()
    if frame.f_code.co_name != "<module>":
        return None
    # Names with underscores are a notebook's own, for what its cells showed last.
    names = (n for n, held in frame.f_globals.items() if held is value and not n.startswith("_"))
    return next(names, None)


def _caller() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and _internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _internal(file: str) -> bool:
    """Return whether a file is machinery: of SepTran, of Python, or of NumPy or torch."""
    if file.startswith(_INSIDE):
        return not file.startswith(_LOGIC)
    if any(part in file for part in _NUMERIC):
        return True
    return file.startswith(_LIBRARY) and not any(folder in file for folder in _PACKAGES)


def _cell(file: str) -> str | None:
    """Return what IPython calls a cell; it runs one as a file named by the hash of its text."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    return None if number is None else f"<cell In[{number}]>"


def _short(file: str) -> str:
    """Return `file` relative to the package's parent or the working folder if it lies inside."""
    try:
        folder = os.getcwd()  # noqa: PTH109  # a Path takes longer than all the rest
    except OSError:  # it was removed
        return file
    return _relative(file, folder)


@functools.lru_cache(maxsize=256)
def _relative(file: str, folder: str) -> str:
    path = Path(file)
    for base in (Path(_PACKAGE).parent, Path(folder)):
        if path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    return file
