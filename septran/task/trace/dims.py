"""Named dimensions: unified over a task's parameters, or calculated from each other."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from septran.ir.atoms import CallExtent
from septran.ir.index import Index
from septran.location import Location
from septran.task.errors import InferenceError, SizeMismatchError
from septran.task.frontend.definition import Task, TensorType

Shape = tuple[int, ...]
Size = tuple[int, Index]
"""The nominal extent, and the extent that exists."""

_NAME = r"[^\W\d]\w*"
"""What Python takes as a name, Greek letters among it."""


def named_dims(
    task: Task, shapes: Mapping[str, Shape], static: Mapping[str, Any]
) -> dict[str, int]:
    """The extents of named dimensions; raises SizeMismatchError where parameters disagree."""
    sizes = {n: tuple((e, Index.of(e)) for e in shape) for n, shape in shapes.items()}
    found = unify(task, task.specialised(static), sizes, static, task.location)
    return {name: nominal for name, (nominal, _) in found.items()}


NOTHING_DYNAMIC: Mapping[str, int] = MappingProxyType({})


def names_in(dim: Any) -> frozenset[str]:
    """The names of dimensions and flags that the annotation of a dimension computes with."""
    return frozenset(re.findall(_NAME, dim)) if isinstance(dim, str) else frozenset()


def run_time_sizes(
    task: Task, shapes: Mapping[str, Shape], dims: Mapping[str, int],
    static: Mapping[str, Any], dynamic: Mapping[str, int],
) -> dict[str, tuple[Index, ...]]:  # fmt: skip
    """The extents of tensors with a dimension that is known only when the kernel is called.

    `dims` has the greatest extent of each, `dynamic` the least of those. Raises InferenceError for
    a name that no tensor has as a dimension of its own.
    """
    if not dynamic:
        return {}
    values: dict[str, Any] = task.flags(static) | dict(dims)
    own = {d for _, kind in task.specialised(static) for d in kind.dims or () if d in dims}
    for name, least in dynamic.items():
        if name not in own:
            known = ", ".join(d for d in dims if d in own) or "none"
            raise InferenceError(
                f"{task.name} has no dimension {name!r} that a call could tell", task.location,
                hint=f"name one that a tensor has as it is: {known}",
            )  # fmt: skip
        if least < dims[name]:  # a range of one extent leaves nothing to tell
            values[name] = Index(((CallExtent(name, least, dims[name]), 1),))
    found: dict[str, tuple[Index, ...]] = {}
    for tensor, kind in task.specialised(static):
        if kind.dims is not None and tensor in shapes:
            pairs = zip(kind.dims, shapes[tensor], strict=True)
            # What calls do not tell need not follow from other dimensions.
            extents = (
                e if names_in(d).isdisjoint(dynamic) else calculate(str(d), values)
                for d, e in pairs
            )
            found[tensor] = tuple(map(Index.of, extents))
            _check_distances(task, tensor, kind.dims, found[tensor])
    return found


def _check_distances(
    task: Task, tensor: str, dims: tuple[Any, ...], extents: tuple[Index, ...]
) -> None:
    """Refuse rows that lie as far apart as a quotient of an extent of a call says."""
    for dim, extent in list(zip(dims, extents, strict=True))[1:]:
        if not extent.only_sizes:
            raise InferenceError(
                f"rows of {tensor} of {task.name} are {dim} long, which is no sum or product of "
                "extents that calls tell", task.location,
                hint=f"leave what {dim} is made of out of dynamic, or give {tensor} a dimension "
                "of its own name in its place",
            )  # fmt: skip


def unify(
    task: Task,
    tensors: tuple[tuple[str, TensorType], ...],
    sizes: Mapping[str, tuple[Size, ...]],
    static: Mapping[str, Any],
    where: Location,
) -> dict[str, Size]:
    """Return sizes of named dimensions from those of the tensors; raises SizeMismatchError."""
    dims: dict[str, Size] = {}
    seen: dict[str, str] = {}
    formulas: list[tuple[str, str, Size]] = []
    for name, kind in tensors:
        if name not in sizes or kind.dims is None:
            continue
        shape = sizes[name]
        if len(shape) != len(kind.dims):
            raise SizeMismatchError(
                f"{name} of {task.name} has {len(kind.dims)} axes "
                f"({', '.join(map(str, kind.dims))}), but its shape is ({_list(shape)})", where,
                hint="reshape the tensor before the call, or change the annotation",
            )  # fmt: skip
        for dim, size in zip(kind.dims, shape, strict=True):
            if isinstance(dim, int) and size != (dim, Index.of(dim)):
                raise SizeMismatchError(
                    f"{name} of {task.name} has a fixed extent of {dim}, not {_text(size)}",
                    where,
                    hint="a named dimension in the annotation would take any extent",
                )
            if isinstance(dim, str) and not dim.isidentifier():
                formulas.append((name, dim, size))
            elif isinstance(dim, str):
                if dims.setdefault(dim, size) != size:
                    raise SizeMismatchError(
                        f"{dim} is {_text(dims[dim])} in {seen[dim]} "
                        f"and {_text(size)} in {name}", where,
                        hint="a name means one extent; call the other dimension otherwise",
                    )  # fmt: skip
                seen.setdefault(dim, name)
    # Formulas come last, as they may use names that only a later tensor gives.
    for _, dim, size in formulas:
        name, more = _shifted(dim)
        if name and name not in task.flags(static) and size[0] >= more:
            dims.setdefault(name, (size[0] - more, size[1] - more))
    known = {name: nominal for name, (nominal, _) in dims.items()}
    for name, dim, size in formulas:
        _check_formula(task, name, dim, size, known, static, where)
    return dims


def _shifted(dim: str) -> tuple[str, int]:
    """The name and the number of ``E + 1``, from which E follows; no name for other formulas."""
    found = re.fullmatch(rf"({_NAME}) *([+-]) *(\d+)", dim.strip())
    return (found[1], int(found[2] + found[3])) if found else ("", 0)


def _check_formula(
    task: Task,
    name: str,
    dim: str,
    size: Size,
    known: Mapping[str, int],
    static: Mapping[str, Any],
    where: Location,
) -> None:
    """Compare an axis with the dimension that its annotation computes, if it can be computed."""
    try:
        wanted = extent(dim, known, static, task, name)
    except InferenceError:
        return
    if size[0] != wanted:
        raise SizeMismatchError(
            f"{name} of {task.name} has an axis of {_text(size)}, but {dim} is {wanted}",
            where,
            hint="the annotation computes it from the other tensors and flags",
        )


def _text(size: Size) -> str:
    return str(size[0]) if size[1] == Index.of(size[0]) else f"{size[1]} of {size[0]}"


def _list(shape: tuple[Size, ...]) -> str:
    return ", ".join(map(_text, shape))


def extent(
    dim: Any, dims: Mapping[str, int], static: Mapping[str, Any], logic: Task, name: str
) -> int:
    """Return one dimension's extent: a number, a known name, or arithmetic over names and flags.

    Raises InferenceError where a name is unknown or a divisor is 0.
    """
    if isinstance(dim, int):
        return dim
    values = logic.flags(static) | dict(dims)
    try:
        # A window larger than what it slides over fits nowhere.
        return max(0, int(calculate(str(dim), values)))
    except ZeroDivisionError:
        divisors = re.findall(rf"(?://|%) *({_NAME})", str(dim))
        zero = next((n for n in divisors if values.get(n) == 0), "what is below")
        raise InferenceError(
            f"dimension {dim} of {name} divides by zero: {zero} is 0",
            logic.location,
            hint="forbid the zero with a reason: task.require(stride > 0, ...)",
        ) from None
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        left = error.args[0] if isinstance(error, KeyError) else None
        size = f"its size, shapes={{{left!r}: ...}} (-s {left}=...), or " if left else ""
        raise InferenceError(
            f"dimension {dim} of {name} does not follow from the inputs of {logic.name}",
            logic.location,
            hint=f"give {size}its shape, shapes={{{name!r}: (...)}}, when compiling, or of "
            "an output the array itself in the call: out=...",
        ) from None


_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def calculate(dim: str, values: Mapping[str, Any]) -> Any:
    """Return the value of a dimension's annotation, of the type that the values have.

    The values may be symbolic (torch's SymInt). Raises KeyError for a name without a value,
    SyntaxError for what is no arithmetic, ZeroDivisionError, and ValueError for a flag of text.
    """
    return _calculate(ast.parse(dim, mode="eval").body, values)


def _calculate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(int() as number):
            return int(number)
        case ast.Name(name):
            value = values[name]
            if isinstance(value, str):
                raise ValueError(f"{name} is a text")
            return int(value) if isinstance(value, bool) else value
        case ast.BinOp(left, kind, right):
            return _OPERATORS[type(kind)](_calculate(left, values), _calculate(right, values))
        case ast.UnaryOp(ast.USub(), inner):
            return -_calculate(inner, values)
        case _:
            raise SyntaxError("not arithmetic")
