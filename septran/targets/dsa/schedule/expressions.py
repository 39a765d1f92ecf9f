"""Integer expressions of TensorIR as Python functions of the values of loops and names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.ir.expr import TensorLoad

from septran.timing.steps import Number

_BINARY: dict[type, str] = {
    tirx.Add: "({} + {})", tirx.Sub: "({} - {})", tirx.Mul: "({} * {})",
    tirx.Div: "trunc_div({}, {})", tirx.Mod: "trunc_mod({}, {})",
    tirx.FloorDiv: "({} // {})", tirx.FloorMod: "({} % {})",
    tirx.Min: "min({}, {})", tirx.Max: "max({}, {})",
    tirx.LT: "({} < {})", tirx.LE: "({} <= {})", tirx.GT: "({} > {})", tirx.GE: "({} >= {})",
    tirx.EQ: "({} == {})", tirx.NE: "({} != {})", tirx.And: "({} and {})", tirx.Or: "({} or {})",
}  # fmt: skip


def _trunc_div(a: int, b: int) -> int:
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


_KNOWN: dict[str, Any] = {
    "trunc_div": _trunc_div,
    "trunc_mod": lambda a, b: a - b * _trunc_div(a, b),
}


@dataclass
class ControlVariables:
    """The places of variables in the list of values."""

    places: dict[Any, int] = field(default_factory=dict)
    depends: dict[int, frozenset[int]] = field(default_factory=dict)
    """The loops that the value of each name depends on, by place."""
    tables: dict[Any, list[int]] = field(default_factory=dict)
    """What the tensors of indices hold, by buffer."""

    def place(self, variable: Any, depends: frozenset[int] = frozenset()) -> int:
        """A place for a new variable; a loop depends on itself."""
        at = self.places[variable] = len(self.places)
        self.depends[at] = depends or frozenset((at,))
        return at

    def function(self, expression: Any) -> Number:
        """Return the function that computes an expression."""
        return self.compiled(self.text(expression))

    def compiled(self, text: str) -> Callable[[list[int]], Any]:
        """Return a function of the values ``v`` from its text."""
        known = _KNOWN | {"tables": list(self.tables.values())}
        found: Callable[[list[int]], Any] = eval(f"lambda v: {text}", known)
        return found

    def loops(self, expression: Any) -> frozenset[int]:
        """The places of the loops that an expression depends on."""
        found: frozenset[int] = frozenset()
        for variable in self._variables(expression):
            found |= self.depends[self.places[variable]]
        return found

    def _variables(self, expression: Any) -> list[Any]:
        if isinstance(expression, tirx.Var):
            return [expression]
        return [v for part in _parts(expression) for v in self._variables(part)]

    def text(self, expression: Any) -> str:
        """An expression as Python."""
        kind = type(expression)
        if isinstance(expression, int | bool):
            return repr(expression)
        if isinstance(expression, tirx.IntImm):
            return repr(int(expression.value))
        if isinstance(expression, tirx.Var):
            return f"v[{self.places[expression]}]"
        if isinstance(expression, tirx.Cast):
            return f"int({self.text(expression.value)})"
        if isinstance(expression, tirx.Not):
            return f"(not {self.text(expression.a)})"
        if isinstance(expression, tirx.Select):
            yes, no = self.text(expression.true_value), self.text(expression.false_value)
            return f"({yes} if {self.text(expression.condition)} else {no})"
        if isinstance(expression, TensorLoad):
            table = list(self.tables).index(expression.source)
            return f"tables[{table}][{self.text(expression.indices[0])}]"
        if kind in _BINARY:
            return _BINARY[kind].format(self.text(expression.a), self.text(expression.b))
        raise TypeError(f"no integer of the control program: {expression}")


def _parts(expression: Any) -> tuple[Any, ...]:
    if isinstance(expression, tirx.Cast):
        return (expression.value,)
    if isinstance(expression, tirx.Not):
        return (expression.a,)
    if isinstance(expression, tirx.Select):
        return (expression.condition, expression.true_value, expression.false_value)
    if isinstance(expression, TensorLoad):
        return tuple(expression.indices)
    if type(expression) in _BINARY:
        return (expression.a, expression.b)
    return ()
