"""What a function of a scan makes of drawn numbers: whether it joins groups, and begins well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.dtypes import is_float
from septran.ir import expressions as ex
from septran.ir.evaluate import evaluate
from septran.ir.views import View

Array = np.ndarray[Any, Any]
_TRIALS = 512
_CLOSE = 1e-6
"""How far apart, of their size, two groupings may be in float64."""
_ROUNDED = _TRIALS // 100
"""Of how many trials floats may be further apart: a difference in a divisor cancels in some."""
_Draw = Callable[[np.random.Generator, tuple[int, int]], Array]
_DOMAINS: tuple[_Draw, ...] = (
    lambda random, size: random.standard_normal(size),
    lambda random, size: random.uniform(0.5, 4, size),
    lambda random, size: np.floor(random.uniform(-9, 9, size)),
)
"""The numbers on all of which groups are joined alike, but for positions that hold flags."""
_IN_ORDER: _Draw = lambda random, size: np.sort(random.standard_normal(size), axis=0)  # noqa: E731
"""Parts of which each is at least the one before, as the ends of intervals."""


@dataclass(frozen=True)
class Trials:
    """What a function makes of `sources`, as expressions on loads named ``0@earlier``, ``0@later``.

    A position may hold flags, 0 and 1 alone, where what is scanned has integers, or where the
    function compares it with a constant; of 0 and 1 it then must make 0 and 1. Flags alone are
    tried only of masks: of {0, 1} much is associative that is not of other numbers.
    """

    values: Sequence[ex.Expr]
    dtypes: Sequence[str]
    sources: Sequence[ex.Expr]

    def groupings(self) -> str:
        """Return three elements whose two groupings differ, as text; else nothing."""
        general = self._differing(frozenset())
        ways = self._flags() if general else ()
        return "" if any(not self._differing(flags) for flags in ways) else general

    def changed(self, first: Sequence[float | int]) -> str:
        """Return an element that is another once joined with `first`, as text; else nothing.

        What changes none of some kind of numbers is taken: 0 for the greatest of positive ones.
        """
        ways = [(draw, flags) for flags in (frozenset(), *self._flags()) for draw in _DOMAINS]
        found = [self._changed(first, *way) for way in (*ways, (_IN_ORDER, frozenset()))]
        return found[0] if all(found) else ""

    def _flags(self) -> list[frozenset[int]]:
        """Return the greatest sets of positions that may be taken to hold flags."""
        count = len(self.sources)
        masks = frozenset(n for n in range(count) if _is_mask(self.sources[n]))
        integers = (n for n in range(count) if not is_float(self.sources[n].dtype))
        found = self._closed(frozenset(integers) | _compared(self.values))
        if len(found) < count or found <= masks:
            return [found] if found else []
        fewer = (self._closed(found - {n}) for n in sorted(found - masks))
        return [flags for flags in fewer if flags]

    def _closed(self, flags: frozenset[int]) -> frozenset[int]:
        """Return those of `flags` whose results are flags, as long as the others are."""
        while True:
            kept = flags
            for draw in _DOMAINS:
                random = np.random.default_rng(0)
                made = self._joined(*(self._drawn(random, draw, flags) for _ in range(2)))
                kept &= {n for n in flags if np.isin(made[n], (0, 1)).all()}
            if kept == flags:
                return flags
            flags = kept

    def _differing(self, flags: frozenset[int]) -> str:
        for draw in _DOMAINS:
            random = np.random.default_rng(0)
            x, y, z = (self._drawn(random, draw, flags) for _ in range(3))
            left = self._joined(self._joined(x, y), z)
            right = self._joined(x, self._joined(y, z))
            for one, other in zip(left, right, strict=True):
                wrong = np.isfinite(one) & np.isfinite(other) & _apart(one, other)
                if wrong.sum() > (_ROUNDED if any(map(is_float, self.dtypes)) else 0):
                    at = int(np.argmax(wrong))
                    given = ", ".join(_text(v, at) for v in (x, y, z))
                    return f"of {given} it makes {one[at]:.6g} or {other[at]:.6g}"
        return ""

    def _changed(self, first: Sequence[float | int], draw: _Draw, flags: frozenset[int]) -> str:
        x = self._drawn(np.random.default_rng(0), draw, flags)
        pairs = zip(first, x, strict=True)
        found = self._joined([np.full(_TRIALS, value, v.dtype) for value, v in pairs], x)
        for one, other in zip(found, x, strict=True):
            known = ~np.isnan(one)
            wrong = _apart(one, other) & (known if known.any() else ~known)
            if wrong.any():
                at = int(np.argmax(wrong))
                return f"of it and {_text(x, at)} the function makes {_text(found, at)}"
        return ""

    def _drawn(
        self, random: np.random.Generator, draw: _Draw, flags: frozenset[int]
    ) -> list[Array]:
        numbers = draw(random, (len(self.dtypes), _TRIALS))
        for n in flags:
            numbers[n] = random.integers(0, 2, _TRIALS)
        return [_typed(v, d) for v, d in zip(numbers, self.dtypes, strict=True)]

    def _joined(self, earlier: Sequence[Array], later: Sequence[Array]) -> list[Array]:
        of: Mapping[str, Sequence[Array]] = {"earlier": earlier, "later": later}

        def read(view: View) -> Array:
            number, side = view.tensor.split("@")
            return of[side][int(number)]

        none: Mapping[Any, Any] = {}
        return [
            np.broadcast_to(evaluate(v, read, none, none, _no_position, wide=True), (_TRIALS,))
            for v in self.values
        ]


def of_elements(value: ex.Expr) -> bool:
    """Return whether a value is computed element by element, from what is joined alone."""
    known = ex.Constant | ex.Unary | ex.Binary | ex.Select | ex.Cast
    return all(
        "@" in node.view.tensor if isinstance(node, ex.Load) else isinstance(node, known)
        for node in ex.walk(value)
    )


def _is_mask(source: ex.Expr) -> bool:
    """Return whether what is scanned has no other numbers than 0 and 1."""
    source = _bare(source)
    if isinstance(source, ex.Select):
        ends = (_bare(source.yes), _bare(source.no))
        return all(isinstance(e, ex.Constant) and e.value in (0, 1) for e in ends)
    return source.dtype == "bool"


def _compared(values: Sequence[ex.Expr]) -> frozenset[int]:
    """Return the positions that are compared with a constant."""
    found = set()
    for node in (node for value in values for node in ex.walk(value)):
        if isinstance(node, ex.Binary) and node.function in ex.COMPARISONS:
            for one, other in ((node.left, node.right), (node.right, node.left)):
                part = _bare(one)
                if isinstance(part, ex.Load) and isinstance(_bare(other), ex.Constant):
                    found.add(int(part.view.tensor.split("@")[0]))
    return frozenset(found)


def _bare(expr: ex.Expr) -> ex.Expr:
    while isinstance(expr, ex.Cast):
        expr = expr.operand
    return expr


def _typed(numbers: Array, dtype: str) -> Array:
    if is_float(dtype):
        return numbers.astype("float64")
    return (np.abs(numbers) if dtype.startswith("uint") else numbers).astype(dtype)


def _apart(one: Array, other: Array) -> Array:
    one, other = one.astype("float64"), other.astype("float64")
    with np.errstate(all="ignore"):
        close: Array = np.abs(one - other) <= _CLOSE * (1 + np.abs(one) + np.abs(other))
        return np.where(np.isfinite(one) & np.isfinite(other), ~close, one != other)


def _text(parts: Sequence[Array], at: int) -> str:
    return f"({', '.join(f'{v[at]:.3g}' for v in parts)})"


def _no_position(view: View, axis: int) -> Array:
    raise NotImplementedError((view, axis))
