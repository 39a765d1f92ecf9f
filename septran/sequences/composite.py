"""`sequence`: one task that runs several operators, with what lies between them as temporaries."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

from septran.errors import nearest
from septran.ir.index import Index
from septran.location import Location
from septran.sequences.dims import Dims
from septran.sequences.steps import CALL, Known, SequenceError, SequenceStep, read_steps
from septran.task import Task, empty, launch
from septran.task.errors import InferenceError
from septran.task.frontend.definition import Keyword
from septran.task.trace.dims import calculate, extent, unify
from septran.task.trace.inference import complete_dtypes
from septran.task.trace.symbols import Expression, Extent
from septran.task.trace.tensors import Tile


def sequence(
    steps: Iterable[str],
    name: str = "sequence",
    *,
    operators: Known | None = None,
    keep: Iterable[str] = (),
) -> Task:
    """Return one task that runs several operators: compiled, it is one call of one library.

    A step is a line such as ``"Z = swiglu(H, gate, up)"`` or ``"O, L = attention_lse(Q, K, V,
    causal=True)"``: on the left what the operator writes, on the right what it reads, both in the
    order of the operator's parameters, then its flags and numbers. What is read may be a view of a
    tensor: ``gemm(Z, W.T)``. A keyword that is a name, ``eps=eps``, is a keyword of the sequence.
    What is read and was not written by a step before is a parameter; what is written and not read
    later, or is named in `keep`, is a result; the rest are temporaries, whose shapes and types
    follow from the operators. A step that writes a tensor once more writes it in place.

    The parameters are the results in the order of the steps, then what is read.

    Args:
        steps: The lines.
        name: Of the task, by which mapping rules, exported symbols and messages call it.
        operators: Tasks, names of library operators or logic files under names of one's own.
        keep: Results that later steps read, too, such as caches that are written in place.

    Raises:
        SequenceError: a step is no such line, or there are none.
        LoadError: a logic file defines no task.
    """
    where = Location.of_caller()
    lines = [steps] if isinstance(steps, str) else list(steps)
    if isinstance(steps, str) or not lines or not all(isinstance(line, str) for line in lines):
        hint = 'write ["H = rms_norm(X, W)", "Z = swiglu(H, gate, up)"]'
        raise SequenceError(f"{lines!r} is no list of steps", where, hint=hint)
    if not isinstance(name, str) or not name.isidentifier():
        raise SequenceError(
            f"{name!r} is no name of a task",
            where,
            hint="a name is a Python identifier, such as 'layer'",
        )
    space = sys._getframe(1).f_globals
    return _composite(name, read_steps(lines, operators or {}, where), tuple(keep), where, space)


def _composite(
    name: str,
    steps: Sequence[SequenceStep],
    keep: Sequence[str],
    where: Location,
    space: dict[str, Any],
) -> Task:
    results, inputs = _parameters(steps, keep, where)
    types = Dims(steps, inputs).types(results)

    run = functools.partial(_run, steps, tuple(types))

    def body(**given: Any) -> None:
        run(given)

    # As if it were written where `sequence` is called, so that the file's EXAMPLE is for it.
    function = FunctionType(body.__code__, space, name, None, body.__closure__)
    function.__doc__ = "\n".join(step.text for step in steps)
    return Task(
        function, name, name, leaf=False, location=where,
        tensors=tuple(types.items()), keywords=_asked(steps),
    )  # fmt: skip


def _parameters(
    steps: Sequence[SequenceStep], keep: Sequence[str], where: Location
) -> tuple[list[str], list[str]]:
    """Return the names of the results and of what is read; raises SequenceError."""
    made: dict[str, bool] = {}
    """What steps write, and whether it is read later."""
    inputs: dict[str, None] = {}
    for step in steps:
        for name in step.names():
            if name in made:
                made[name] = True
            else:
                inputs[name] = None
        made |= dict.fromkeys(step.results, False)
    unknown = [name for name in keep if name not in made]
    if unknown:
        hint = nearest(unknown[0], made)
        raise SequenceError(f"no step writes {unknown[0]}, which is kept", where, hint=hint)
    results = [n for n, later in made.items() if n in keep or not later or n in inputs]
    return results, [n for n in inputs if n not in results]


def _asked(steps: Sequence[SequenceStep]) -> tuple[Keyword, ...]:
    """Return the keywords of a sequence, each as the first operator that takes it has it."""
    found: dict[str, Keyword] = {}
    for step in steps:
        own = {keyword.name: keyword for keyword in step.task.keywords}
        for inner, outer in step.passed.items():
            found.setdefault(outer, replace(own[inner], name=outer))
    return tuple(found.values())


def _run(steps: Sequence[SequenceStep], tensors: Sequence[str], given: Mapping[str, Any]) -> None:
    """Run all steps on the tensors and keywords of the sequence."""
    values = {name: given[name] for name in tensors}
    for step in steps:
        keywords = {own: given[outer] for own, outer in step.passed.items()}
        call = functools.partial(_launch, step, values, {**step.flags, **keywords})
        eval(step.code, {CALL: call}, values)  # the user's own line


def _launch(
    step: SequenceStep, values: dict[str, Any], keywords: Mapping[str, Any], *given: Any
) -> None:
    """Launch a step's operator, on new temporaries where it writes what is not there yet."""
    results = list(zip(step.outputs, step.results, strict=True))
    own = dict(zip(step.inputs, given, strict=True))
    own |= {output: values[name] for output, name in results if name in values}
    static = {n: v for n, v in keywords.items() if not isinstance(v, Expression)}
    for output, name in results:
        if name not in values:
            shape, dtype = _result(step, output, own, static)
            values[name] = empty(shape, dtype, name=name)
    own |= {output: values[name] for output, name in results}
    launch(step.task, *(own[name] for name, _ in step.task.tensors), **keywords)


def _result(
    step: SequenceStep, output: str, tiles: Mapping[str, Tile], static: Mapping[str, Any]
) -> tuple[tuple[Any, ...], str]:
    """Return shape and type of what an operator writes; raises SequenceError."""
    task, tensors = step.task, step.task.specialised(static)
    sizes = {n: tuple(zip(t.view.shape, t.view.valid, strict=True)) for n, t in tiles.items()}
    dims = unify(task, tensors, sizes, static, step.where)
    nominal = {name: size for name, (size, _) in dims.items()}
    valid: dict[str, Any] = {**step.static, **static} | {
        # Only numbers divide.
        n: v.constant if v.is_constant else v
        for n, (_, v) in dims.items()
    }
    shape: list[Any] = []
    try:
        for dim in dict(tensors)[output].dims or (None,):
            most = extent(dim, nominal, static, task, output)
            real = Index.of(calculate(str(dim), valid))
            shape.append(most if real == Index.of(most) else Extent(most, real))
    except InferenceError:
        raise SequenceError(
            f"the shape of {output} of {task.name} does not follow from what it reads", step.where,
            hint=f"annotate {output} in {task.name} by dimensions of its other tensors, or launch "
            "it in a composite of your own, with a temporary of the shape that you want",
        ) from None  # fmt: skip
    kinds = {name: tile.own_dtype for name, tile in tiles.items()}
    return tuple(shape), complete_dtypes(task, kinds, static)[output]
