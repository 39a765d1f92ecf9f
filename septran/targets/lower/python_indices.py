"""Indices of the tile program as Python text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.ir.atoms import Atom, CallExtent, Element, ExtentProduct, FloorDiv, Max, Min, Mod, Var
from septran.ir.bounds import bounds
from septran.ir.index import Index, Range, minimum


@dataclass
class PythonIndices:
    """What each variable is called, and what is known of it."""

    ranges: Mapping[Var, Range]
    calls: Mapping[str, str]
    """What the language calls ``minimum``, ``maximum`` and ``clip``."""
    names: dict[Var, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    """What a tensor of indices is called, where it is not called by its own name."""

    def bounds(self, index: Index, more: Mapping[Var, Range] | None = None) -> Range:
        """The least and the greatest value; `more` are ranges of axes."""
        return bounds(index, {**self.ranges, **(more or {})})

    def simple(self, index: Index) -> Index:
        """The index without what the ranges decide."""
        return index.simplify(self.ranges)

    def text(self, index: Index) -> str:
        """The index as a Python expression."""
        index = self.simple(index)
        parts = [self._term(atom, factor) for atom, factor in index.terms]
        if index.constant or not parts:
            parts.append(("-" if index.constant < 0 else "+", str(abs(index.constant))))
        first = next((n for n, (sign, _) in enumerate(parts) if sign == "+"), 0)
        (sign, text), *others = [parts[first], *parts[:first], *parts[first + 1 :]]
        text = f"-{text}" if sign == "-" else text
        return text + "".join(f" {s} {part}" for s, part in others)

    def factor(self, index: Index) -> str:
        """The index as an operand of a product, a quotient or a comparison."""
        text = self.text(index)
        return text if text.replace("_", "").isalnum() else f"({text})"

    def _term(self, atom: Atom, factor: int) -> tuple[str, str]:
        text = self._atom(atom)
        size = abs(factor)
        if size != 1:
            text = f"{size} * ({text})" if isinstance(atom, FloorDiv | Mod) else f"{size} * {text}"
        elif factor < 0 and isinstance(atom, FloorDiv | Mod):
            text = f"({text})"
        return ("-" if factor < 0 else "+", text)

    def _atom(self, atom: Atom) -> str:
        match atom:
            case Var():
                return self.names[atom]
            case FloorDiv(value, divisor):
                return f"{self.factor(value)} // {divisor}"
            case Mod(value, divisor):
                return f"{self.factor(value)} % {divisor}"
            case Min(operands):
                return self._extremum("minimum", operands)
            case Max(operands):
                return self._extremum("maximum", operands)
            case Element():
                return self._element(atom)
            case CallExtent() | ExtentProduct():  # no language here has dynamic dimensions
                raise TypeError(atom)

    def _extremum(self, function: str, operands: tuple[Index, ...]) -> str:
        first, *rest = map(self.text, operands)
        for text in rest:
            first = f"{self.calls[function]}({first}, {text})"
        return first

    def _element(self, element: Element) -> str:
        """An element of a tensor of indices, forced into its range."""
        at = ", ".join(map(self.text, element.at))
        last = Index.of(element.extent - 1)
        if element.most is not None:
            last = minimum(last, element.most)
        return f"{self.calls['clip']}({self.looked_up(element.tensor, at)}, 0, {self.text(last)})"

    def looked_up(self, tensor: str, at: str) -> str:
        """An element of a tensor of indices, whatever it is."""
        return f"{self.tables.get(tensor, tensor)}[{at}]"
