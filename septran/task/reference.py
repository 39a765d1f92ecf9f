"""Run a task tree on NumPy in program order: the meaning of a logic, and the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from septran.argument_checks import WrongArgumentError, require, short_repr
from septran.dtypes import is_float, numpy_dtype
from septran.ir import expressions as ex
from septran.ir.atoms import ElementRangeError, table_name, table_of, tables
from septran.ir.evaluate import evaluate
from septran.ir.gather import composed, coordinates, extents, read, write
from septran.ir.index import Var
from septran.ir.numerics import convert
from septran.ir.primitives import PRIMITIVES
from septran.ir.views import View
from septran.location import Location
from septran.task.check.definedness import (
    FollowedView,
    Suspects,
    UnwrittenElements,
    missing_of,
    ranges_of,
    suspects,
)
from septran.task.errors import CountRangeError, IndexRangeError
from septran.task.frontend.definition import Task
from septran.task.reference_arguments import (
    ReferenceArgumentCountError,
    as_array,
    checked_arrays,
    checked_scalars,
)
from septran.task.trace.arguments import require_task
from septran.task.trace.chooser import Chooser
from septran.task.trace.inference import infer_outputs, with_integers
from septran.task.trace.tracing import trace
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Primitive,
    Statement,
    TaskNode,
    TaskTree,
)

Array = np.ndarray[Any, Any]


def run(
    logic: Task,
    *arrays: Any,
    dtype: str | None = None,
    chooser: Chooser | None = None,
    dtypes: Mapping[str, str] | None = None,
    **keywords: Any,
) -> Any:
    """Run `logic` on the arrays of its inputs and return its outputs.

    Args:
        logic: The entry task.
        arrays: Its inputs in order (parameters that are only read), or all parameters.
        dtype: ``float64`` computes throughout in float64.
        chooser: Decides tunables and variants; the defaults where None.
        dtypes: Dtypes of outputs, where they are not inferred from the inputs.
        keywords: Scalars and static flags.

    Returns:
        The output array, or a tuple where there are several.
    """
    require_task(logic)
    scalars = {k.name for k in logic.keywords if not k.static}
    static = {k: v for k, v in keywords.items() if k not in scalars}
    held = [as_array(f"array {n}", a) for n, a in enumerate(with_integers(logic, arrays, static))]
    shapes, kinds = infer_outputs(logic, held, chooser, static, dtypes)
    tree = trace(logic, shapes, kinds, chooser, static)
    given = dict(zip(_passed(tree, logic, len(held)), held, strict=True))
    result = run_tree(tree, given, {k: keywords[k] for k in scalars if k in keywords}, dtype)
    outputs = [result[p.name] for p in tree.root.params if p.writes]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def run_tree(
    tree: TaskTree,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float | int] | None = None,
    dtype: str | None = None,
) -> dict[str, Array]:
    """Run a task tree on NumPy and return every parameter's array after the run.

    Outputs that are not given start at zero. `dtype` is None for the logic's own types, or
    ``float64`` to compute throughout in float64. Raises WrongArgumentError for arrays or scalars
    that do not fit, ReferenceArgumentCountError for missing scalars, UnwrittenElementError for a
    read of an undefined element.
    """
    if dtype not in (None, "float64"):
        message = (
            f"dtype is {short_repr(dtype)}, and a reference run is in float64 or the logic's own"
        )
        raise WrongArgumentError(message, hint="write dtype='float64', or dtype=None")
    wide = dtype == "float64"
    require("tree", tree, TaskTree, "pass what septran.trace or stages.task_tree gives")
    held, numbers = checked_arrays(tree, arrays), checked_scalars(tree, scalars)
    env: dict[str, _Held] = {}
    results: dict[str, Array] = {}
    for param in tree.root.params:
        kind = _wide(numpy_dtype(param.dtype), wide)
        given = held.get(param.name)
        # A copy, so that a run leaves the caller's arrays as they are.
        array = np.zeros(param.shape, kind) if given is None else np.array(given, kind)
        results[param.name] = array
        env[param.name] = _Held(array, View.whole(param.name, param.shape, param.valid))
    with np.errstate(all="ignore"):  # NaN, infinities and wrapped integers are values like others
        followed = suspects(tree.root, ranges_of(tree.root))
        values: dict[Var, Any] = tables(results)
        _Run(values, numbers, wide, followed).body(tree.root, tree.root.body, dict(env))
    return results


def run_leaf(
    task: TaskNode,
    arrays: Mapping[str, Array],
    values: Mapping[Var, Any],
    scalars: Mapping[str, float | int],
) -> None:
    """Run one task on its parameters' arrays, which have the extents that exist, in place.

    `values` are the indices of the loops around it.
    """
    env = {n: _Held(a, View.whole(n, a.shape)) for n, a in arrays.items()}
    with np.errstate(all="ignore"):
        _Run(dict(values), scalars, wide=False, suspects=frozenset()).body(task, task.body, env)


@dataclass(frozen=True)
class _Held:
    """A tensor of a task: the array in which it lies, and the view of that array."""

    array: Array
    view: View
    marks: UnwrittenElements | None = None
    """The unwritten elements of a temporary that is written in part; None for other tensors."""

    def part(self, view: View) -> View:
        return composed(self.view, view)

    def followed(self, view: View) -> FollowedView | None:
        """Return a view with its marks; None where every element is written before it is read."""
        return None if self.marks is None else FollowedView(self.marks, self.part(view))


@dataclass
class _Run:
    values: dict[Var, Any]
    """Of loop indices, and tensors of integers by `table_of`."""
    scalars: Mapping[str, float | int]
    wide: bool
    suspects: Suspects

    def body(
        self, task: TaskNode, statements: tuple[Statement, ...], env: dict[str, _Held]
    ) -> None:
        for statement in statements:
            try:
                self.statement(task, statement, env)
            except ElementRangeError as error:
                kind = CountRangeError if isinstance(statement, Loop) else IndexRangeError
                raise kind.of(error, statement.location) from None

    def statement(self, task: TaskNode, statement: Statement, env: dict[str, _Held]) -> None:
        match statement:
            case Loop():
                self.loop(task, statement, env)
            case Allocate():
                env[statement.name] = self.allocate(task, statement)
            case Launch():
                pairs = zip(statement.task.params, statement.arguments, strict=True)
                inner = {
                    p.name: replace(env[v.tensor], view=env[v.tensor].part(v)) for p, v in pairs
                }
                self.body(statement.task, statement.task.body, inner)
            case Primitive():
                self.primitive(statement, env)
            case Assign():
                self.assign(statement, env)

    def loop(self, task: TaskNode, loop: Loop, env: dict[str, _Held]) -> None:
        if len(loop.variables) == 1:
            for step in range(loop.extents[0].evaluate(self.values)):
                self.values[loop.variables[0]] = step
                self.body(task, loop.body, env)
            return
        sizes = [range(e.evaluate(self.values)) for e in loop.extents]
        for turn in itertools.product(*sizes):
            self.values.update(zip(loop.variables, turn, strict=True))
            self.body(task, loop.body, env)

    def allocate(self, task: TaskNode, statement: Allocate) -> _Held:
        kind = _wide(numpy_dtype(statement.dtype), self.wide)
        fill = statement.fill
        # Undefined content is NaN, so that a result that depends on it shows.
        if fill is None:
            fill = np.nan if is_float(statement.dtype) else 0
        array = np.full(statement.shape, fill, kind)
        whole = View.whole(statement.name, statement.shape, statement.valid)
        partly = (task.path, statement.name) in self.suspects
        # Where it holds indices, elements find it by this name.
        self.values[table_of(table_name(task.path, statement.name))] = array
        return _Held(array, whole, UnwrittenElements.of(statement) if partly else None)

    def read(self, view: View, env: dict[str, _Held]) -> Array:
        held = env[view.tensor]
        return read(held.array, held.part(view), self.values)

    def primitive(self, statement: Primitive, env: dict[str, _Held]) -> None:
        contract = PRIMITIVES[statement.name]
        operands = [self.read(v, env) for v in statement.operands]
        value = contract.reference(*operands, **dict(statement.attributes))
        held = env[statement.operands[0].tensor]
        write(held.array, held.part(statement.operands[0]), self.values, value)
        sources = statement.operands if contract.accumulates else statement.operands[1:]
        for view in sources:
            self.require_written(view, env, statement.location)
        self.mark(statement.operands[0], env, None)

    def missing(self, view: View, env: dict[str, _Held]) -> Array | None:
        part = env[view.tensor].followed(view)
        return None if part is None else part.missing(self.values)

    def require_written(self, view: View, env: dict[str, _Held], where: Location) -> None:
        part = env[view.tensor].followed(view)
        missing = None if part is None else part.missing(self.values)
        if part is not None and missing is not None:
            part.refuse(self.values, missing, where)

    def mark(self, view: View, env: dict[str, _Held], missing: Array | None) -> None:
        part = env[view.tensor].followed(view)
        if part is not None:
            part.set(self.values, missing)

    def assign(self, statement: Assign, env: dict[str, _Held]) -> None:
        def position(view: View, axis: int) -> Array:
            held = env[view.tensor]
            return positions(held.part(view), axis, self.values)

        def of(expr: ex.Expr) -> Array:
            return evaluate(
                expr, lambda v: self.read(v, env), self.values, self.scalars, position, self.wide
            )

        value = of(statement.value)
        if self.suspects:
            missing = missing_of(statement.value, lambda v: self.missing(v, env), of)
            # A temporary that is followed may get missing elements, any other tensor must not.
            if missing is not None and env[statement.target.tensor].marks is None:
                self.refuse(statement, env)
            self.mark(statement.target, env, missing)
        held = env[statement.target.tensor]
        target = held.part(statement.target)
        write(held.array, target, self.values, convert(value, held.array.dtype))

    def refuse(self, statement: Assign, env: dict[str, _Held]) -> None:
        """Raise UnwrittenElementError for the first tensor of a value with an unwritten element."""
        for view in ex.loads(statement.value):
            self.require_written(view, env, statement.location)


def positions(view: View, at: int, values: Mapping[Var, int]) -> Array:
    """Return coordinates along axis `at` of a view, in the tensor it is a view of."""
    from septran.ir.index import axis

    for entry, places in zip(view.index, coordinates(view, values), strict=True):
        if axis(at) in entry.variables():
            index = [0] * view.rank
            index[at] = slice(None)  # type: ignore[call-overload]
            along: Array = np.broadcast_to(places, extents(view, values))[tuple(index)]
            return along
    return np.arange(extents(view, values)[at])


def _wide(kind: np.dtype[Any], wide: bool) -> np.dtype[Any]:
    # Kind V is that of the narrow floats of ml_dtypes (bfloat16, float8).
    return np.dtype("float64") if wide and kind.kind in "fV" else kind


def _passed(tree: TaskTree, logic: Task, count: int) -> list[str]:
    every = [p.name for p in tree.root.params]
    inputs = [p.name for p in tree.root.params if not p.writes]
    for names in (inputs, every):
        if len(names) == count:
            return names
    raise ReferenceArgumentCountError(
        f"{logic.name} takes {', '.join(inputs)}; {count} arrays are given", logic.location
    )
