"""TVM's bindings without torch, in the processes that are SepTran's own."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

_BINDINGS = ("tvm", "tvm_ffi")


def import_torch_when_needed() -> None:
    """Let TVM's bindings do without torch, until something else in this process imports it.

    They import it wherever it is installed, which takes three quarters of their time (3 of 4 s),
    to convert its data types and to follow its streams: a command or a worker process asks for
    neither. A program that uses the bindings itself may, so this is for processes of SepTran
    alone. Where torch is imported already, nothing changes.
    """
    if not any(isinstance(finder, _NotForBindings) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NotForBindings())


class _NotForBindings(importlib.abc.MetaPathFinder):
    """Says to TVM's bindings, and to nobody else, that there is no torch."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for them; None leaves the module to the next finder."""
        if fullname == "torch" and _importer(sys._getframe(1)).partition(".")[0] in _BINDINGS:
            raise ModuleNotFoundError("TVM does without torch here", name=fullname)
        return None


def _importer(frame: FrameType | None) -> str:
    """The name of the module whose statement imports, behind the frames of Python's own import."""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return "" if frame is None else frame.f_globals.get("__name__", "")
