"""Checks of the arguments of public functions, made before any work is done.

One place words the error: the argument's name, its value, and what to pass instead. A caller words
an error itself only where it knows more.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from septran.errors import CallError

T = TypeVar("T")
_REPR_LENGTH = 80
"""The number of characters of a value that a message repeats."""


class WrongArgumentError(CallError):
    """An argument of a public function is of a kind, or has a value, that it does not take."""

    code = "SEP616"


def short_repr(value: Any) -> str:
    """Return ``repr(value)``, shortened to what a message repeats."""
    text = repr(value)
    return text if len(text) <= _REPR_LENGTH else f"{text[:_REPR_LENGTH]}..."


def require(name: str, value: Any, kind: type[T], hint: str) -> T:
    """Return `value` if it is an instance of `kind`; raises WrongArgumentError otherwise."""
    if isinstance(value, kind):
        return value
    raise WrongArgumentError(f"{name} is {short_repr(value)}, not a {_words(kind)}", hint=hint)


def as_int(name: str, value: Any, minimum: int | None = None) -> int:
    """Return `value` as an integer of at least `minimum`; raises WrongArgumentError."""
    bound = "" if minimum is None else f" of at least {minimum}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (minimum is not None and number < minimum):
        message = f"{name} is {short_repr(value)}, not an integer{bound}"
        example = 1 if minimum is None else minimum + 1
        raise WrongArgumentError(message, hint=f"write {name}={example}")
    return number


def as_positive(name: str, value: Any, *, allow_zero: bool = False) -> float:
    """Return `value` as a number above zero (or not below it); raises WrongArgumentError."""
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if not numeric or math.isnan(value) or value < 0 or (value == 0 and not allow_zero):
        wanted = "a number from 0 on" if allow_zero else "a number above 0"
        message = f"{name} is {short_repr(value)}, not {wanted}"
        raise WrongArgumentError(message, hint=f"write {name}=60")
    return float(value)


def as_path(name: str, value: Any) -> Path:
    """Return `value` as a path; raises WrongArgumentError where no file can have that name."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text:
        message = f"{name} is {short_repr(value)}, which is no path"
        raise WrongArgumentError(message, hint=f"write {name}='build/kernel', or a pathlib.Path")
    return Path(text)


def as_writable_path(name: str, value: Any) -> Path:
    """Return `value` as a path that seems writable; raises WrongArgumentError.

    Only the folders are looked at: writing can still fail, for lack of rights or space.
    """
    file = as_path(name, value)
    reason = None
    if file.is_dir():
        reason = "it is a folder"
    elif not file.parent.is_dir():
        reason = f"there is no folder {file.parent}"
    if reason is not None:
        message = f"{name} is {short_repr(str(file))}, which cannot be written: {reason}"
        raise WrongArgumentError(message, hint="name a file in a folder that is there")
    return file


def write_text(path: Any, text: str) -> Path:
    """Write `text` to `path` for the caller and return the path; raises WrongArgumentError."""
    file = as_writable_path("path", path)
    try:
        file.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        hint = "name a file that can be written"
        raise write_error(short_repr(str(file)), error, hint) from error
    return file


def write_error(path: object, error: Exception, hint: str) -> WrongArgumentError:
    """Return the error for a path that the system would not write, with the system's reason."""
    reason = getattr(error, "strerror", None) or error
    return WrongArgumentError(f"{path} cannot be written: {reason}", hint=hint)


def as_mapping(
    name: str, value: Any, example: str, error: type[CallError] = WrongArgumentError
) -> dict[str, Any]:
    """Return `value` as a dictionary with string keys, empty for None; raises `error`."""
    if value is None:
        return {}
    hint = f"write {name}={example}"
    if not isinstance(value, Mapping):
        raise error(f"{name} is {short_repr(value)}, not a dictionary", hint=hint)
    for key in value:
        if not isinstance(key, str):
            raise error(f"{name} has the key {short_repr(key)}, not a name", hint=hint)
    return dict(value)


def shapes(value: Any) -> dict[str, tuple[int, ...]]:
    """Return the extents of each tensor as tuples of integers; raises WrongArgumentError."""
    example = "{'A': (128, 64)}"
    return {
        name: tuple(
            as_int(f"an extent of {name}", extent, 0)
            for extent in as_tuple(f"the shape of {name}", extents, "(128, 64)")
        )
        for name, extents in as_mapping("shapes", value, example).items()
    }


def as_tuple(name: str, value: Any, example: str) -> tuple[Any, ...]:
    """Return `value` as a tuple, empty for None; raises WrongArgumentError."""
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        message = f"{name} is {short_repr(value)}, not a list"
        raise WrongArgumentError(message, hint=f"write {name}={example}")
    return tuple(value)


def _words(kind: type) -> str:
    """Return a class's name in a message's words: ``tile program`` for TileProgram."""
    name = kind.__name__
    return "".join(f" {c.lower()}" if c.isupper() and n else c for n, c in enumerate(name)).lower()
