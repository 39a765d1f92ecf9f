"""Values that depend on elements which nobody has written, and where that began."""

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
    """The first reads of unwritten elements; marks above `NEVER` are numbers of these reads.

    Tiles at an edge are computed as a whole, including elements that do not exist. Their results
    are dropped, so only what reaches a tensor of the caller is a mistake.
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
        """Return the marks of the elements read, with a new number for those never written."""
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
        """Raise UnwrittenResultError where a value of a tensor that needs one has none."""
        if missing is None or not missing.any():
            return
        # Mark NEVER + n stands for the n-th read, which is at n - 1.
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
