"""Python's own errors in a task's body, reported as mistakes of the logic with their place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from traceback import walk_tb
from types import CodeType, TracebackType

from septran.errors import SepTranError, nearest
from septran.location import Location
from septran.task.errors import PythonError, UnknownConstructError

FUNCTIONS = (
    "abs", "argmax", "argmin", "ceil", "cos", "cumprod", "cumsum", "equal", "erf", "exp", "exp2",
    "floor", "floor_divide", "gelu", "log", "log2", "max", "maximum", "min", "minimum", "power",
    "relu", "round", "rsqrt", "sigmoid", "silu", "sin", "sqrt", "sum", "tanh", "where",
)  # fmt: skip
"""The functions of tensor expressions, under NumPy's names."""
_GATHER = "task.gather(x, index, axis), or x[index]: a view of the rows that integers choose"
_SCATTER = (
    "task.reduce_into(C[index[t]], part), which adds a part to a row, or a gather from the side of "
    "the result: nothing else is written through an index"
)
_OTHERWISE = {
    "mean": "task.sum(x, axis=n) / x.shape[n]",
    "matmul": 'task.call_primitive("gemm", C, A, B), which adds A @ B to C',
    "dot": 'task.call_primitive("gemm", C, A, B), which adds A @ B to C',
    "range": "task.parallel_range or task.sequential_range",
    "pow": "task.power",
    "fabs": "task.abs",
    "amax": "task.max",
    "amin": "task.min",
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y",
    "square": "x * x",
    "astype": "x.astype(dtype)",
    "scan": 'Y[...] = task.cumsum(X, axis), or task.scan("max", X, axis)',
    "cummax": 'task.scan("max", x, axis)',
    "cummin": 'task.scan("min", x, axis)',
    "logcumsumexp": "task.scan(function, x, axis), where function joins two log-sum-exps",
    "associative_scan": "task.scan(function, (x, y), axis)",
    "take": _GATHER,
    "scatter": _SCATTER,
    "scatter_add": _SCATTER,
    "index_add": _SCATTER,
    "histogram": _SCATTER,
    "bincount": _SCATTER,
    "sort": "task.max and task.where again and again (see the operator topk), as there is no sort",
    "argsort": "task.max and task.where again and again (see the operator topk)",
}
"""The replacement for each word of NumPy that the language does not have."""
_FOREIGN = re.compile(r"\b(?:np|numpy|math|torch|jnp)\.(\w+)\(")
_SYMBOLIC = re.compile(r"\b(Tile|Expression|Partition|Symbol|Extent)\b")


def instead(name: str, known: Iterable[str]) -> str:
    """Return a hint for a word that the language does not have."""
    if name in FUNCTIONS:
        return f"write task.{name}(x, ...)"
    if name in _OTHERWISE:
        return f"write {_OTHERWISE[name]}"
    return nearest(name, known)


def unknown_attribute(owner: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for reading an attribute that does not exist.

    Names that begin with an underscore are looked up by Python, NumPy and notebooks, to learn what
    a value can do: for them it is a plain AttributeError.
    """
    message = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(message)
    return UnknownConstructError(message, Location.of_caller(), hint=instead(name, known))


@contextmanager
def located_errors(task: str) -> Iterator[None]:
    """Turn Python's errors in a task's body into `PythonError`; add columns to other mistakes."""
    try:
        yield
    except SepTranError as error:
        _point(error)
        raise
    except Exception as error:
        where = _place(error.__traceback__)
        word = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise PythonError(
            f"Python refuses this in task {task}: {word}", where, hint=_hint(error, where)
        ) from error


def _hint(error: Exception, where: Location | None) -> str:
    for name in _FOREIGN.findall(where.text if where else ""):
        if name in FUNCTIONS or name in _OTHERWISE:
            return f"{instead(name, ())}: functions of other libraries take no tensors of a task"
    if isinstance(error, NameError) and error.name:
        return f"{error.name!r} is not defined where the task is; is it imported?"
    if _SYMBOLIC.search(str(error)):
        return (
            "tensors and loop indices have no values while a task is traced; in a leaf use task's "
            "own functions (task.exp, task.where), in a composite loops and task.least"
        )
    return "a task's body runs once, while it is traced, for each combination of shapes and flags"


def _place(trace: TracebackType | None) -> Location | None:
    """Return the innermost line of logic that an error passed through, with its column."""
    found = None
    for frame, line in walk_tb(trace):
        place = Location(frame.f_code.co_filename, line)
        if place.of_user:
            found = (place, frame.f_code)
    return _with_column(*found, trace) if found else None


def _point(error: SepTranError) -> None:
    """Add the column to a mistake's place, if its line is one that was running."""
    where = error.where
    if where is None or where.column is not None:
        return
    for frame, line in walk_tb(error.__traceback__):
        if (frame.f_code.co_filename, line) == (where.file, where.line):
            error.where = _with_column(where, frame.f_code, error.__traceback__)


def _with_column(where: Location, code: CodeType, trace: TracebackType | None) -> Location:
    """The place with the columns of the instruction that was running, if Python knows them."""
    while trace is not None:
        if trace.tb_frame.f_code is code and trace.tb_lineno == where.line:
            # `co_positions` has an entry for each code unit, and a unit has two bytes.
            last = trace.tb_lasti // 2
            start, end, left, right = next(
                islice(code.co_positions(), last, None), (None, None, None, None)
            )
            if start != where.line or left is None or right is None:
                return where
            text = where.text.encode()  # Python counts bytes
            column = len(text[:left].decode(errors="replace")) + 1
            stop = right if end == start else len(text)
            return replace(
                where, column=column, length=len(text[left:stop].decode(errors="replace")) or 1
            )
        trace = trace.tb_next
    return where
