"""A package that is called as the function of the same name: ``septran.explain(...)``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(name: str, function: Callable[..., Any]) -> None:
    """Let the package `name` be called as `function`; importing its modules goes on to work.

    Importing any module of a package binds the package's name in the one above it, so that a
    function of the same name could not stay there.
    """

    class Package(ModuleType):
        __wrapped__ = staticmethod(function)
        """Whose signature it has."""

        def __call__(self, *arguments: Any, **named: Any) -> Any:
            return function(*arguments, **named)

        __call__.__doc__ = function.__doc__

    sys.modules[name].__class__ = Package
