"""Expressions over names in mappings: arithmetic, comparison, and, or, not. Nothing else.

``M * N * K < 2**21``, ``dtype == "float16" and N % 128 == 0``, ``product.rows <= 16``. They are
parsed by Python's own parser and evaluated here, node by node: no call or index exists, and what
has a dot is a name of a task's structure, or of the machine (`MACHINE`).
"""

from __future__ import annotations

import ast
import functools
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from septran.errors import nearest
from septran.location import Location
from septran.machine.kinds import Report, Schema
from septran.machine.positions import Node
from septran.mapping.mistakes import ConditionError
from septran.mapping.structure.structure import NAMES

Value = Union[int, float, bool, str]
LONGEST = 400
MACHINE = ("register.bytes", "units.count")
"""Names of the machine that the code is for, whatever the task."""
_BITS = 4096
"""The bits of the longest integer that a condition may reach."""

_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_UNARY: Mapping[type, Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}


class Absent(LookupError):
    """A name for what a task or its machine does not have: no product, no vector registers."""


@dataclass(frozen=True)
class Condition:
    """An expression that was parsed and found harmless."""

    text: str
    where: Location
    named: Mapping[str, Condition] = field(default_factory=dict, hash=False)
    """What the file's `conditions` call by a name that occurs in it."""

    @functools.cached_property
    def tree(self) -> ast.expr:
        """Its syntax tree."""
        return _parse(self.text, self.where)

    @property
    def names(self) -> frozenset[str]:
        """The names that it depends on."""
        found = _names(self.text)
        inner = (c.names for n, c in self.named.items() if n in found)
        return (found - self.named.keys()).union(*inner)

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        """Return its value; raises ConditionError for unknown names and impossible arithmetic."""
        known = _Over(values, self.named) if self.named else values
        try:
            result: Value = _evaluate(self.tree, known)
        except KeyError as error:
            name = str(error.args[0])
            message = f"unknown name {name!r} in {self.text!r}"
            raise ConditionError(message, self.where, hint=nearest(name, values)) from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise ConditionError(f"{self.text!r}: {error}", self.where) from None
        return result

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether it is true; not where it names what the task does not have."""
        try:
            return bool(self.evaluate(values))
        except Absent:
            return False


@dataclass(frozen=True)
class _Over(Mapping[str, Value]):
    """Values, and conditions by name, each evaluated where it is asked for."""

    values_below: Mapping[str, Value]
    named: Mapping[str, Condition]

    def __getitem__(self, name: str) -> Value:
        found = self.named.get(name)
        return found.evaluate(self.values_below) if found else self.values_below[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self.named, *self.values_below))

    def __len__(self) -> int:
        return len(self.named) + len(self.values_below)


def condition(node: Node, named: Mapping[str, Condition] | None = None) -> Condition:
    """The condition in a text, with those that it names; raises ConditionError."""
    _parse(node.text, node.where)
    names = _names(node.text) if named else ()
    used = {name: found for name, found in (named or {}).items() if name in names}
    return Condition(node.text, node.where, used)


@functools.lru_cache(maxsize=1024)
def _names(text: str) -> frozenset[str]:
    """The names in an expression that can be read, those of structure with their dot."""
    tree = _read(_plain(text))
    dotted = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    # The `product` of `product.rows` is no name by itself.
    inside = {id(n.value) for n in dotted}
    plain = (n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in inside)
    return frozenset((*plain, *map(ast.unparse, dotted)))


@dataclass(frozen=True)
class Formula:
    """The kind of a value that is a condition."""

    expected: str = 'a condition such as "M * N < 2**20"'

    def accepts(self, node: Node) -> bool:
        """Return whether a node may be one: texts, and the flags true and false."""
        return isinstance(node.value, str | bool)

    def check(self, node: Node, report: Report) -> None:
        """Report a text that is no condition."""
        try:
            condition(node)
        except ConditionError as error:
            report.errors.append(error)

    def schema(self) -> Schema:
        """Return the schema of any text: the grammar is beyond JSON Schema."""
        return {"type": ["string", "boolean"], "maxLength": LONGEST}


@functools.lru_cache(maxsize=1024)
def _read(text: str) -> ast.expr:
    """Python's tree of an expression, which nobody changes; raises SyntaxError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of "1 is 1", which is refused when checked
        return ast.parse(text, mode="eval").body


def _plain(text: str) -> str:
    """The text as Python reads it."""
    # YAML's spelling of the two flags is not Python's.
    return {"true": "True", "false": "False"}.get(text, text).strip()


def _parse(text: str, where: Location) -> ast.expr:
    if len(text) > LONGEST:
        raise ConditionError(f"a condition of more than {LONGEST} characters", where)
    try:
        tree = _read(_plain(text))
        _check(tree, where)
    # Python's parser gives up with the last two where brackets or operators are nested too deep.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        hint = "write a comparison such as M * N < 2**20"
        raise ConditionError(f"{text!r} is not an expression", where, hint=hint) from None
    return tree


def _check(node: ast.expr, where: Location) -> None:
    match node:
        case ast.Name():
            return
        case ast.Constant(value=bool() | int() | float() | str()):
            return
        case ast.Attribute(value=ast.Name()):
            name = ast.unparse(node)
            if name not in (*NAMES, *MACHINE):
                hint = (
                    nearest(name, (*NAMES, *MACHINE)) or "structure has names such as product.rows"
                )
                message = f"{name} is no name of a task's structure"
                raise ConditionError(message, where, hint=hint)
        case ast.BinOp() if type(node.op) in _BINARY:
            _check(node.left, where)
            _check(node.right, where)
        case ast.UnaryOp() if type(node.op) in _UNARY:
            _check(node.operand, where)
        case ast.BoolOp():
            for value in node.values:
                _check(value, where)
        case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
            for value in (node.left, *node.comparators):
                _check(value, where)
        case _:
            word = type(node).__name__.lower()
            hint = "only names, numbers, + - * / // % **, comparisons, and, or, not"
            raise ConditionError(f"a condition may not contain a {word}", where, hint=hint)


def _evaluate(node: ast.expr, values: Mapping[str, Value]) -> Any:
    match node:
        case ast.Name():
            return values[node.id]
        case ast.Attribute():
            return values[ast.unparse(node)]
        case ast.Constant():
            return node.value
        case ast.BinOp():
            left, right = _evaluate(node.left, values), _evaluate(node.right, values)
            return _calculate(node.op, left, right)
        case ast.UnaryOp():
            operand = _evaluate(node.operand, values)
            if isinstance(operand, str):
                raise TypeError("a word is not a number")
            return _UNARY[type(node.op)](operand)
        case ast.BoolOp():
            # As in Python, the first true value ends an `or`, the first false one an `and`:
            # what is behind it is not evaluated, and may be `Absent`.
            wanted = isinstance(node.op, ast.Or)
            return any(bool(_evaluate(v, values)) == wanted for v in node.values) == wanted
        case ast.Compare():
            operands = [_evaluate(v, values) for v in (node.left, *node.comparators)]
            pairs = zip(node.ops, operands, operands[1:], strict=False)
            return all(_COMPARE[type(op)](a, b) for op, a, b in pairs)
        case _:
            raise TypeError(f"a {type(node).__name__}")


def _calculate(operation: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(left, str) or isinstance(right, str):
        raise TypeError("a word is not a number")
    # Limits on the operands' sizes keep a mapping from outside from taking all time or memory.
    if isinstance(operation, ast.Pow):
        # A number of b bits has at most b * n bits in its n-th power.
        size = max(1, int(abs(left)).bit_length())
        if not 0 <= right <= _BITS or size * right > _BITS:
            raise ValueError("the power is too large")
    result = _BINARY[type(operation)](left, right)
    if isinstance(result, int) and result.bit_length() > _BITS:
        raise ValueError("the number is too large")
    return result
