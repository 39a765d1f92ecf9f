"""Typed views of a run's memories, and operands that stay converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from septran.simulator.operands import Unit
from septran.simulator.units.numerics import to_single

Array = np.ndarray[Any, Any]


class OperandStart(NamedTuple):
    """The start of an operand."""

    space: int
    offset: int


class Call(NamedTuple):
    """One command: its numbers by name, and its operands' places."""

    function: str
    unit: Unit | None
    columns: Mapping[str, int]
    row: Sequence[int]
    """The arguments; `columns` says which is where."""
    spaces: Mapping[str, Sequence[int]]
    offsets: Mapping[str, Sequence[int]]
    number: int
    """Which of those in `spaces` and `offsets` are this command's."""

    def value(self, name: str) -> int:
        """An argument."""
        return self.row[self.columns[name]]

    def place(self, name: str) -> OperandStart:
        """Return where an operand begins."""
        return OperandStart(self.spaces[name][self.number], self.offsets[name][self.number])


class Converted:
    """An operand in another type, made anew after somebody has overwritten the original."""

    __slots__ = ("kind", "origin", "original", "value")

    def __init__(self, original: Array, kind: np.dtype[Any]) -> None:
        self.original, self.kind = original, kind
        self.value: Array | None = None
        self.origin: Converted | None = None
        """What a copy brought here, where that never changes: converted once for all."""

    def get(self) -> Array:
        """The operand, converted when it is needed."""
        value = self.value
        if value is None:
            original = self.original
            if self.origin is not None:
                value = self.origin.get()
            else:
                single = self.kind == np.float32
                value = to_single(original) if single else original.astype(self.kind)
            self.value = value
        return value


@dataclass
class Views:
    """Makes typed views of memories."""

    memories: tuple[Array, ...]
    converted: dict[tuple[Any, ...], Converted] = field(default_factory=dict)
    scratch: dict[tuple[Any, ...], Array] = field(default_factory=dict)

    def view(
        self,
        operand: OperandStart,
        kind: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Array:
        """A view; empty ones are of nothing."""
        if 0 in shape:
            return np.zeros(shape, kind)
        space, offset = operand
        return np.ndarray(shape, kind, self.memories[space], offset, strides)

    def keep(
        self,
        operand: OperandStart,
        kind: np.dtype[Any],
        shape: tuple[int, int],
        stride: int,
        wanted: np.dtype[Any],
    ) -> Converted:
        """A matrix in another type, shared by all commands that use it."""
        key = (operand, kind, shape, stride, wanted)
        found = self.converted.get(key)
        if found is None:
            original = self.view(operand, kind, shape, (stride, kind.itemsize))
            found = self.converted[key] = Converted(original, wanted)
        return found

    def temporary(self, shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
        """An array for use within one command."""
        # Commands are carried out one by one, so one array of each form serves them all.
        found = self.scratch.get((shape, kind))
        if found is None:
            found = self.scratch[shape, kind] = np.empty(shape, kind)
        return found
