"""Binding, checks and copies of the arguments of a call.

All mistakes of a call are reported at once, by the tensors' names. Arrays that a kernel cannot
read as they lie (views with strides, foreign byte order, odd addresses) are copied; what would
give a wrong result is an error.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.dtypes import is_float, itemsize
from septran.errors import SepTranError, nearest, raise_all
from septran.runtime.arrays import (
    NUMPY,
    Library,
    Obstacle,
    library_of,
    overlaps_itself,
    share_memory,
)
from septran.runtime.errors import (
    ArgumentCountError,
    ArgumentDtypeError,
    ArgumentShapeError,
    DeviceError,
    GradientError,
    NotATensorError,
    OverlapError,
    ReadOnlyOutputError,
    ScalarError,
)
from septran.runtime.signature import Signature, Specialisation, TensorParam
from septran.task.tree import ScalarParam

Scalar = int | float | bool

_OBSTACLES: Mapping[str, type[SepTranError]] = {
    "gradient": GradientError,
    "device": DeviceError,
    "read-only": ReadOnlyOutputError,
    "kind": NotATensorError,
}


@dataclass(frozen=True)
class Bound:
    """The arguments of a call by name, checked against the signature."""

    library: Library
    arrays: Mapping[str, Any]
    """The arrays that were passed; outputs may be missing."""
    scalars: Mapping[str, Any]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The extents of the arrays that were passed."""
        return {name: self.library.shape(x) for name, x in self.arrays.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        """The element types of the arrays that were passed (all known: they are checked)."""
        return {name: str(self.library.dtype(x)) for name, x in self.arrays.items()}

    def numpy(self) -> dict[str, Any]:
        """Return the arrays as NumPy's, in native byte order."""
        arrays = {name: self.library.numpy(x) for name, x in self.arrays.items()}
        return {n: x if x.dtype.isnative else NUMPY.copied(x) for n, x in arrays.items()}


def with_integers(
    signature: Signature, tensors: Sequence[Any], named: Mapping[str, Any], device: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with tensors of one element for its integers; raises ScalarError."""
    given = [*tensors, *named.values()]
    library = next((lib for lib in map(library_of, given) if lib is not None), NUMPY)

    def as_tensor(tensor: TensorParam, value: Any) -> Any:
        if tensor.span is None or not isinstance(value, int | np.integer):
            return value
        low, high = tensor.span
        if isinstance(value, bool) or not low <= value <= high:
            message = f"{signature.name}: {tensor.name} is {value}, and is from {low} to {high}"
            raise ScalarError(message)
        made = library.empty((1,), tensor.dtype or "", device)
        made[...] = int(value)
        return made

    inputs = {t.name: t for t in signature.inputs}
    # Those beyond the inputs are a mistake that `bind` reports.
    moved = tuple(itertools.starmap(as_tensor, zip(inputs.values(), tensors, strict=False)))
    words = {n: as_tensor(inputs[n], x) if n in inputs else x for n, x in named.items()}
    return (*moved, *tensors[len(moved) :]), words


def bind(
    signature: Signature, tensors: Sequence[Any], out: Any, named: Mapping[str, Any], device: str
) -> Bound:
    """Give every argument its name and check it; raises all mistakes at once."""
    arrays = _named_inputs(signature, tensors, named)
    arrays |= _named_outputs(signature, out, arrays)
    libraries = {name: library_of(x) for name, x in arrays.items()}
    # Each group of checks relies on those before it, so errors are raised group by group.
    raise_all(_kind_errors(signature, arrays, libraries))
    library = next((lib for lib in libraries.values() if lib is not None), NUMPY)
    errors: list[SepTranError] = []
    for name, x in arrays.items():
        errors += _array_errors(signature.name, signature.tensor(name), x, library, device)
    raise_all(errors)
    shapes = {name: library.shape(x) for name, x in arrays.items()}
    raise_all(_size_errors(signature, shapes))
    raise_all(_overlap_errors(signature, arrays, library))
    scalar_names = {s.name for s in signature.scalars}
    scalars = {name: value for name, value in named.items() if name in scalar_names}
    return Bound(library, arrays, scalars)


def scalar_values(
    kernel: str, scalars: Sequence[ScalarParam], given: Mapping[str, Any]
) -> tuple[Scalar, ...]:
    """Return the scalars in order, with defaults, each of its type; raises ScalarError."""
    errors: list[SepTranError] = []
    values: list[Scalar] = []
    for scalar in scalars:
        value = given.get(scalar.name, scalar.default)
        try:
            values.append(_scalar(kernel, scalar, value))
        except ScalarError as error:
            errors.append(error)
    raise_all(errors)
    return tuple(values)


def given_or_new(tensor: TensorParam, bound: Bound, device: str) -> Any:
    """Return a call's array for a tensor, or a new one: zeros if it is read, else undefined."""
    if tensor.name in bound.arrays:
        return bound.arrays[tensor.name]
    make = bound.library.zeros if tensor.reads else bound.library.empty
    return make(tensor.shape or (), tensor.dtype or "", device)


def compact(tensor: TensorParam, x: Any, library: Library, device: str) -> Any:
    """Return a copy of an array that cannot be passed, or a new array if it is only written."""
    if tensor.writes and not tensor.reads:
        return library.empty(tensor.shape or (), tensor.dtype or "", device)
    return library.copied(x)


def by_name(specialisation: Specialisation, scalars: Sequence[Scalar]) -> dict[str, Scalar]:
    """Return the scalars of a call with their names."""
    return {s.name: value for s, value in zip(specialisation.scalars, scalars, strict=True)}


def check_against(kernel: str, specialisation: Specialisation, bound: Bound) -> None:
    """Check the shapes and dtypes that only tracing finds; raises all mistakes at once."""
    errors: list[SepTranError] = []
    shapes, dtypes = bound.shapes, bound.dtypes
    for tensor in specialisation.tensors:
        if tensor.name not in shapes:
            continue
        if shapes[tensor.name] != tensor.shape:
            errors.append(
                ArgumentShapeError(
                    f"{kernel}: {tensor.name} is {_by(shapes[tensor.name])}, "
                    f"but must be {_by(tensor.shape or ())} here"
                )
            )
        if dtypes[tensor.name] != tensor.dtype:
            errors.append(
                ArgumentDtypeError(
                    f"{kernel}: {tensor.name} is {dtypes[tensor.name]}, "
                    f"but must be {tensor.dtype} here"
                )
            )
    raise_all(errors)


def _named_inputs(
    signature: Signature, tensors: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    inputs = signature.inputs
    known = {t.name for t in signature.tensors}
    scalars = {s.name for s in signature.scalars}
    errors: list[SepTranError] = []
    for name in named:
        if name not in known and name not in scalars:
            hint = _elsewhere(signature, name) or nearest(name, known | scalars | {"out"})
            message = f"{signature.name} has no argument {name!r}"
            errors.append(ArgumentCountError(message, hint=hint))
    if len(tensors) > len(inputs):
        errors.append(_too_many(signature, len(tensors)))
    arrays = {t.name: x for t, x in zip(inputs, tensors, strict=False)}
    for name in known & set(named):
        if name in arrays:
            message = f"{signature.name}: {name} is passed twice, by position and by name"
            errors.append(ArgumentCountError(message))
        arrays[name] = named[name]
    missing = [t.name for t in inputs if t.name not in arrays]
    if missing:
        message = f"{signature.name}: {_list(missing)} missing; it is called as {signature}"
        errors.append(ArgumentCountError(message))
    raise_all(errors)
    order = [t.name for t in signature.tensors]
    return dict(sorted(arrays.items(), key=lambda item: order.index(item[0])))


def _too_many(signature: Signature, count: int) -> SepTranError:
    outputs = _list([t.name for t in signature.outputs])
    message = (
        f"{signature.name} takes {len(signature.inputs)} tensors by position "
        f"({', '.join(t.name for t in signature.inputs)}), not {count}"
    )
    hint = f"{outputs} is written: pass it as out="
    if signature.static:
        flags = ", ".join(signature.static)
        hint += (
            f"; {flags}: static, so given when compiling, static={{{signature.static[0]!r}: ...}}"
        )
    return ArgumentCountError(message, hint=hint)


def _elsewhere(signature: Signature, name: str) -> str | None:
    """Return a hint where a word that is no argument of a call belongs; None for unknown words."""
    flag = difflib.get_close_matches(name, signature.static, n=1, cutoff=0.8)
    if flag:
        return (
            f"{flag[0]} is static: give it when compiling, "
            f"septran.compile(..., static={{{flag[0]!r}: ...}})"
        )
    if any(name in (tensor.dims or ()) for tensor in signature.tensors):
        return f"{name} is a size: it follows from the arrays"
    return None


def _named_outputs(signature: Signature, out: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
    if out is None:
        return {}
    outputs = [t.name for t in signature.outputs]
    if isinstance(out, Mapping):
        given = dict(out)
    elif isinstance(out, tuple | list):
        given = dict(zip(outputs, out, strict=False))
        if len(out) != len(outputs):
            message = f"{signature.name} has {len(outputs)} outputs ({', '.join(outputs)})"
            raise ArgumentCountError(f"{message}, but out= has {len(out)}")
    elif len(outputs) == 1:
        given = {outputs[0]: out}
    else:
        message = f"{signature.name} has {len(outputs)} outputs ({', '.join(outputs)})"
        raise ArgumentCountError(message, hint="pass out=(..., ...) in this order, or a dict")
    for name in given:
        if name not in outputs:
            message = f"{signature.name} has no output {name!r}"
            raise ArgumentCountError(message, hint=nearest(name, outputs))
        if name in arrays:
            raise ArgumentCountError(f"{signature.name}: {name} is passed twice, also in out=")
    return given


def _kind_errors(
    signature: Signature, arrays: Mapping[str, Any], libraries: Mapping[str, Library | None]
) -> list[SepTranError]:
    errors: list[SepTranError] = []
    for name, library in libraries.items():
        if library is None:
            kind = type(arrays[name])
            where = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            message = f"{signature.name}: {name} is a {where}{kind.__qualname__}"
            hint = "pass torch tensors or NumPy arrays"
            if hasattr(arrays[name], "__dlpack__"):
                hint = "pass np.from_dlpack(x) or torch.from_dlpack(x): no copy is made"
            elif isinstance(arrays[name], list | tuple | int | float):
                hint = "pass np.asarray(x, dtype=...)"
            errors.append(NotATensorError(message, hint=hint))
    by_library = {lib.name: name for name, lib in libraries.items() if lib is not None}
    if len(by_library) > 1:
        words = " but ".join(f"{name} of {library}" for library, name in by_library.items())
        hint = "pass all of one kind; torch.from_numpy(x) and x.numpy() make no copy"
        errors.append(NotATensorError(f"{signature.name}: {words}", hint=hint))
    return errors


def _array_errors(
    kernel: str, tensor: TensorParam, x: Any, library: Library, device: str
) -> list[SepTranError]:
    errors: list[SepTranError] = []
    obstacle: Obstacle | None = library.obstacle(x, device, tensor.writes)
    if obstacle is not None:
        kind = _OBSTACLES[obstacle.kind]
        message = f"{kernel}: {tensor.name} {obstacle.message}"
        return [kind(message, hint=obstacle.hint.replace("x.", f"{tensor.name}.", 1))]
    dtype, shape = library.dtype(x), library.shape(x)
    if dtype is None or (tensor.dtype is not None and dtype != tensor.dtype):
        errors.append(_dtype_error(kernel, tensor, library, library.dtype_text(x)))
    rank = None if tensor.dims is None else len(tensor.dims)
    rank = len(tensor.shape) if tensor.shape is not None else rank
    if rank is not None and len(shape) != rank:
        message = f"{kernel}: {tensor.name} is {_by(shape)} ({len(shape)}-dimensional)"
        wanted = tensor.dims or tuple(map(str, tensor.shape or ()))
        errors.append(ArgumentShapeError(f"{message}, but must be {' x '.join(wanted)}"))
    elif tensor.shape is not None and shape != tensor.shape:
        message = f"{kernel}: {tensor.name} is {_by(shape)}"
        hint = "the kernel was compiled for this shape; compile without shapes= for any"
        message += f", but the kernel is for {_by(tensor.shape)}"
        errors.append(ArgumentShapeError(message, hint=hint))
    if tensor.writes and dtype is not None:
        _, strides = library.memory(x)
        if overlaps_itself(shape, strides, itemsize(dtype)):
            message = f"{kernel}: elements of {tensor.name} share memory (a broadcast view)"
            errors.append(OverlapError(message, hint="pass an array with a place for each element"))
    return errors


def _dtype_error(kernel: str, tensor: TensorParam, library: Library, dtype: str) -> SepTranError:
    message = f"{kernel}: {tensor.name} is {dtype}"
    if tensor.dtype is None:
        return ArgumentDtypeError(f"{message}, which SepTran does not have")
    cast = f".astype({tensor.dtype!r})" if library.name == "NumPy" else f".to(torch.{tensor.dtype})"
    return ArgumentDtypeError(f"{message}, but must be {tensor.dtype}", hint=f"{tensor.name}{cast}")


def _size_errors(signature: Signature, shapes: Mapping[str, tuple[int, ...]]) -> list[SepTranError]:
    """Errors for named dimensions with two extents: ``K is 64 in A (128 x 64), but 32 in B``."""
    errors: list[SepTranError] = []
    seen: dict[str, tuple[int, str]] = {d: (n, "the mapping") for d, n in signature.sizes}
    for name, shape in shapes.items():
        dims = signature.tensor(name).dims
        for number, (dim, extent) in enumerate(zip(dims or (), shape, strict=False)):
            if not dim.isidentifier() and not dim.isdecimal():
                continue  # unnamed, or an expression that only tracing evaluates
            if dim.isdecimal():
                if int(dim) != extent:
                    where = f"{signature.name}: axis {number} of {name} ({_by(shape)})"
                    errors.append(ArgumentShapeError(f"{where} is {extent}, but must be {dim}"))
                continue
            known, where = seen.setdefault(dim, (extent, f"{name} ({_by(shape)})"))
            if known != extent:
                message = f"{signature.name}: {dim} is {known} in {where}, but {extent} in {name}"
                errors.append(ArgumentShapeError(f"{message} ({_by(shape)})"))
    return errors


def _overlap_errors(
    signature: Signature, arrays: Mapping[str, Any], library: Library
) -> list[SepTranError]:
    errors: list[SepTranError] = []
    names = list(arrays)
    for output in (t.name for t in signature.outputs if t.name in arrays):
        for other in names:
            # Of two outputs one order is enough.
            if other == output or (signature.tensor(other).writes and other < output):
                continue
            if _share(library, arrays[output], arrays[other]):
                message = f"{signature.name}: output {output} shares memory with {other}"
                hint = f"pass another array for {output}, or a copy of {other}"
                errors.append(OverlapError(message, hint=hint))
    return errors


def _share(library: Library, x: Any, y: Any) -> bool:
    x_size, y_size = itemsize(str(library.dtype(x))), itemsize(str(library.dtype(y)))
    first = (library.memory(x), library.shape(x), x_size)
    return share_memory(*first, library.memory(y), library.shape(y), y_size)


_RANGES = {f"int{b}": (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64)}
_RANGES |= {f"uint{b}": (0, 2**b - 1) for b in (8, 16, 32, 64)}


def range_of(dtype: str) -> tuple[int, int]:
    """The least and the greatest integer of a type; 0 and 1 of booleans."""
    return _RANGES.get(dtype, (0, 1))


def _scalar(kernel: str, scalar: ScalarParam, value: Any) -> Scalar:
    if value is None:
        hint = f"pass {scalar.name}=..."
        raise ScalarError(f"{kernel}: scalar {scalar.name} is missing", hint=hint)
    if getattr(value, "ndim", 0) == 0 and hasattr(value, "item"):
        value = value.item()  # NumPy's and torch's scalars
    if not isinstance(value, int | float):
        what = type(value).__name__
        raise ScalarError(f"{kernel}: scalar {scalar.name} must be a number, not a {what}")
    if is_float(scalar.dtype):
        return float(value)
    # Infinity and NaN have no integer part: int() would raise an error of its own.
    if value != int(value) if abs(value) != float("inf") and value == value else True:
        raise ScalarError(f"{kernel}: scalar {scalar.name} is {scalar.dtype}, but got {value}")
    low, high = range_of(scalar.dtype)
    if not low <= value <= high:
        message = f"{kernel}: scalar {scalar.name} = {value} does not fit {scalar.dtype}"
        raise ScalarError(message)
    return int(value)


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) if shape else "a scalar"


def _list(names: Sequence[str]) -> str:
    return " and ".join(names)
