"""Tasks as their authors define them: decorator, annotations, signature."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from septran.dtypes import ALL
from septran.errors import nearest
from septran.location import Location
from septran.task.errors import (
    DtypeError,
    LaunchArgumentsError,
    TaskFunctionError,
    UnknownTaskError,
)
from septran.task.frontend.decided_dims import Dim, decided_dims
from septran.task.frontend.python_errors import unknown_attribute


@dataclass(frozen=True)
class TensorType:
    """An annotation: named or fixed dimensions, perhaps a dtype, perhaps a privilege."""

    dims: tuple[Dim, ...] | None = None
    dtype: str | None = None
    privilege: str | None = None
    """``In``, ``Out`` or ``InOut`` where declared, else None."""
    span: tuple[int, int] | None = None
    """Of an integer that a call tells, the least and the greatest that it may be."""

    def decided(self, flags: Mapping[str, Any], where: Location) -> TensorType:
        """Return it with the dimensions that static values decide; raises LaunchArgumentsError."""
        if self.dims is None:
            return self
        return replace(self, dims=decided_dims(self.dims, flags, where))


class Tensor:
    """The annotation ``Tensor["M", "N"]`` or ``Tensor["M", "N", float32]`` of a parameter."""

    def __class_getitem__(cls, items: Any) -> TensorType:
        return _tensor_type(items, None)


class In:
    """The annotation of a tensor that the task must only read; otherwise as `Tensor`."""

    def __class_getitem__(cls, items: Any) -> TensorType:
        return _tensor_type(items, "In")


class Out:
    """The annotation of a tensor that the task must overwrite without reading; as `Tensor`."""

    def __class_getitem__(cls, items: Any) -> TensorType:
        return _tensor_type(items, "Out")


class InOut:
    """The annotation of a tensor that the task may read and write; otherwise as `Tensor`."""

    def __class_getitem__(cls, items: Any) -> TensorType:
        return _tensor_type(items, "InOut")


class Integer:
    """The annotation ``Integer[0, 4096]``: an integer that a call tells, and its range.

    It is a tensor of one integer (int32, or int64 where the range needs it) that the task reads.
    A call passes a Python integer for it.
    """

    def __class_getitem__(cls, span: Any) -> TensorType:
        return _integer_type(span)


class static:  # noqa: N801  # reads as a word of the language: `causal: task.static = False`
    """The annotation of a keyword that specialises the trace, such as a flag or a stride."""


@dataclass(frozen=True)
class Keyword:
    """A keyword parameter of a task."""

    name: str
    static: bool
    default: Any = None
    required: bool = False
    dtype: str = "float32"
    """The element type of a run-time scalar."""


@dataclass(frozen=True, eq=False)
class Task:
    """A named piece of logic; call it through `launch`, `run`, or a compiled kernel."""

    function: Callable[..., object]
    name: str
    """The name by which tasks are launched; variants share it."""
    variant: str
    leaf: bool
    location: Location
    tensors: tuple[tuple[str, TensorType], ...]
    keywords: tuple[Keyword, ...]
    variants: dict[str, Task] = field(default_factory=dict)
    """Other decompositions by their function's name; empty on a variant itself."""
    builtin: bool = False
    """Whether the task is built into the language, and thus has no line in a logic file."""
    base: Task | None = None
    """The task that this one is a variant of; None for a task itself."""

    @property
    def doc(self) -> str:
        """The docstring, cleaned."""
        return inspect.getdoc(self.function) or ""

    @property
    def file(self) -> str:
        """The path of the logic file."""
        return self.location.file

    def __call__(self, *_: Any, **__: Any) -> None:
        """Raise LaunchArgumentsError: a task is launched, run or compiled, never called."""
        raise LaunchArgumentsError(
            f"task {self.name!r} is called like a function",
            Location.of_caller(),
            hint=f"in a task: task.launch({self.name}, ...); from outside: "
            f"task.run({self.name}, ...) or septran.compile({self.name}, ...)",
        )

    if not TYPE_CHECKING:  # else every attribute would be there for a type checker

        def __getattr__(self, name: str) -> Any:
            """Raise UnknownConstructError; Python calls it only for attributes that are missing."""
            raise unknown_attribute("a task", name, self.__dataclass_fields__)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def flags(self, static: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all static flags by name: those given, else their defaults."""
        return {k.name: k.default for k in self.keywords if k.static} | dict(static)

    def specialised(self, static: Mapping[str, Any]) -> tuple[tuple[str, TensorType], ...]:
        """The tensor parameters, with the dimensions that static values decide."""
        flags = self.flags(static)
        return tuple((name, kind.decided(flags, self.location)) for name, kind in self.tensors)


def define(
    function: Callable[..., None] | None = None,
    *,
    leaf: bool = False,
    variant_of: str | Task | None = None,
) -> Any:
    """Make a task of a function: `@define`, `@define(leaf=True)`, `@define(variant_of=t)`.

    Raises:
        UnknownTaskError: `variant_of` names no task of the module so far.
    """
    if function is None:
        return lambda f: define(f, leaf=leaf, variant_of=variant_of)
    where = _plain(function)
    base = _base(function, variant_of, where)
    tensors, keywords = _parameters(function, where)
    name = base.name if base else function.__name__
    task = Task(function, name, function.__name__, leaf, where, tensors, keywords, base=base)
    if base is not None:
        base.variants[function.__name__] = task
    return task


def _plain(function: Callable[..., None]) -> Location:
    """Return the place of a function that can be traced; raises TaskFunctionError for others."""
    if not inspect.isfunction(function):
        raise TaskFunctionError(
            f"{function!r} is no function", Location.of_caller(),
            hint="write @task.define, or @task.define(leaf=True), above def",
        )  # fmt: skip
    where = Location(function.__code__.co_filename, function.__code__.co_firstlineno)
    awaits = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if awaits or inspect.isgeneratorfunction(function):
        raise TaskFunctionError(
            f"task {function.__name__} " + ("is declared async" if awaits else "yields"), where,
            hint="a task is an ordinary function: what it computes it writes to its tensors, "
            "and which tasks run at the same time is said by task.parallel_range",
        )  # fmt: skip
    return where


def _base(
    function: Callable[..., None], variant_of: str | Task | None, where: Location
) -> Task | None:
    if variant_of is None:
        return None
    if isinstance(variant_of, Task):
        return variant_of.base or variant_of
    found = function.__globals__.get(variant_of)
    if not isinstance(found, Task):
        tasks = [n for n, value in function.__globals__.items() if isinstance(value, Task)]
        raise UnknownTaskError(
            f"variant of unknown task {variant_of!r}", where, hint=nearest(variant_of, tasks)
        )
    return found.base or found


def _parameters(
    function: Callable[..., None], where: Location
) -> tuple[tuple[tuple[str, TensorType], ...], tuple[Keyword, ...]]:
    tensors: list[tuple[str, TensorType]] = []
    keywords: list[Keyword] = []
    # Annotations are evaluated by hand: `from __future__ import annotations` makes them text.
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise LaunchArgumentsError(
                f"{function.__name__} takes *{parameter.name}; a task names its parameters",
                where,
                hint="let a Python function define one task for each number of tensors",
            )
        kind = _annotation(parameter.annotation, function, where)
        missing = parameter.default is inspect.Parameter.empty
        is_keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if isinstance(kind, TensorType) or (missing and not is_keyword and kind is None):
            tensors.append((parameter.name, kind if isinstance(kind, TensorType) else TensorType()))
            continue
        default = None if missing else parameter.default
        typed = isinstance(kind, str) and kind in ALL
        # Without an annotation a number with a point is a scalar of the kernel, all else a flag.
        run_time = typed or kind is float or (kind is None and isinstance(default, float))
        dtype = kind if typed else "float32"
        keywords.append(Keyword(parameter.name, not run_time, default, missing, dtype))
    return tuple(tensors), tuple(keywords)


def _annotation(annotation: Any, function: Callable[..., None], where: Location) -> Any:
    if annotation is inspect.Parameter.empty:
        return None
    # The word bool means Python's type, that of a flag, though an element type is named so, too.
    if isinstance(annotation, str) and (annotation == "bool" or annotation not in ALL):
        try:
            return eval(annotation, function.__globals__)  # the author's own annotation
        except (NameError, AttributeError, SyntaxError) as error:
            raise LaunchArgumentsError(
                f"cannot read annotation {annotation!r}: {error}",
                where,
                hint='write task.Tensor["M", "N"], an element type (task.int32) or a Python type',
            ) from None
    return annotation


def _tensor_type(items: Any, privilege: str | None) -> TensorType:
    parts = items if isinstance(items, tuple) else (items,)
    if len(parts) == 1 and isinstance(parts[0], TensorType):
        return replace(parts[0], privilege=privilege)
    dims: list[Dim] = []
    dtype: str | None = None
    for part in parts:
        if isinstance(part, str) and part in ALL:
            dtype = part
        elif part is None or isinstance(part, int) or _is_formula(part):
            dims.append(part)
        else:
            raise DtypeError(
                f"{part!r} is neither a dimension nor a dtype", Location.of_caller(),
                hint='write task.Tensor["M", "N", task.float32]',
            )  # fmt: skip
    return TensorType(tuple(dims), dtype, privilege)


def _integer_type(span: Any) -> TensorType:
    ends = span if isinstance(span, tuple) else (0, span)
    whole = len(ends) == 2 and all(isinstance(e, int) and not isinstance(e, bool) for e in ends)
    if not whole or not -(2**63) <= ends[0] <= ends[1] < 2**63:
        raise DtypeError(
            f"{span!r} is no range of an integer", Location.of_caller(),
            hint="write the least and the greatest that it may be: task.Integer[0, 4096]",
        )  # fmt: skip
    short = ends[0] >= -(2**31) and ends[1] < 2**31
    return TensorType((1,), "int32" if short else "int64", "In", ends)


def _is_formula(part: Any) -> bool:
    """Return whether a part of an annotation is a dimension's name, or arithmetic over names."""
    if not isinstance(part, str):
        return False
    try:
        ast.parse(part, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True
