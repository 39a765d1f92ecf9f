"""Checks of the arguments of a launch or a call: tensors that fit, keywords that are known."""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from septran.argument_checks import WrongArgumentError, as_mapping, short_repr
from septran.dtypes import ALL, is_float
from septran.errors import nearest
from septran.ir import expressions as ex
from septran.location import Location
from septran.task.errors import (
    DtypeError,
    LaunchArgumentsError,
    ShapeError,
    TaskFunctionError,
)
from septran.task.frontend.definition import Keyword, Task
from septran.task.trace.chooser import Chooser, DefaultChooser
from septran.task.trace.dims import unify
from septran.task.trace.symbols import Expression
from septran.task.trace.tensors import Partition, Tile
from septran.task.tree import ScalarParam


def check_tensors(
    task: Task,
    tiles: Mapping[str, Tile],
    keywords: Mapping[str, Any],
    where: Location,
    *,
    dtypes: bool,
) -> None:
    """Compare tiles with the annotations; raises ShapeError, DtypeError, SizeMismatchError.

    Dtypes are left out where they are made up, as in the trace that finds what is written.
    """
    static = {n: v for n, v in keywords.items() if not isinstance(v, Expression)}
    tensors = task.specialised(static)
    for name, kind in tensors:
        tile = tiles[name]
        if kind.dims is not None and len(kind.dims) != tile.ndim:
            raise ShapeError(
                f"{name} of {task.name} has {len(kind.dims)} axes, but {tile.name} has {tile.ndim}",
                where,
                hint=f"pass a view with {len(kind.dims)} axes: index an axis away, or reshape",
            )
        if dtypes:
            check_dtype(task, name, kind.dtype, tile.own_dtype, where)
    sizes = {n: tuple(zip(t.view.shape, t.view.valid, strict=True)) for n, t in tiles.items()}
    unify(task, tensors, sizes, static, where)


def check_dtype(task: Task, name: str, wanted: str | None, given: str, where: Location) -> None:
    """Compare a dtype with the annotated one; raises DtypeError."""
    if wanted is not None and given != wanted:
        raise DtypeError(
            f"{name} of {task.name} is annotated {wanted}, but is {given}",
            where,
            hint=f"convert it in a leaf before, x.astype(task.{wanted}), or change the annotation",
        )


def check_keywords(task: Task, keywords: Mapping[str, Any], where: Location) -> None:
    """Refuse tensors as keywords, which would leave their task; raises LaunchArgumentsError."""
    for name, value in keywords.items():
        if isinstance(value, Expression) and any(
            isinstance(node, ex.Load | ex.Position) for node in ex.walk(value.expr)
        ):
            raise LaunchArgumentsError(
                f"{name} of {task.name} is given a tensor, but takes a number", where,
                hint="tensors are passed by position; compute on their elements in a leaf",
            )  # fmt: skip


def checked_static(logic: Task, static: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values of static flags, each of its default's kind; raises LaunchArgumentsError.

    A word would be true wherever a flag is read, even the word ``no``.
    """
    given = as_mapping("static", static, "{'flag': True}")
    for keyword in logic.keywords:
        if not keyword.static or keyword.name not in given:
            continue
        value, default = given[keyword.name], keyword.default
        for kind, taken, words in _FLAG_KINDS:
            if isinstance(default, kind):
                if not isinstance(value, taken) or (kind is bool and value not in (0, 1)):
                    raise LaunchArgumentsError(
                        f"{keyword.name} of {logic.name} is {value!r}, and must be {words}",
                        logic.location,
                        hint=f"it is {default!r} where it is not given",
                    )
                break
    return given


# bool comes before int, of which it is a subclass.
_FLAG_KINDS: tuple[tuple[type, Any, str], ...] = (
    (bool, (Integral, np.bool_), "true or false"),
    (int, Real, "a number"),
    (float, Real, "a number"),
    (str, str, "a word"),
    (tuple, tuple, "a tuple of integers"),
)
"""For the kind of a default, the kinds that a value may have, and their name."""


def entry_keywords(
    logic: Task, given: dict[str, Any]
) -> tuple[tuple[ScalarParam, ...], dict[str, Any]]:
    """Return run-time scalars, and the values of all keywords; raises LaunchArgumentsError."""
    scalars: list[ScalarParam] = []
    values: dict[str, Any] = {}
    known = [k.name for k in logic.keywords]
    for name in given:
        if name not in known:
            raise LaunchArgumentsError(
                f"{logic.name} has no parameter {name!r}", logic.location, hint=nearest(name, known)
            )
    for keyword in logic.keywords:
        value = given.get(keyword.name, keyword.default)
        if not keyword.static:
            scalars.append(ScalarParam(keyword.name, keyword.dtype, value))
            values[keyword.name] = Expression(ex.Scalar(keyword.name, keyword.dtype))
        elif keyword.required and keyword.name not in given:
            raise LaunchArgumentsError(
                f"{logic.name} needs {keyword.name}", logic.location,
                hint=f"it is static: pass static={{{keyword.name!r}: ...}}, or give it a default",
            )  # fmt: skip
        else:
            values[keyword.name] = value
    return tuple(scalars), values


def bound(task: Task, keywords: Mapping[str, Any], where: Location) -> dict[str, Any]:
    """Return keyword arguments with defaults filled in; raises LaunchArgumentsError."""
    known: dict[str, Keyword] = {k.name: k for k in task.keywords}
    for name in keywords:
        if name not in known:
            raise LaunchArgumentsError(
                f"{task.name} has no parameter {name!r}", where, hint=nearest(name, known)
            )
    values = {}
    for name, keyword in known.items():
        if name not in keywords and keyword.required:
            raise LaunchArgumentsError(
                f"{task.name} needs {name}", where, hint=f"it has no default: {name}=..."
            )
        values[name] = _typed(keyword, keywords.get(name, keyword.default))
    return values


def _typed(keyword: Keyword, value: Any) -> Any:
    """Return an integer for a scalar of a float type as a float, as a call of a kernel does."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and not keyword.static and is_float(keyword.dtype) else value


def not_a_tensor(value: Any) -> str:
    """Return a hint on what to pass where a tensor is needed."""
    if isinstance(value, Partition):
        return "one tile of a partition is P[i], or P[i, j]; its tensor is what was partitioned"
    if isinstance(value, Expression):
        return (
            "expressions are computed in leaves: assign it to a temporary there, as in "
            "`t = task.empty(e.shape, e.dtype)` and `t[:] = e`, and pass that"
        )
    return "parameters, temporaries and views of them are tensors; arrays are passed to the logic"


def require_task(logic: Any) -> Task:
    """Return `logic` if it is a task; raises LaunchArgumentsError otherwise."""
    if isinstance(logic, Task):
        return logic
    raise LaunchArgumentsError(
        f"{short_repr(logic)} is not a task", Location.of_caller(),
        hint="pass a function with @task.define, or task.load_entry(file)",
    )  # fmt: skip


def require_chooser(chooser: Any) -> Chooser:
    """Return `chooser`, or the defaults for None; raises WrongArgumentError."""
    if chooser is None:
        return DefaultChooser()
    asked = [getattr(chooser, name, None) for name in ("variant", "tunable")]
    if isinstance(chooser, type) or not all(map(callable, asked)):
        hint = "write chooser=task.DefaultChooser({'block_M': 64}), or None"
        raise WrongArgumentError(f"chooser is {short_repr(chooser)}, not a chooser", hint=hint)
    chosen: Chooser = chooser
    return chosen


def checked_dtypes(logic: Task, dtypes: Any) -> dict[str, str]:
    """Return element types by parameter, empty for None; raises WrongArgumentError, DtypeError."""
    known = as_mapping("dtypes", dtypes, "{'A': 'float16'}")
    for name, dtype in known.items():
        if dtype not in ALL:
            message = f"{name} of {logic.name} is of {short_repr(dtype)}, which is no element type"
            hint = nearest(dtype, ALL) if isinstance(dtype, str) else f"known: {', '.join(ALL)}"
            raise DtypeError(message, logic.location, hint=hint)
    return known


def checked_shapes(logic: Any, shapes: Any) -> dict[str, tuple[int, ...]]:
    """Extents by parameter, as a trace takes them; raises LaunchArgumentsError, ShapeError."""
    require_task(logic)
    try:
        return {str(name): tuple(operator.index(n) for n in s) for name, s in shapes.items()}
    except (AttributeError, TypeError):
        raise ShapeError(
            f"shapes is {shapes!r}, not a dictionary of tuples of integers", Location.of_caller(),
            hint="write {'A': (128, 64)}",
        ) from None  # fmt: skip


def require_none(result: Any, task: Task) -> None:
    """Refuse a task's function that returns something; raises TaskFunctionError."""
    if result is not None:
        raise TaskFunctionError(
            f"task {task.name} returns {result!r}, which is not used", _returns(task),
            hint="a task writes what it computes to its tensors: Y[:] = ... in a leaf, or a "
            "launch on them",
        )  # fmt: skip


def _returns(task: Task) -> Location:
    """Return the line of the function that returns a value; the task's own without its source."""
    try:
        lines, first = inspect.getsourcelines(task.function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return task.location
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None]
    return replace(task.location, line=first + found[0].lineno - 1) if found else task.location
