"""Values that follow from elements which nobody has written, and where that began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.errors import TileError
from septran.ir.index import Var
from septran.tile.interpret.channel_state import located
from septran.tile.interpret.storage import NEVER, grid
from septran.tile.nodes import Buffer, Compute, Copy, Region

Array = np.ndarray[Any, Any]


class UnwrittenResultError(TileError):
    """A result follows from an element that nobody has written."""

    code = "SEP439"


@dataclass
class Unwritten:
    """Who first read what; marks above `NEVER` are numbers of these reads.

    Tiles at an edge are computed on as a whole, also where nothing of them exists. What comes
    of that is dropped, so only what reaches a tensor of the caller is a mistake.
    """

    reads: list[tuple[str, Copy | Compute]] = field(default_factory=list)

    def seen(
        self,
        marks: Array,
        buffer: Buffer,
        region: Region,
        node: Copy | Compute,
        values: Mapping[Var, int],
    ) -> Array:
        """The marks of what is read, those of elements that were never written numbered."""
        fresh = marks == NEVER
        if not fresh.any():
            return marks
        first = tuple(np.argwhere(fresh)[0])
        place = (int(grid(entry, marks.shape, values)[first]) for entry in region.index)
        element = f"{buffer.tensor or buffer.name}[{', '.join(map(str, place))}]"
        if buffer.tensor not in ("", buffer.name):
            element += f", counted in its tile in {buffer.memory},"
        self.reads.append((element, node))
        return np.where(fresh, np.int32(NEVER + len(self.reads)), marks)

    def require_none(self, node: Copy | Compute, target: Region, missing: Array | None) -> None:
        """Raise UnwrittenElementError where a value of a tensor that must have one lacks it."""
        if missing is None or not missing.any():
            return
        element, reader = self.reads[int(missing.max()) - NEVER - 1]
        notes = (
            [(f"{target.buffer} gets what follows from it", place)]
            if (place := node.origin.logic) and node is not reader
            else []
        )
        raise located(
            UnwrittenResultError,
            f"{element} is read, and nobody has written it",
            reader.origin,
            notes=notes,
        )
