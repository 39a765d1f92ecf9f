"""The dimensions of a sequence: what the operators' own names of them mean together."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from septran.sequences.steps import SequenceStep
from septran.task.frontend.decided_dims import Dim
from septran.task.frontend.definition import TensorType

Name = tuple[int, str]
"""A dimension as one step calls it: the step's number and the name."""


@dataclass
class Dims:
    """Which names of dimensions mean one extent, and what each is called in the sequence."""

    steps: Sequence[SequenceStep]
    inputs: Sequence[str]
    """The names of what the sequence reads."""
    same: dict[Name, Name] = field(default_factory=dict)
    """Of two names of one dimension, the one that stands for both."""
    labels: dict[Name, str] = field(default_factory=dict)

    def types(self, results: Iterable[str]) -> dict[str, TensorType]:
        """Return the annotations of the sequence's results and inputs."""
        uses = self._uses()
        for each in uses.values():
            for axis in zip(*(_named(number, kind) for number, kind in each), strict=False):
                known = [name for name in axis if name is not None]
                for name in known[1:]:
                    one, other = self._root(known[0]), self._root(name)
                    if one != other:
                        self.same[other] = one
        given = {
            self._root(name)
            for tensor in self.inputs
            for number, kind in uses.get(tensor, ())
            for name in _named(number, kind)
            if name is not None
        }
        # Of names that several operators use for different dimensions, inputs keep theirs.
        read = {name: self._type(uses.get(name, []), given) for name in self.inputs}
        return {name: self._type(uses[name], given) for name in results} | read

    def _uses(self) -> dict[str, list[tuple[int, TensorType]]]:
        """Return the operators' annotations of each tensor that is passed as it is."""
        found: dict[str, list[tuple[int, TensorType]]] = {}
        for number, step in enumerate(self.steps):
            kinds = dict(step.task.specialised(step.static))
            for own, name in step.whole.items():
                kind = replace(kinds[own], privilege=step.privileges.get(own, "In"))
                found.setdefault(name, []).append((number, _with_flags(kind, step.static)))
        return found

    def _root(self, name: Name) -> Name:
        while name in self.same:
            name = self.same[name]
        return name

    def _type(self, uses: list[tuple[int, TensorType]], given: set[Name]) -> TensorType:
        dtype = next((kind.dtype for _, kind in uses if kind.dtype), None)
        span = next((kind.span for _, kind in uses if kind.span), None)
        known = [(number, kind.dims) for number, kind in uses if kind.dims is not None]
        # What is written first and read later is overwritten all the same.
        privilege = uses[0][1].privilege if uses else "In"
        if privilege == "In" and any(kind.privilege != "In" for _, kind in uses):
            privilege = "InOut"
        if not known:
            return TensorType(None, dtype, privilege, span)
        axes = zip(*([(number, dim) for dim in dims] for number, dims in known), strict=False)
        dims = tuple(self._dim(axis, given) for axis in axes)
        return TensorType(dims, dtype, privilege, span)

    def _dim(self, axis: Sequence[tuple[int, Dim]], given: set[Name]) -> Dim:
        """Return an axis' extent: a number, a name that an input has, or what one computes."""
        formulas: list[str] = []
        for number, dim in axis:
            if isinstance(dim, int):
                return dim
            if isinstance(dim, str):
                plain = dim.isidentifier() and self._root((number, dim)) in given
                formulas.insert(0 if plain else len(formulas), self._text(number, dim))
        return formulas[0] if formulas else None

    def _text(self, number: int, dim: str) -> str:
        """Return a dimension in the sequence's names."""
        tree = ast.parse(dim, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = self._label((number, node.id))
        return ast.unparse(tree)

    def _label(self, name: Name) -> str:
        root = self._root(name)
        if root not in self.labels:
            taken, label, count = set(self.labels.values()), name[1], 2
            while label in taken:
                label, count = f"{name[1]}{count}", count + 1
            self.labels[root] = label
        return self.labels[root]


def _named(number: int, kind: TensorType) -> Iterator[Name | None]:
    """Yield for each axis the name of its dimension; None where it is a number or a formula."""
    for dim in kind.dims or ():
        yield (number, dim) if isinstance(dim, str) and dim.isidentifier() else None


def _with_flags(kind: TensorType, flags: Mapping[str, Any]) -> TensorType:
    """Return an annotation whose dimensions name no flags of the operator."""
    dims = None if kind.dims is None else tuple(_without_flags(d, flags) for d in kind.dims)
    return replace(kind, dims=dims)


def _without_flags(dim: Dim, flags: Mapping[str, Any]) -> Dim:
    if not isinstance(dim, str):
        return dim
    text = ast.unparse(_Flags(flags).visit(ast.parse(dim, mode="eval")))
    return int(text) if text.isdecimal() else text


class _Flags(ast.NodeTransformer):
    """Puts the values of flags in the place of their names."""

    def __init__(self, flags: Mapping[str, Any]) -> None:
        self.flags = flags

    def visit_Name(self, node: ast.Name) -> ast.expr:  # as ast has it
        value = self.flags.get(node.id)
        return ast.Constant(int(value)) if isinstance(value, int) else node
