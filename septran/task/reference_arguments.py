"""Checks of the arguments of a reference run: arrays of any library that fit the tree, numbers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from septran.argument_checks import WrongArgumentError, as_mapping, short_repr
from septran.dtypes import ALL, bits_dtype, numpy_dtype
from septran.errors import CallError, nearest
from septran.task.tree import TaskTree

Array = np.ndarray[Any, Any]
_HINT = "pass a NumPy array of numbers, or a torch tensor"


class ReferenceArgumentCountError(CallError):
    """A reference run got too many or too few arrays or scalars."""

    code = "SEP690"


def as_array(name: str, value: Any) -> Array:
    """Return an array, a tensor of torch or a list as a NumPy array; raises WrongArgumentError."""
    try:
        array = _from_torch(value) if hasattr(value, "detach") else np.asarray(value)
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        message = f"{name} is {short_repr(value)}, which is no array: {error}"
        raise WrongArgumentError(message, hint=_HINT) from None
    if str(array.dtype) not in ALL:
        message = (
            f"{name} is {short_repr(value)}, whose elements ({array.dtype}) are of no type here"
        )
        raise WrongArgumentError(message, hint=_HINT)
    return array


def require_array(name: str, value: Any) -> None:
    """Refuse a value without shape or element type; raises WrongArgumentError."""
    shape, dtype = getattr(value, "shape", None), str(getattr(value, "dtype", ""))
    if isinstance(value, type) or not hasattr(shape, "__len__"):
        raise WrongArgumentError(f"{name} is {short_repr(value)}, which is no array", hint=_HINT)
    if dtype.removeprefix("torch.") not in ALL:
        message = f"{name} is {short_repr(value)}, whose elements ({dtype}) are of no type here"
        raise WrongArgumentError(message, hint=_HINT)


def checked_arrays(tree: TaskTree, arrays: Any) -> dict[str, Array]:
    """Return arrays by parameter, each of its parameter's shape; raises WrongArgumentError."""
    params = {p.name: p for p in tree.root.params}
    found: dict[str, Array] = {}
    for name, value in as_mapping("arrays", arrays, "{'A': a}").items():
        if name not in params:
            message = f"{tree.name} has no parameter {name!r}"
            raise WrongArgumentError(message, hint=nearest(name, params))
        array = as_array(name, value)
        if array.shape != params[name].shape:
            message = f"{name} is {list(array.shape)}, not {list(params[name].shape)}"
            raise WrongArgumentError(message, hint="trace the logic again for other shapes")
        found[name] = array
    return found


def checked_scalars(tree: TaskTree, scalars: Mapping[str, Any] | None) -> dict[str, float | int]:
    """Return a number for each scalar of the tree.

    Raises WrongArgumentError for unknown names and values that are no numbers,
    ReferenceArgumentCountError for missing ones.
    """
    values = {s.name: s.default for s in tree.scalars if s.default is not None}
    values |= as_mapping("scalars", scalars, "{'eps': 1e-6}")
    names = [s.name for s in tree.scalars]
    for name, value in values.items():
        if name not in names:
            message = f"{tree.name} has no scalar {name!r}"
            raise WrongArgumentError(message, hint=nearest(name, names))
        if not isinstance(value, int | float | np.number | np.bool_):
            message = f"{name} of {tree.name} is {short_repr(value)}, not a number"
            raise WrongArgumentError(message, hint=f"write {name}=0.5")
    missing = [name for name in names if name not in values]
    if missing:
        raise ReferenceArgumentCountError(
            f"{tree.name} needs {', '.join(missing)}", tree.root.location,
            hint=f"pass {missing[0]}=...",
        )  # fmt: skip
    return values


def _from_torch(value: Any) -> Array:
    dtype = str(value.dtype).removeprefix("torch.")
    held = bits_dtype(dtype)
    if held is not None:
        bits: Array = value.detach().cpu().view(dtype=getattr(sys.modules["torch"], held)).numpy()
        narrow: Array = bits.view(numpy_dtype(dtype))
        return narrow
    array: Array = value.detach().cpu().numpy()
    return array
