"""Mixins of the stage objects: they print, display themselves in a notebook, become a dict.

A view is a function in a layer above the object that it shows. The package says once which table
of views there is (`show_by`), so that an object finds its own views without importing them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Finder = Callable[[object, str], Callable[..., Any] | None]
"""A function from an object and the name of a view to the function that draws it, or None."""

_find: list[Finder] = []
"""The finder in use, set by `septran/__init__.py` before any other module is imported."""


def show_by(find: Finder) -> None:
    """Set the function that finds the view of an object by its name."""
    _find[:] = [find]


def view(thing: object, name: str, *arguments: Any, **named: Any) -> Any:
    """Return the view of `thing` named `name`, such as ``html``, ``drawing`` or ``timeline``.

    Raises TypeError if objects of that class have no such view.
    """
    found = _find[0](thing, name)
    if found is None:
        raise TypeError(f"{type(thing).__name__} has no view called {name}")
    return found(thing, *arguments, **named)


class Displayable:
    """Mixin of objects that display themselves in a notebook."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Static HTML and text for notebooks; it needs no running kernel to be read."""
        del include, exclude
        return {"text/html": str(view(self, "html")), "text/plain": str(self)}


class Stage(Displayable):
    """Mixin of the five stage objects."""

    def to_dict(self) -> dict[str, Any]:
        """Return the stage as plain JSON-ready data."""
        data: dict[str, Any] = view(self, "data")
        return data

    def draw(self) -> Any:
        """Return a Graphviz drawing, which a notebook displays; `.source` is the DOT text."""
        return view(self, "drawing")
