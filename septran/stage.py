"""What every stage object can do: print, display itself in a notebook, become a dict."""

from __future__ import annotations

import importlib
from typing import Any


class Shown:
    """Mixin of what displays itself in a notebook; the views are in `septran.views`."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Static HTML and text for notebooks; it needs no running kernel to be read."""
        del include, exclude
        bundle: dict[str, str] = _views().mimebundle(self)
        return bundle


class Stage(Shown):
    """Mixin of the five stage objects."""

    def to_dict(self) -> dict[str, Any]:
        """The stage as plain JSON-ready data."""
        data: dict[str, Any] = _views().to_dict(self)
        return data

    def draw(self) -> Any:
        """A Graphviz drawing (displays itself in a notebook; `.source` is the DOT text)."""
        return _views().draw(self)


def _views() -> Any:
    # By name: explain is above every stage and may import it, not the other way round.
    return importlib.import_module("septran.views.stages")
