"""Verdicts on results: the exact value of every element, and a bound on the rounding error.

`error_bounds` runs a task tree in float64 and carries an error bound along with every
element: the running error analysis of the program itself, whatever operator it is. A
kernel that does the program's operations, each rounded to its dtype and each sum in any
order, stays within the bound; one that is wrong hardly ever does. No tolerance is set
by hand.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.dtypes import accumulator_dtype, compute_dtype, is_float, promote, unit_roundoff
from septran.errors import SepTranError
from septran.ir import expressions as ex
from septran.ir.atoms import ElementRangeError, table_name, table_of
from septran.ir.gather import composed, extents, read, write
from septran.ir.gather import evaluate as evaluate_index
from septran.ir.index import Var
from septran.ir.scans import JOINS
from septran.ir.views import View
from septran.runtime import rounding
from septran.runtime.rounding import Array, Bounded, cast, exact, gamma
from septran.runtime.shared_errors import ErrorSources, Labels, condensed, fresh, joined
from septran.task.errors import CountRangeError, IndexRangeError
from septran.task.reference import positions
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Primitive,
    Statement,
    TaskNode,
    TaskTree,
    statements,
)

SAFETY = 2.0
"""The factor on the bound: the reference rounds, too, and by no more than the kernel."""


class NoBoundError(SepTranError):
    """The program uses a primitive without a rule for its rounding errors."""

    code = "SEP620"


class WrongResultError(SepTranError):
    """A kernel's result is outside of the bound that rounding allows."""

    code = "SEP621"


@dataclass(frozen=True)
class Accuracy:
    """The comparison of one output with the exact result."""

    name: str
    elements: int
    wrong: int
    """The number of elements outside of the bound, or NaN or infinite unlike the exact ones."""
    worst: float
    """The greatest error as a fraction of the bound; at most 1 when right."""
    largest_error: float
    """The greatest difference from the exact result."""
    unknown: int
    """The number of elements without a finite bound (overflow, a jump within the error)."""
    where: tuple[int, ...] | None
    """The coordinates of the worst element; None for empty outputs."""
    found: float
    """The kernel's value of that element."""
    expected: float
    """The exact value of that element."""

    @property
    def right(self) -> bool:
        """Whether every element is within the bound."""
        return self.wrong == 0

    def __str__(self) -> str:
        if self.right:
            text = f"{self.name}: right, error at most {self.worst:.2g} of what rounding allows"
            return text + (f" ({self.unknown} elements unknown)" if self.unknown else "")
        place = ", ".join(map(str, self.where or ()))
        return (
            f"{self.name}: {self.wrong} of {self.elements} elements are wrong; "
            f"{self.name}[{place}] is {self.found:g} instead of {self.expected:g}"
        )


def compare(name: str, found: Array, expected: Bounded) -> Accuracy:
    """Compare an output with its exact value and bound, element by element."""
    same = np.asarray(found) == expected.value  # before integers lose digits in float64
    actual, value = np.asarray(found).astype(np.float64), expected.value.astype(np.float64)
    allowed = SAFETY * expected.error
    with np.errstate(all="ignore"):
        same = same | (np.isnan(actual) & np.isnan(value))
        difference = np.where(same, 0.0, np.abs(actual - value))
        # NaN on one side only is as wrong as can be.
        difference = np.where(np.isnan(difference), np.inf, difference)
        unknown = np.isinf(allowed)
        # An element without a finite bound is counted as unknown, and cannot be called wrong.
        fraction = np.where(same | unknown, 0.0, difference / allowed)
        fraction = np.where(np.isnan(fraction), np.inf, fraction)  # integers beyond 2**53
    if not actual.size:
        return Accuracy(name, 0, 0, 0.0, 0.0, 0, None, np.nan, np.nan)
    at = np.unravel_index(int(np.argmax(fraction)), actual.shape)
    return Accuracy(
        name,
        actual.size,
        int((fraction > 1).sum()),
        float(fraction.max()),
        float(np.where(unknown, 0.0, difference).max()),
        int((unknown & ~same).sum()),
        tuple(int(n) for n in at),
        float(actual[at]),
        float(value[at]),
    )


@dataclass(frozen=True)
class ProductRules:
    """How instructions compute products with less than the accuracy of their element types."""

    flushed: frozenset[str] = frozenset()
    """Types of operands whose subnormal numbers may be taken for zero."""
    sum_bits: Mapping[str, int] = field(default_factory=dict)
    """By the operands' type, how many bits of each term are added, counted from the greatest's."""


def error_bounds(
    tree: TaskTree,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float | int] | None = None,
    rules: ProductRules | None = None,
) -> dict[str, Bounded]:
    """Return the exact value and error bound of every output; missing outputs start at zero.

    `rules` are those of the instructions that a kernel was mapped to.

    Raises:
        NoBoundError: for a primitive that is not known here.
    """
    numbers = {s.name: s.default for s in tree.scalars if s.default is not None}
    numbers |= scalars or {}
    run = _Run({}, numbers, rules or ProductRules())
    found = run.outputs(tree, arrays)
    if run.doubt:  # with another index anything may be anywhere
        return {n: rounding.lost(x) for n, x in found.items()}
    if run.written > MOST_FOLLOWED or not _carries(tree) or not any(map(_vague, found.values())):
        return found
    followed = _Run({}, numbers, run.rules, labels=Labels()).outputs(tree, arrays)
    return {n: _nearer(x, followed[n]) for n, x in found.items()}


MOST_FOLLOWED = 1 << 20
"""The number of elements up to which the sources of their errors are followed: a few seconds."""
MANY_SOURCES = 8
"""The number of an element's sources from which on those that are its own are joined to one."""


FEW_DIGITS = 1 / 3
"""The part of a type's digits below which a bound promises few."""


def _carries(tree: TaskTree) -> bool:
    """Whether a loop may carry errors from one iteration to the next."""
    loops = (s for t in tree.tasks() for s in statements(t.body) if isinstance(s, Loop))
    return any(not loop.parallel for loop in loops)


def _vague(x: Bounded) -> bool:
    """Whether a bound promises nothing of some elements, or few digits of most."""
    if not is_float(x.dtype):
        return False
    finite = np.isfinite(x.value)
    few = x.error > unit_roundoff(x.dtype) ** FEW_DIGITS * rounding.size(x.value)
    return bool((finite & np.isinf(x.error)).any() or few[finite].sum() > finite.sum() / 2)


def _nearer(x: Bounded, y: Bounded) -> Bounded:
    """Return a number by the better of two bounds of it."""
    better = y.error < x.error
    value, error = (np.where(better, b, a) for a, b in ((x.value, y.value), (x.error, y.error)))
    return Bounded(value, error, x.dtype)


@functools.lru_cache(maxsize=1 << 10)
def _tables(view: View) -> tuple[str, ...]:
    return tuple(element.tensor for element in view.elements())


class _Tensor:
    """A tensor under construction: settled values, and sums that are still growing.

    The error of a sum depends on the number of its terms in the end, as they may be added in any
    order; so terms and their magnitudes are counted until the sum is read.
    """

    def __init__(self, dtype: str, start: Bounded, labels: Labels | None = None) -> None:
        """`labels` are for the sources of errors, where these are followed."""
        shape = start.value.shape
        self.dtype = dtype
        self.value = np.array(start.value)
        self.error = np.array(np.broadcast_to(start.error, shape))
        self.magnitude = np.array(np.broadcast_to(start.reach, shape))
        self.terms = np.zeros(shape)
        self.stores = np.zeros(shape)
        self.labels = labels
        self.sources: ErrorSources | None = None

    def bounded(self) -> Bounded:
        """Return all of the tensor."""
        whole = View.whole("", self.value.shape)
        return self.read(whole, {})

    def read(self, view: View, values: Mapping[Var, int]) -> Bounded:
        value, error = read(self.value, view, values), read(self.error, view, values)
        if not is_float(self.dtype):
            return Bounded(value, error, self.dtype)
        terms = read(self.terms, view, values)
        if terms.any():
            magnitude = read(self.magnitude, view, values)
            # With what was there before, n terms take n additions.
            error = error + gamma(terms + (terms > 0), accumulator_dtype(self.dtype)) * magnitude
            error = error + terms * rounding.smallest(accumulator_dtype(self.dtype))
            overflows = rounding.overflows(value, magnitude, accumulator_dtype(self.dtype))
            error = np.where(overflows & (terms > 0), np.inf, error)
            # A type shorter than its sums is rounded at each store, too.
            if self.dtype != compute_dtype(self.dtype):
                stores = read(self.stores, view, values)
                error = error + gamma(stores, self.dtype) * magnitude
                error = error + stores * rounding.smallest(self.dtype)
        found = rounding.rounded(value, error, self.dtype, 0.0)
        if self.sources is None:
            return found
        return found.of(self.sources.at(self.places(view, values)))

    def write(self, view: View, values: Mapping[Var, int], new: Bounded) -> None:
        new = cast(new, self.dtype)
        if self.labels is not None and is_float(self.dtype):
            self.keep(view, values, new, self.labels)
        write(self.value, view, values, new.value)
        write(self.error, view, values, new.error)
        write(self.magnitude, view, values, new.reach)
        for counter in (self.terms, self.stores):
            write(counter, view, values, np.zeros(()))

    def keep(self, view: View, values: Mapping[Var, int], new: Bounded, labels: Labels) -> None:
        """Note the sources of what is written: what came of no known source is one from now on."""
        places = self.places(view, values)
        rest = np.where(np.isfinite(new.rest), new.rest, 0.0)
        own = fresh(np.broadcast_to(rest, places.shape), labels)
        found = own if new.sources is None else joined(new.sources, own)
        held = self.sources or ErrorSources.none((self.value.size + 1,))
        self.sources = held.put(places, found)

    def places(self, view: View, values: Mapping[Var, int]) -> Array:
        """Return where the sources of a view's elements are; 0, where are none, outside of all."""
        numbers = 1 + np.arange(self.value.size).reshape(self.value.shape)
        return read(numbers, view, values)

    def accumulate(
        self, view: View, values: Mapping[Var, int], a: Bounded, b: Bounded, bits: int | None
    ) -> None:
        """Add ``a @ b``, whose terms are cut to so many `bits` where that is given."""
        count = a.value.shape[1]
        if not is_float(self.dtype):
            product = np.matmul(a.value.astype(self.value.dtype), b.value.astype(self.value.dtype))
            total = read(self.value, view, values) + product
            write(self.value, view, values, total)
            if a.error.any() or b.error.any():
                error = read(self.error, view, values) + rounding.off_by(a, b)
                write(self.error, view, values, rounding.within(total, error, self.dtype))
            return
        # |(A + Ea)(B + Eb) - AB| <= |A| Eb + Ea (|B| + Eb), element by element.
        x, y = rounding.size(a.value), rounding.size(b.value)
        error = read(self.error, view, values)
        if b.error.any():
            error = error + x @ b.error
        if a.error.any():
            error = error + a.error @ (y + b.error)
        for endless, other in ((np.isinf(a.value), b), (np.isinf(b.value), a)):
            if endless.any():  # times what may be 0, or of either sign, it can be anything
                near = rounding.near_zero(other)
                lost = endless @ near if other is b else near @ endless
                error = np.where(lost, np.inf, error)
        product = np.matmul(a.value.astype(float), b.value.astype(float))
        magnitude = read(self.magnitude, view, values) + (x + a.error) @ (y + b.error)
        before = read(self.value, view, values)
        write(self.value, view, values, before + product)
        if bits is not None:
            error = error + rounding.cut_terms(a.value, b.value, before, bits)
        # 0 times what is unknown may be NaN, and so is unknown itself.
        write(self.error, view, values, np.where(np.isnan(error), np.inf, error))
        write(self.magnitude, view, values, np.where(np.isnan(magnitude), np.inf, magnitude))
        write(self.terms, view, values, read(self.terms, view, values) + count)
        write(self.stores, view, values, read(self.stores, view, values) + 1)

    def join(
        self, view: View, values: Mapping[Var, int], part: Bounded, attributes: Mapping[str, Any]
    ) -> None:
        """Join a part, in any order with those that are joined before and after it."""
        part, function = cast(part, self.dtype), attributes["function"]
        if function != "sum":
            before = self.read(view, values)
            self.write(
                view, values, rounding.binary(JOINS[function], before, part, self.dtype, self.dtype)
            )
            return
        total = read(self.value, view, values) + part.value
        error = read(self.error, view, values) + part.error
        if is_float(self.dtype):
            magnitude = read(self.magnitude, view, values) + part.reach
            write(self.magnitude, view, values, magnitude)
            for counter in (self.terms, self.stores):
                write(counter, view, values, read(counter, view, values) + 1)
        else:
            error = rounding.within(total, error, self.dtype)
        write(self.value, view, values, total)
        write(self.error, view, values, error)


@dataclass(frozen=True)
class _Held:
    tensor: _Tensor
    view: View

    def part(self, view: View) -> View:
        return composed(self.view, view)


def _join_own_sources(tensors: Iterable[_Tensor], labels: Labels) -> None:
    """Join sources that one element alone has, where an element has many."""
    held = {id(t): t for t in tensors if t.sources is not None}.values()
    if any(t.sources is not None and len(t.sources.labels) > MANY_SOURCES for t in held):
        found = condensed([t.sources for t in held if t.sources is not None], labels)
        for tensor, sources in zip(held, found, strict=True):
            tensor.sources = sources


@dataclass
class _Run:
    """A run of the tree in program order, as in `task.reference`, on bounded numbers."""

    values: dict[Var, Any]
    """Of loop indices, and tensors of integers by `table_of`."""
    scalars: Mapping[str, float | int]
    rules: ProductRules = field(default_factory=ProductRules)
    integers: dict[str, _Tensor] = field(default_factory=dict)
    """Tensors that elements may be read from, by their names in the tree."""
    doubt: bool = False
    """Whether rows were chosen, or iterations counted, by integers that rounding may change."""
    labels: Labels | None = None
    """For the sources of errors, where these are followed."""
    written: int = 0
    """The number of elements that expressions were assigned to."""

    def outputs(self, tree: TaskTree, arrays: Mapping[str, Array]) -> dict[str, Bounded]:
        """Run a whole tree."""
        held: dict[str, _Held] = {}
        for param in tree.root.params:
            given = arrays.get(param.name)
            start = cast(exact(np.zeros(param.shape) if given is None else given), param.dtype)
            tensor = _Tensor(param.dtype, start, self.labels)
            held[param.name] = _Held(tensor, View.whole(param.name, param.shape))
            self.has_indices(param.name, tensor)
        with np.errstate(all="ignore"):
            self.body(tree.root, tree.root.body, dict(held))
            return {p.name: held[p.name].tensor.bounded() for p in tree.root.params if p.writes}

    def has_indices(self, name: str, tensor: _Tensor) -> None:
        """Let elements be read of a tensor if it is one of integers."""
        if not is_float(tensor.dtype):
            self.values[table_of(name)] = tensor.value
            self.integers[name] = tensor

    def look(self, tables: Iterable[str]) -> None:
        """Note whether tensors by which rows are chosen or iterations counted are certain."""
        self.doubt = self.doubt or any(self.integers[name].error.any() for name in tables)

    def part(self, held: _Held, view: View) -> View:
        """Return a view of a task's tensor as one of the tensor in which it lies."""
        found = held.part(view)
        self.look(_tables(found))
        return found

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
                held = env[statement.name] = self.allocate(statement)
                self.has_indices(table_name(task.path, statement.name), held.tensor)
            case Launch():
                pairs = zip(statement.task.params, statement.arguments, strict=True)
                inner = {
                    p.name: _Held(env[v.tensor].tensor, env[v.tensor].part(v)) for p, v in pairs
                }
                self.body(statement.task, statement.task.body, inner)
            case Primitive():
                self.primitive(statement, env)
            case Assign():
                held = env[statement.target.tensor]
                new = self.value(statement.value, env)
                self.written += new.value.size
                held.tensor.write(self.part(held, statement.target), self.values, new)

    def loop(self, task: TaskNode, loop: Loop, env: dict[str, _Held]) -> None:
        self.look(e.tensor for extent in loop.extents for e in extent.elements())
        sizes = [range(e.evaluate(self.values)) for e in loop.extents]
        for turn in itertools.product(*sizes):
            self.values.update(zip(loop.variables, turn, strict=True))
            self.body(task, loop.body, env)
            if self.labels is not None:
                _join_own_sources([held.tensor for held in env.values()], self.labels)

    def allocate(self, statement: Allocate) -> _Held:
        fill = statement.fill
        if fill is None:
            # What depends on an element that was never written becomes NaN, and is seen.
            fill = np.nan if is_float(statement.dtype) else 0
        start = cast(exact(np.full(statement.shape, fill)), statement.dtype)
        view = View.whole(statement.name, statement.shape, statement.valid)
        return _Held(_Tensor(statement.dtype, start, self.labels), view)

    def read(self, view: View, env: dict[str, _Held]) -> Bounded:
        held = env[view.tensor]
        return held.tensor.read(self.part(held, view), self.values)

    def factor(self, view: View, env: dict[str, _Held]) -> Bounded:
        """Return an operand of a product; some instructions flush its subnormal numbers to zero."""
        found = self.read(view, env)
        return rounding.flushed(found) if found.dtype in self.rules.flushed else found

    def primitive(self, statement: Primitive, env: dict[str, _Held]) -> None:
        target = env[statement.operands[0].tensor]
        place = self.part(target, statement.operands[0])
        match statement.name:
            case "gemm":
                a, b = (self.factor(v, env) for v in statement.operands[1:])
                bits = self.rules.sum_bits.get(a.dtype)
                target.tensor.accumulate(place, self.values, a, b, bits)
            case "accumulate":
                part = self.read(statement.operands[1], env)
                target.tensor.join(place, self.values, part, dict(statement.attributes))
            case "copy" | "cast":
                target.tensor.write(place, self.values, self.read(statement.operands[1], env))
            case "scan":
                terms, attributes = self.read(statement.operands[1], env), statement.attributes
                new = rounding.scan(terms, target.tensor.dtype, **dict(attributes))
                target.tensor.write(place, self.values, new)
            case "sort" | "argsort" as name:
                rows, count = self.read(statement.operands[1], env), extents(place, self.values)[1]
                descending = bool(dict(statement.attributes)["descending"])
                found = rounding.sort if name == "sort" else rounding.argsort
                new = found(rows, count, descending=descending)
                target.tensor.write(place, self.values, new)
            case "solve_triangular":
                factor, right = (self.read(v, env) for v in statement.operands[1:])
                unit = bool(dict(statement.attributes)["unit"])
                new = rounding.solved(factor, right, target.tensor.dtype, unit=unit)
                target.tensor.write(place, self.values, new)
            case "fill":
                number = dict(statement.attributes).get("value", 0)
                new = cast(exact(np.asarray(number)), target.tensor.dtype)
                target.tensor.write(place, self.values, new)
            case name:
                message = f"no rounding error rule for primitive {name!r}"
                raise NoBoundError(message, statement.location)

    def value(self, expr: ex.Expr, env: dict[str, _Held]) -> Bounded:
        match expr:
            case ex.Load():
                return self.read(expr.view, env)
            case ex.Constant():
                return cast(exact(expr.value), expr.dtype)
            case ex.Scalar():
                return cast(exact(self.scalars[expr.name]), expr.dtype)
            case ex.IndexValue():
                return cast(exact(evaluate_index(expr.index, self.values)), expr.dtype)
            case ex.Position():
                held = env[expr.view.tensor]
                places = positions(held.part(expr.view), expr.axis, self.values)
                return cast(exact(places), expr.dtype)
            case ex.Unary():
                return rounding.unary(expr.function, self.value(expr.operand, env), expr.dtype)
            case ex.Binary():
                return self.binary(expr, env)
            case ex.Select():
                condition = self.value(expr.condition, env)
                yes, no = self.value(expr.yes, env), self.value(expr.no, env)
                return rounding.select(condition, yes, no, expr.dtype)
            case ex.Cast():
                return cast(self.value(expr.operand, env), expr.dtype)
            case ex.Expand():
                x = self.value(expr.operand, env)
                value, error = (np.expand_dims(part, expr.axes) for part in (x.value, x.error))
                sources = x.sources and x.sources.expanded(expr.axes)
                return Bounded(value, error, expr.dtype, sources)
            case ex.Reduce():
                operand = self.value(expr.operand, env)
                return rounding.reduce(expr.function, operand, expr.axis, expr.dtype)

    def binary(self, expr: ex.Binary, env: dict[str, _Held]) -> Bounded:
        left, right = self.value(expr.left, env), self.value(expr.right, env)
        common = expr.dtype
        if expr.function in ex.COMPARISONS:
            common = compute_dtype(promote(expr.left.dtype, expr.right.dtype))
        return rounding.binary(expr.function, left, right, expr.dtype, common)
