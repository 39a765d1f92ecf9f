"""Immutable values that are asked for their hash and their text very often keep both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def remembering(cls: type[T]) -> type[T]:
    """Let objects of a frozen dataclass work out their hash and their text once.

    Indices are nested, sorted by their text and keys of many dictionaries, so that most of these
    hashes and texts are of parts that were asked before.
    """
    cls.__hash__ = _once("_hash", cls.__hash__)  # type: ignore[method-assign,assignment]
    cls.__str__ = _once("_text", cls.__str__)  # type: ignore[method-assign]
    # Another process hashes texts otherwise, so what is kept is not pickled.
    cls.__getstate__ = _fields  # type: ignore[method-assign]
    return cls


def _once(name: str, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def kept(self: Any) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            found = compute(self)
            object.__setattr__(self, name, found)  # it is frozen
            return found

    return kept


def _fields(self: Any) -> dict[str, Any]:
    return {name: getattr(self, name) for name in self.__dataclass_fields__}
