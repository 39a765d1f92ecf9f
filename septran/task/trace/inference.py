"""Inference of shapes and dtypes of the outputs that a caller does not pass."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from septran.argument_checks import WrongArgumentError, as_tuple
from septran.dtypes import accumulator_dtype, is_float, promote
from septran.errors import LogicError
from septran.ir.bounds import loop_range
from septran.ir.index import Range, Var, axis
from septran.task.check.privileges import WRITES, accesses
from septran.task.errors import (
    IndexingError,
    InferenceError,
    NothingWrittenError,
    PartitionError,
    ShapeError,
    SizeMismatchError,
    UnmetDemandError,
    ViewError,
)
from septran.task.frontend.definition import Task, TensorType
from septran.task.reference_arguments import require_array
from septran.task.trace.arguments import checked_dtypes, checked_shapes, require_task
from septran.task.trace.chooser import Chooser
from septran.task.trace.dims import extent, named_dims, names_in
from septran.task.trace.tracing import trace
from septran.task.tree import Loop, Statement, TaskTree

PROBE = 64
"""The extent of every dimension in the trace that finds which parameters are written.

Where static flags are numbers, a multiple that they divide: groups of 3 or 128, say.
"""

Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


def with_integers(logic: Task, arrays: Sequence[Any], static: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arrays of a run, in which Python integers that it tells are of one element.

    Raises WrongArgumentError for one out of its range.
    """
    tensors = logic.tensors
    if not any(kind.span for _, kind in tensors):
        return tuple(arrays)
    if len(arrays) != len(tensors):
        outputs = written(logic, static)
        tensors = tuple((name, kind) for name, kind in tensors if name not in outputs)
    found = list(arrays)
    for place, ((name, kind), value) in enumerate(zip(tensors, arrays, strict=False)):
        if kind.span is None or not isinstance(value, int | np.integer):
            continue
        low, high = kind.span
        if isinstance(value, bool) or not low <= value <= high:
            message = f"{name} of {logic.name} is {value}, and is from {low} to {high}"
            raise WrongArgumentError(message, hint=f"pass an integer from {low} to {high}")
        found[place] = np.array([value], kind.dtype)
    return tuple(found)


def infer_outputs(
    logic: Task,
    arrays: Sequence[Any],
    chooser: Chooser | None = None,
    static: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> tuple[dict[str, Shape], dict[str, str]]:
    """Return shape and dtype of every parameter, from arrays of its inputs (or of all of them).

    Raises:
        InferenceError: an output's shape does not follow from the inputs.
        SizeMismatchError: inputs disagree about a named dimension.
    """
    require_task(logic)
    arrays = as_tuple("arrays", arrays, "[a, b]")
    for number, array in enumerate(arrays):
        require_array(f"array {number}", array)
    sizes = [tuple(int(e) for e in a.shape) for a in arrays]
    names = _given(logic, sizes, static)
    shapes = dict(zip(names, sizes, strict=True))
    kinds = {n: _dtype_name(a) for n, a in zip(names, arrays, strict=True)}
    return complete(logic, shapes, kinds, chooser, static, dtypes)


def _given(
    logic: Task,
    sizes: Sequence[Shape],
    static: Mapping[str, Any] | None,
) -> list[str]:
    """Return the parameters that the arrays are: all, or those only read; raises InferenceError."""
    every = [name for name, _ in logic.tensors]
    try:
        outputs = written(logic, static)
    except _SIZES as error:  # with the sizes that are given there may be no mistake
        if len(every) == len(sizes):
            return every
        return _fitting(logic, sizes, static or {}, error)
    inputs = [n for n in every if n not in outputs]
    for names in (inputs, every):
        if len(names) == len(sizes):
            return names
    raise InferenceError(
        f"{logic.name} takes {', '.join(inputs)}; {len(sizes)} tensors are given",
        logic.location,
        hint="give the inputs in this order, or the outputs, too, before them",
    )


_SIZES = (
    IndexingError, PartitionError, ShapeError, SizeMismatchError, UnmetDemandError, ViewError,
)  # fmt: skip
"""The errors that may be due to made-up sizes rather than to the logic."""


def _fitting(
    logic: Task, sizes: Sequence[Shape], static: Mapping[str, Any], error: LogicError
) -> list[str]:
    """Return the parameters with which these sizes trace soundly, and which are then only read."""
    every = [name for name, _ in logic.tensors]
    for names in itertools.combinations(every, len(sizes)):
        try:
            known, _ = complete(logic, dict(zip(names, sizes, strict=True)), {}, None, static)
            tree = trace(logic, known, None, None, static, check=False)
        except (InferenceError, SizeMismatchError):
            continue
        except LogicError as of_these:
            error = of_these
            continue
        # These are the inputs if the logic writes just what is not given.
        if all(p.writes == (p.name not in names) for p in tree.root.params):
            return list(names)
    raise error


def complete(
    logic: Task,
    shapes: Mapping[str, Shape],
    kinds: Mapping[str, str],
    chooser: Chooser | None = None,
    static: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> tuple[dict[str, Shape], dict[str, str]]:
    """Infer shapes and dtypes of all parameters from those of some, as `infer_outputs` by name."""
    known, kinds = checked_shapes(logic, shapes), checked_dtypes(logic, kinds)
    dims = named_dims(logic, known, static or {})
    for name, kind in logic.specialised(static or {}):
        if name not in known and kind.dims is not None:
            known[name] = tuple(extent(d, dims, static or {}, logic, name) for d in kind.dims)
    if len(known) < len(logic.tensors):
        known = _search(logic, known, kinds, chooser, static)
    return known, complete_dtypes(logic, kinds, static, dtypes)


def complete_dtypes(
    logic: Task,
    kinds: Mapping[str, str],
    static: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Infer the dtypes of all parameters from those of some; `dtypes` override what is inferred."""
    kinds = checked_dtypes(logic, kinds)
    result = kinds | checked_dtypes(logic, dtypes)
    for name, kind in logic.tensors:
        if name not in result:
            result[name] = kind.dtype or _result_dtype(logic, name, kinds, static)
    return result


def written(logic: Task, static: Mapping[str, Any] | None = None) -> frozenset[str]:
    """Return the names of the parameters that the logic writes: as declared, else by a trace.

    Raises:
        NothingWrittenError: there are none, so that the logic has no result.
    """
    stated = {name: kind.privilege for name, kind in require_task(logic).tensors}
    if stated and all(stated.values()):
        found = frozenset(name for name, privilege in stated.items() if privilege != "In")
    else:
        found = frozenset(p.name for p in probe(logic, static).root.params if p.writes)
    if not found:
        raise NothingWrittenError(
            f"{logic.name} writes none of its tensors, so it has no result", logic.location,
            hint=WRITES,
        )  # fmt: skip
    return found


def probe(logic: Task, static: Mapping[str, Any] | None) -> TaskTree:
    """Return a trace at made-up extents, enough to see what is written; greater ones if need be.

    Raises LogicError where no made-up extents fit.
    """
    failures: list[LogicError] = []
    tensors = logic.specialised(static or {})
    free = any(k.dims is None for _, k in tensors)
    size = _divisible(logic, static or {})
    for extents in (size, size * PROBE):  # a fixed index may lie beyond the first
        for rank in (2, 1, 3, 4) if free else (2,):
            shapes = _made_up(logic, tensors, static or {}, extents, rank)
            try:
                return trace(logic, shapes, None, None, static, check=False)
            except LogicError as error:
                failures.append(error)
        if not any(isinstance(f, IndexingError | PartitionError) for f in failures):
            break
    if not isinstance(failures[0], _SIZES):
        raise failures[0]
    return _with_few(logic, static or {}, size, failures[0])


FEW = 9
"""The bound below which extents are tried where the made-up ones do not fit: windows, taps."""


def _with_few(logic: Task, static: Mapping[str, Any], size: int, error: LogicError) -> TaskTree:
    """Return a trace in which one or two dimensions are short, like a window of fixed extent."""
    tensors = logic.specialised(static)
    names = sorted({str(d) for _, k in tensors for d in k.dims or () if str(d).isidentifier()})
    for count in (1, 2):
        for short in itertools.combinations(names, count):
            for few in range(1, FEW):
                shapes = _made_up(logic, tensors, static, size, 2, dict.fromkeys(short, few))
                try:
                    return trace(logic, shapes, None, None, static, check=False)
                except LogicError:
                    continue
    if isinstance(error, UnmetDemandError):  # it has the words of the logic's author
        raise error
    raise type(error)(
        f"shapes do not fit here, whatever sizes are tried for the tensors of {logic.name}",
        error.where,
        hint="pass arrays or shapes, and the message will say which sizes; declare what is "
        "written (task.Out) and read (task.In), and none need be tried",
    ) from None


def _made_up(
    logic: Task,
    tensors: Sequence[tuple[str, TensorType]],
    static: Mapping[str, Any],
    size: int,
    rank: int,
    short: Mapping[str, int] | None = None,
) -> dict[str, Shape]:
    """Return shapes with an extent of `size` everywhere, except for windows and `short` ones.

    A dimension that is a static flag has the flag's value; a tensor of any rank has `rank` axes.
    """
    own = {str(d) for _, k in tensors for d in k.dims or () if str(d).isidentifier()}
    small = {n for _, k in tensors for d in k.dims or () for n in _subtracted(str(d))}
    flags = logic.flags(static)
    # Offsets of E + 1 sections may be all that has a name E.
    computed = {n for _, k in tensors for d in k.dims or () for n in names_in(d)} - flags.keys()
    # A subtracted dimension is a window's size, which must stay below the extent that it slides
    # over.
    dims = {n: 3 if n in small else size for n in own | computed}
    dims |= {n: v for n, v in flags.items() if n in own and isinstance(v, int)}
    dims |= short or {}
    return {
        name: (size,) * rank
        if kind.dims is None
        else tuple(extent(d, dims, static, logic, name) for d in kind.dims)
        for name, kind in tensors
    }


def _divisible(logic: Task, static: Mapping[str, Any]) -> int:
    """Return an extent that is a multiple of every static flag that is a number."""
    flags = logic.flags(static)
    numbers = [v for v in flags.values() if isinstance(v, int) and 0 < v < PROBE**2]
    return math.lcm(PROBE, *numbers)


def _subtracted(dim: str) -> set[str]:
    """Return names that are subtracted in a dimension's formula: window sizes, which are small."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(dim, mode="eval")):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            found |= {n.id for n in ast.walk(node.right) if isinstance(n, ast.Name)}
    return found


def _search(
    logic: Task,
    known: dict[str, Shape],
    kinds: Mapping[str, str],
    chooser: Chooser | None,
    static: Mapping[str, Any] | None,
) -> dict[str, Shape]:
    """Return shapes of unannotated outputs: extents of inputs with which the trace is sound.

    A candidate is sound when shapes agree everywhere and every input is used to its ends.
    """
    missing = [name for name, _ in logic.tensors if name not in known]
    sizes = sorted({e for shape in known.values() for e in shape})
    ranks = sorted({len(s) for s in known.values()}, reverse=True)
    failure: LogicError | None = None
    for rank in ranks:
        shapes = list(itertools.product(sizes, repeat=rank))
        for choice in itertools.product(shapes, repeat=len(missing)):
            candidate = known | dict(zip(missing, choice, strict=True))
            try:
                tree = trace(logic, candidate, kinds, chooser, static, check=False)
            except LogicError as error:
                failure = failure or error
                continue
            if _spans(tree):
                return candidate
    raise InferenceError(
        f"the shape of {', '.join(missing)} does not follow from the inputs of {logic.name}",
        logic.location,
        hint='annotate the parameters, as in C: task.Tensor["M", "N"], or give its shape when '
        f"compiling, shapes={{{missing[0]!r}: (...)}}, or the array itself in the call: out=..."
        + (f"; the first attempt failed with: {failure.message}" if failure else ""),
    )


def _spans(tree: TaskTree) -> bool:
    """Return whether the entry uses every parameter from its first to its last element."""
    reach: dict[tuple[str, int], tuple[int, int]] = {}
    for statement, ranges in _with_ranges(tree.root.body, {}):
        for access in accesses(statement):
            view = access.view
            known = dict(ranges)
            for n, valid in enumerate(view.valid):
                known[axis(n)] = loop_range(valid, known)
            for n, entry in enumerate(view.index):
                low, high = entry.bounds(known)
                held = reach.get((view.tensor, n), (low, high))
                reach[view.tensor, n] = (min(low, held[0]), max(high, held[1]))
    return all(
        reach.get((p.name, n), (0, 0))[0] <= 0 and reach.get((p.name, n), (0, -1))[1] >= extent - 1
        for p in tree.root.params
        for n, extent in enumerate(p.shape)
    )


def _with_ranges(
    body: tuple[Statement, ...], ranges: Mapping[Var, Range]
) -> Iterator[tuple[Statement, Mapping[Var, Range]]]:
    for statement in body:
        if isinstance(statement, Loop):
            inner = dict(ranges)
            for variable, size in zip(statement.variables, statement.extents, strict=True):
                inner[variable] = loop_range(size, inner)
            yield from _with_ranges(statement.body, inner)
        else:
            yield statement, ranges


def _result_dtype(
    logic: Task, name: str, kinds: Mapping[str, str], static: Mapping[str, Any] | None
) -> str:
    fixed = {n for n, kind in logic.tensors if kind.dtype is not None}
    others = [n for n in kinds if n != name]
    # What has its own type whatever the rest is (indices, statistics) does not tell the result's.
    inputs = [kinds[n] for n in others if n not in fixed] or [kinds[n] for n in others]
    common = promote(*inputs) if inputs else "float32"
    if is_float(common):
        return common
    param = next(p for p in probe(logic, static).root.params if p.name == name)
    # Sums of integer products exceed the type of their factors.
    return accumulator_dtype(common) if param.accumulates else common


def _dtype_name(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")
