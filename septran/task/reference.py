"""Run a task tree on NumPy in program order: the meaning of a logic, and the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.dtypes import bits_dtype, is_float, numpy_dtype
from septran.errors import CallError
from septran.given import WrongArgumentError, shown
from septran.task.chooser import Chooser
from septran.task.definition import Task
from septran.task.evaluate import evaluate
from septran.task.gather import coordinates, extents, read, write
from septran.task.index import Var
from septran.task.inference import infer_outputs
from septran.task.numerics import convert
from septran.task.primitives import PRIMITIVES
from septran.task.tracing import trace
from septran.task.tree import Allocate, Assign, Launch, Loop, Primitive, Statement, TaskTree
from septran.task.views import View

Array = np.ndarray[Any, Any]


class ArgumentCountError(CallError):
    """A reference run got too many or too few arrays."""

    code = "SEP690"


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
    held = [_array(a) for a in arrays]
    scalars = {k.name for k in logic.keywords if not k.static}
    static = {k: v for k, v in keywords.items() if k not in scalars}
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
    """Every parameter's array after the run; outputs that are not given start at zero."""
    if dtype not in (None, "float64"):
        message = f"dtype is {shown(dtype)}, and a reference run is in float64 or the logic's own"
        raise WrongArgumentError(message, hint="write dtype='float64', or dtype=None")
    wide = dtype == "float64"
    env: dict[str, _Held] = {}
    results: dict[str, Array] = {}
    for param in tree.root.params:
        kind = _wide(numpy_dtype(param.dtype), wide)
        given = arrays.get(param.name)
        array = np.zeros(param.shape, kind) if given is None else np.array(given, kind)
        results[param.name] = array
        env[param.name] = _Held(array, View.whole(param.name, param.shape, param.valid))
    numbers = {s.name: s.default for s in tree.scalars if s.default is not None}
    numbers |= dict(scalars or {})
    missing = [s.name for s in tree.scalars if s.name not in numbers]
    if missing:
        raise ArgumentCountError(f"{tree.name} needs {', '.join(missing)}", tree.root.location)
    with np.errstate(all="ignore"):  # NaN, infinities and wrapped integers are values like others
        _Run({}, numbers, wide).body(tree.root.body, dict(env))
    return results


@dataclass(frozen=True)
class _Held:
    """A tensor of a task: the array it lies in, and which part of it."""

    array: Array
    view: View

    def part(self, view: View) -> View:
        return self.view.compose(view)


@dataclass
class _Run:
    values: dict[Var, int]
    scalars: Mapping[str, float | int]
    wide: bool

    def body(self, statements: tuple[Statement, ...], env: dict[str, _Held]) -> None:
        for statement in statements:
            match statement:
                case Loop():
                    self.loop(statement, env)
                case Allocate():
                    env[statement.name] = self.allocate(statement)
                case Launch():
                    pairs = zip(statement.task.params, statement.arguments, strict=True)
                    inner = {
                        p.name: _Held(env[v.tensor].array, env[v.tensor].part(v)) for p, v in pairs
                    }
                    self.body(statement.task.body, inner)
                case Primitive():
                    self.primitive(statement, env)
                case Assign():
                    self.assign(statement, env)

    def loop(self, loop: Loop, env: dict[str, _Held]) -> None:
        if len(loop.variables) == 1:
            for step in range(loop.extents[0].evaluate(self.values)):
                self.values[loop.variables[0]] = step
                self.body(loop.body, env)
            return
        sizes = [range(e.evaluate(self.values)) for e in loop.extents]
        for turn in itertools.product(*sizes):
            self.values.update(zip(loop.variables, turn, strict=True))
            self.body(loop.body, env)

    def allocate(self, statement: Allocate) -> _Held:
        kind = _wide(numpy_dtype(statement.dtype), self.wide)
        fill = statement.fill
        if fill is None:
            fill = np.nan if is_float(statement.dtype) else 0
        array = np.full(statement.shape, fill, kind)
        return _Held(array, View.whole(statement.name, statement.shape, statement.valid))

    def read(self, view: View, env: dict[str, _Held]) -> Array:
        held = env[view.tensor]
        return read(held.array, held.part(view), self.values)

    def primitive(self, statement: Primitive, env: dict[str, _Held]) -> None:
        contract = PRIMITIVES[statement.name]
        operands = [self.read(v, env) for v in statement.operands]
        value = contract.reference(*operands, **dict(statement.attributes))
        held = env[statement.operands[0].tensor]
        write(held.array, held.part(statement.operands[0]), self.values, value)

    def assign(self, statement: Assign, env: dict[str, _Held]) -> None:
        def position(view: View, axis: int) -> Array:
            held = env[view.tensor]
            return positions(held.part(view), axis, self.values)

        value = evaluate(
            statement.value, lambda v: self.read(v, env), self.values, self.scalars, position,
            self.wide,
        )  # fmt: skip
        held = env[statement.target.tensor]
        target = held.part(statement.target)
        write(held.array, target, self.values, convert(value, held.array.dtype))


def positions(view: View, at: int, values: Mapping[Var, int]) -> Array:
    """Coordinates along axis `at` of a view, in the tensor it is a view of."""
    from septran.task.index import axis

    for entry, places in zip(view.index, coordinates(view, values), strict=True):
        if axis(at) in entry.variables():
            index = [0] * view.rank
            index[at] = slice(None)  # type: ignore[call-overload]
            along: Array = np.broadcast_to(places, extents(view, values))[tuple(index)]
            return along
    return np.arange(extents(view, values)[at])


def _array(value: Any) -> Array:
    return np.asarray(value) if not hasattr(value, "detach") else _from_torch(value)


def _from_torch(value: Any) -> Array:
    dtype = str(value.dtype).removeprefix("torch.")
    held = bits_dtype(dtype)
    if held is not None:
        bits: Array = value.detach().cpu().view(dtype=_torch_type(held)).numpy()
        narrow: Array = bits.view(numpy_dtype(dtype))
        return narrow
    array: Array = value.detach().cpu().numpy()
    return array


def _torch_type(name: str) -> Any:
    import sys

    return getattr(sys.modules["torch"], name)


def _wide(kind: np.dtype[Any], wide: bool) -> np.dtype[Any]:
    return np.dtype("float64") if wide and kind.kind in "fV" else kind


def _passed(tree: TaskTree, logic: Task, count: int) -> list[str]:
    every = [p.name for p in tree.root.params]
    inputs = [p.name for p in tree.root.params if not p.writes]
    for names in (inputs, every):
        if len(names) == count:
            return names
    raise ArgumentCountError(
        f"{logic.name} takes {', '.join(inputs)}; {count} arrays are given", logic.location
    )
