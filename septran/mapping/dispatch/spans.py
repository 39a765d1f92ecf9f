"""What a condition says of single dimensions: the extents for which it may hold.

A condition is looked at as alternatives (what ``or`` joins), each of demands that must all be met
(what ``and`` joins). A demand such as ``M <= 4`` or ``4 < M <= 64`` is a span of one name; any
other is known by its text alone. From these follow which cases of a dispatch file can never be
taken, and for which extents a case's kernel is called.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from septran.mapping.conditions import Condition, Value
from septran.mapping.mistakes import ConditionError

MOST_ALTERNATIVES = 32
"""The alternatives of a condition that are looked at; one with more is known by its text alone."""

Span = tuple[float, float]
"""The least and the greatest of some integers, both included; infinite where there is no end."""

_FLIPPED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq,
}  # fmt: skip


@dataclass(frozen=True)
class Demand:
    """One comparison of a condition, or any other part of it that must be true."""

    condition: Condition
    """The part itself."""
    name: str = ""
    """The name of which it gives a span; empty where it is no span of one name."""
    span: Span = (-math.inf, math.inf)

    def known_to_fail(self, values: Mapping[str, Value]) -> bool:
        """Whether it does not hold for these values; False where it names others, too."""
        return self._known(values) and not self.condition.holds(values)

    def known_to_hold(self, values: Mapping[str, Value]) -> bool:
        """Whether it holds for these values; False where it names others, too."""
        return self._known(values) and self.condition.holds(values)

    def _known(self, values: Mapping[str, Value]) -> bool:
        return self.condition.names <= values.keys()


@dataclass(frozen=True)
class Alternative:
    """Demands that must all be met: spans of names, and others by their text."""

    spans: Mapping[str, Span]
    others: frozenset[str]
    """The demands that are no spans, as texts."""

    @staticmethod
    def of(demands: Iterable[Demand]) -> Alternative:
        """Join demands: of one name the span that lies in all of its spans."""
        spans: dict[str, Span] = {}
        others = set()
        for demand in demands:
            if not demand.name:
                others.add(demand.condition.text)
                continue
            low, high = spans.get(demand.name, (-math.inf, math.inf))
            spans[demand.name] = max(low, demand.span[0]), min(high, demand.span[1])
        return Alternative(spans, frozenset(others))

    @property
    def impossible(self) -> bool:
        """Whether some name would have to be in an empty span."""
        return any(low > high for low, high in self.spans.values())

    def only(self, name: str) -> bool:
        """Whether it demands nothing but a span of this name, if anything."""
        return not self.others and not self.spans.keys() - {name}

    def span(self, name: str) -> Span:
        """The span of a name; all integers where nothing is demanded of it."""
        return self.spans.get(name, (-math.inf, math.inf))

    def within(self, other: Alternative) -> bool:
        """Whether `other` holds wherever this one does."""
        return other.others <= self.others and all(
            low <= self.span(name)[0] and self.span(name)[1] <= high
            for name, (low, high) in other.spans.items()
        )


def alternatives(
    condition: Condition | None, values: Mapping[str, Value] | None = None
) -> list[Alternative]:
    """Return what may make a condition true; one that demands nothing where there is no condition.

    `values` are known: demands that they meet are left out, and alternatives that they exclude.
    """
    if condition is None:
        return [Alternative({}, frozenset())]
    known = values or {}
    parts = _parts(condition, condition.tree)
    possible = (p for p in parts if not any(d.known_to_fail(known) for d in p))
    found = (Alternative.of(d for d in p if not d.known_to_hold(known)) for p in possible)
    return [a for a in found if not a.impossible]


def covered(alternative: Alternative, earlier: Sequence[Alternative]) -> bool:
    """Whether some of `earlier` holds wherever `alternative` does."""
    if any(alternative.within(other) for other in earlier):
        return True
    return any(
        _joined(alternative.span(name), [e.span(name) for e in earlier if e.only(name)])
        for name in sorted({n for e in earlier for n in e.spans})
    )


def _joined(span: Span, spans: Iterable[Span]) -> bool:
    """Whether spans together hold each integer of `span`."""
    low, high = span
    for first, last in sorted(spans):
        if first > low:
            return False
        low = max(low, last + 1)
        if low > high or last == math.inf:
            return True
    return False


def left_of(span: Span, name: str, earlier: Iterable[Alternative]) -> Span:
    """Return `span` without what at its ends is only for earlier cases."""
    low, high = span
    taken = sorted(e.span(name) for e in earlier if e.only(name))
    for first, last in taken:
        if first <= low <= last:
            low = last + 1
    for first, last in reversed(taken):
        if first <= high <= last:
            high = first - 1
    return low, high


def _parts(condition: Condition, tree: ast.expr) -> list[tuple[Demand, ...]]:
    """The alternatives of an expression, each as the demands that must be met."""
    match tree:
        case ast.BoolOp(op=ast.Or(), values=values):
            return [p for v in values for p in _parts(condition, v)]
        case ast.BoolOp(op=ast.And(), values=values):
            several = [_parts(condition, v) for v in values]
            if math.prod(map(len, several)) <= MOST_ALTERNATIVES:
                return [sum(choice, ()) for choice in product(*several)]
        case ast.Name(id=name) if name in condition.named:
            return _parts(condition.named[name], condition.named[name].tree)
        case ast.Compare():
            return [tuple(_comparisons(condition, tree))]
    return [(Demand(_part(condition, tree)),)]


def _comparisons(condition: Condition, tree: ast.Compare) -> Iterator[Demand]:
    """The demands of a chain of comparisons: ``4 < M <= 64`` are two."""
    operands = [tree.left, *tree.comparators]
    for left, kind, right in zip(operands, tree.ops, operands[1:], strict=False):
        part = _part(condition, ast.Compare(left, [kind], [right]))
        name, number, word = left, _number(condition, right), type(kind)
        if not isinstance(name, ast.Name):
            name, number, word = right, _number(condition, left), _FLIPPED.get(word, word)
        found = name.id if isinstance(name, ast.Name) else ""
        if found and found not in condition.named and number is not None and word in _FLIPPED:
            yield Demand(part, found, _span(word, number))
        else:
            yield Demand(part)


def _span(kind: type[ast.cmpop], number: int) -> Span:
    if kind in (ast.Lt, ast.LtE):
        return -math.inf, number - (kind is ast.Lt)
    if kind in (ast.Gt, ast.GtE):
        return number + (kind is ast.Gt), math.inf
    return number, number


def _number(condition: Condition, tree: ast.expr) -> int | None:
    """The integer that an expression without names is, ``2**20``; None for any other."""
    part = _part(condition, tree)
    if part.names:
        return None
    try:
        value = part.evaluate({})
    except ConditionError:
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _part(condition: Condition, tree: ast.expr) -> Condition:
    return Condition(ast.unparse(tree), condition.where, condition.named)
