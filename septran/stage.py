"""What every stage object can do: print, display itself in a notebook, become a dict.

A view is a function above the object that it shows. The package says once which table of views
there is (`show_by`), so that an object finds its own without knowing any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Finder = Callable[[object, str], Callable[..., Any] | None]
"""From an object and the name of a view to the function that shows it so."""

_find: list[Finder] = []
"""What finds a view; `septran/__init__.py` puts it in, before any other module is imported."""


def show_by(find: Finder) -> None:
    """Let `find` say which function the view of an object with a name is."""
    _find[:] = [find]


def view(thing: object, name: str, *arguments: Any, **named: Any) -> Any:
    """The view of `thing` that is called `name`, such as ``html``, ``drawing`` or ``timeline``."""
    found = _find[0](thing, name)
    if found is None:
        raise TypeError(f"{type(thing).__name__} has no view called {name}")
    return found(thing, *arguments, **named)


class Displayable:
    """Mixin of what displays itself in a notebook."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Static HTML and text for notebooks; it needs no running kernel to be read."""
        del include, exclude
        return {"text/html": str(view(self, "html")), "text/plain": str(self)}


class Stage(Displayable):
    """Mixin of the five stage objects."""

    def to_dict(self) -> dict[str, Any]:
        """The stage as plain JSON-ready data."""
        data: dict[str, Any] = view(self, "data")
        return data

    def draw(self) -> Any:
        """A Graphviz drawing (displays itself in a notebook; `.source` is the DOT text)."""
        return view(self, "drawing")
