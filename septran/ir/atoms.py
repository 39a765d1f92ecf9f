"""Atoms, the terms of an index: variables, quotients, remainders, extrema, elements of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np

if TYPE_CHECKING:
    from septran.ir.index import Index

T = TypeVar("T")


def remembering(cls: type[T]) -> type[T]:
    """Let objects of a frozen dataclass work out their hash and their text once.

    Indices are nested, sorted by their text and keys of many dictionaries, so that most of these
    hashes and texts are of parts that were asked before.
    """
    cls.__hash__ = _once("_hash", cls.__hash__)  # type: ignore[method-assign,assignment]
    cls.__str__ = _once("_text", cls.__str__)  # type: ignore[method-assign]
    # Another process hashes texts otherwise, so what is kept is not pickled.
    cls.__getstate__ = _fields  # type: ignore[method-assign]
    return cls


def _once(name: str, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def kept(self: Any) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            found = compute(self)
            object.__setattr__(self, name, found)  # it is frozen
            return found

    return kept


def _fields(self: Any) -> dict[str, Any]:
    return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Var:
    """A loop index or an axis variable, identified by its name."""

    name: str

    def __hash__(self) -> int:
        return hash(self.name)  # a tenth of the time that a tuple of fields takes

    def __str__(self) -> str:
        return self.name


@remembering
@dataclass(frozen=True)
class FloorDiv:
    """``value // divisor``, rounded towards minus infinity; `divisor` is positive."""

    value: Index
    divisor: int

    def __str__(self) -> str:
        return f"{_bracket(self.value)}//{self.divisor}"


@remembering
@dataclass(frozen=True)
class Mod:
    """``value % divisor``, never negative; `divisor` is positive."""

    value: Index
    divisor: int

    def __str__(self) -> str:
        return f"{_bracket(self.value)}%{self.divisor}"


@remembering
@dataclass(frozen=True)
class Min:
    """The least of its operands."""

    operands: tuple[Index, ...]

    def __str__(self) -> str:
        return f"min({_operands_text(self.operands)})"


@remembering
@dataclass(frozen=True)
class Max:
    """The greatest of its operands."""

    operands: tuple[Index, ...]

    def __str__(self) -> str:
        return f"max({_operands_text(self.operands)})"


class ElementRangeError(ValueError):
    """An element that is used as an index is none; whoever knows the place says where."""

    def __init__(self, found: str, last: int) -> None:
        """`found` says which element is what; `last` is the greatest that it may be."""
        super().__init__(f"{found}, which is no index of 0..{last}")
        self.found, self.last = found, last


@dataclass(frozen=True)
class Assumed:
    """Stands for a tensor of integers that is not known: all are `value`, or as much as may be."""

    value: int


@remembering
@dataclass(frozen=True)
class Element:
    """An element of a tensor of integers, read when the kernel runs: ``pages[b, p]``.

    Analyses know of it that it is one of `extent` positions, and nothing else. It reads a tensor
    that the kernel's caller passes, or one that the kernel has written before the statement of the
    entry that reads it, and writes no more: there it is the same wherever and whenever it is read,
    and passes move and copy it as they do a loop index.
    """

    tensor: str
    """The entry's parameter that it is read from, or the name of a temporary (`table_name`)."""
    at: tuple[Index, ...]
    """Its coordinates; those of a gathered view have axis variables."""
    extent: int
    """It is at least 0 and less than this."""
    most: Index | None = None
    """What it is at most in a call or a ragged tile that has less; judged by a run, as `extent`."""

    def with_parts(self, made: Callable[[Index], Index]) -> Element:
        """The element with each index that it is made of replaced by what is `made` of it."""
        most = None if self.most is None else made(self.most)
        return replace(self, at=tuple(map(made, self.at)), most=most)

    @property
    def table(self) -> Var:
        """What `Index.evaluate` finds the tensor's array under, beside the loop indices."""
        return table_of(self.tensor)

    def look_up(self, array: Any, at: Sequence[Any], most: int | None = None) -> Any:
        """The element, or elements, at coordinates; raises ElementRangeError.

        `most` is the value of the element's own.
        """
        last = self.extent - 1 if most is None else min(self.extent - 1, most)
        if isinstance(array, Assumed):
            return min(array.value, self.extent - 1)
        found = np.asarray(array[tuple(at)])
        outside = (found < 0) | (found > last)
        if outside.any():
            first = tuple(np.argwhere(outside)[0])
            places = [np.broadcast_to(np.asarray(c), found.shape)[first] for c in at]
            where = ", ".join(str(int(place)) for place in places)
            raise ElementRangeError(f"{self.tensor}[{where}] is {int(found[first])}", last)
        return found.astype(np.int64) if found.ndim else int(found)

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.at))}]"


@remembering
@dataclass(frozen=True)
class CallExtent:
    """A dimension's extent that is known when the kernel is called: ``N`` of any length.

    Every tensor of a call has it alike, so that it is the same wherever it is read.
    """

    name: str
    """The named dimension."""
    least: int
    most: int
    """Both inclusive; memory is set aside for `most`."""

    @property
    def table(self) -> Var:
        """What `Index.evaluate` finds its value under; without one it is `most`.

        Estimates and analyses without a call thus see a call of the greatest size.
        """
        return Var(f"len {self.name}")

    def __str__(self) -> str:
        return self.name


@remembering
@dataclass(frozen=True)
class ExtentProduct:
    """``value * size``, the distance of rows whose length is known when the kernel is called."""

    value: Index
    """A single atom; `septran.ir.index.product` multiplies sums."""
    size: CallExtent

    def __str__(self) -> str:
        return f"{_bracket(self.value)}*{self.size}"


def table_name(path: str, temporary: str) -> str:
    """The name, unique in a tree, of a temporary of the task at `path` for who reads its elements.

    Of the entry's own it is the name that the tree has. Its parts are separated by what no name
    of a task has, and only the number of a launch is a number.
    """
    inside = path.partition("/")[2]
    return f"{inside}/{temporary}".replace("#", ".").replace("/", ".") if inside else temporary


def table_of(tensor: str) -> Var:
    """The name under which a tensor of indices is among the values of variables."""
    return Var(f"{tensor}[]")


def tables(arrays: Mapping[str, Any]) -> dict[Var, Any]:
    """Arrays of integers by the names under which elements find them."""
    return {table_of(name): a for name, a in arrays.items() if a.dtype.kind in "iu"}


Atom = Union[Var, FloorDiv, Mod, Min, Max, Element, CallExtent, ExtentProduct]


def parts_of(atom: Atom) -> tuple[Index, ...]:
    """The indices that an atom is made of; a variable is made of none."""
    match atom:
        case FloorDiv(value) | Mod(value):
            return (value,)
        case ExtentProduct(value, size):
            return (value, _alone(size))
        case Min(operands) | Max(operands):
            return operands
        case Element(at=at, most=most):
            return at if most is None else (*at, most)
    return ()


def variables_of(atom: Atom) -> Iterator[Var]:
    """Yield every variable in an atom, also those inside of divisions and minima."""
    if isinstance(atom, Var):
        yield atom
    for part in parts_of(atom):
        yield from part.ordered_variables


def _alone(size: CallExtent) -> Index:
    from septran.ir.index import Index  # which imports this module

    return Index(((size, 1),))


def _operands_text(operands: tuple[Index, ...]) -> str:
    """Return the operands of an extremum, of which a number goes first: ``64, 250 - 64*i``."""
    ordered = sorted(operands, key=lambda operand: not operand.is_constant)
    return ", ".join(map(str, ordered))


def _bracket(index: Index) -> str:
    simple = index.is_constant or (len(index.terms) == 1 and not index.constant)
    return str(index) if simple else f"({index})"
