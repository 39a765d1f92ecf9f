"""Extents that calls tell, read from the shapes of a call's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from septran.ir.index import Index
from septran.tile.nodes import TileProgram


@dataclass(frozen=True)
class CallSize:
    """An extent that is an argument of generated code, and where a call has it."""

    name: str
    least: int
    most: int
    """Both inclusive; beyond them the code is wrong."""
    tensor: int
    """The place among the parameters of one that has the extent as it is."""
    axis: int

    def of(self, tensors: Sequence[Any]) -> int:
        """The extent in a call; raises ValueError where it is out of range."""
        found = int(tensors[self.tensor].shape[self.axis])
        if not self.least <= found <= self.most:
            raise ValueError(f"{self.name} is not in {self.least} to {self.most}")
        return found

    @property
    def facts(self) -> tuple[Any, ...]:
        """What JSON holds of it: `CallSize(*facts)` is equal."""
        return astuple(self)


def call_sizes(program: TileProgram) -> tuple[CallSize, ...]:
    """The extents that calls of a program tell, in the order of `TileProgram.sizes`."""
    found = []
    for size in program.sizes():
        alone = Index(((size, 1),))
        tensor, axis = next(
            (place, number)
            for place, name in enumerate(program.params)
            for number, extent in enumerate(program.buffer(name).exists)
            if extent == alone
        )
        found.append(CallSize(size.name, size.least, size.most, tensor, axis))
    return tuple(found)
