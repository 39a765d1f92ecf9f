"""Where each element of a buffer lies: its offset, its bank, or the thread that holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from septran.dtypes import itemsize
from septran.errors import CallError, nearest
from septran.explain.origin_text import why_of
from septran.tile.nodes import Buffer, TileProgram

ROWS, COLUMNS = 128, 128
"""Elements that are shown along the last two axes; a layout repeats beyond."""
BANKS = (32, 4)
"""Banks of a shared memory, and bytes of each that are next to each other."""

Owner = Callable[[tuple[int, ...]], tuple[int, int]]
"""For an element's coordinates, the thread that holds it and its place there."""


class NoSuchBufferError(CallError):
    """A buffer that the program does not have."""

    code = "SEP654"


@dataclass(frozen=True)
class LayoutMap:
    """The layout of one buffer, element by element."""

    buffer: Buffer
    machine: str
    owner: Owner | None = None
    """Where elements are spread over threads; None where all see one memory."""
    banks: tuple[int, int] = BANKS
    banked: bool = True
    """Whether its memory has banks, as a GPU's shared memory."""

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns that are shown."""
        shape = self.buffer.shape
        rows = shape[-2] if len(shape) > 1 else 1
        return min(rows, ROWS), min(shape[-1] if shape else 1, COLUMNS)

    def coordinates(self, row: int, column: int) -> tuple[int, ...]:
        """The element of the first of all outer coordinates at (row, column)."""
        rank = len(self.buffer.shape)
        return (0,) * max(0, rank - 2) + (row, column)[max(0, 2 - rank) :]

    def offset(self, row: int, column: int) -> int:
        """Bytes from the start of the buffer."""
        width = itemsize(self.buffer.dtype)
        at = self.coordinates(row, column)
        return self.buffer.layout.swizzled_offset(at, self.buffer.shape, width) * width

    def bank(self, row: int, column: int) -> int:
        """Which bank of a banked memory the element's first byte is in."""
        count, width = self.banks
        return self.offset(row, column) // width % count

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; offsets in bytes, row by row."""
        rows, columns = self.window
        cells = [(r, c) for r in range(rows) for c in range(columns)]
        owners = [self.owner(self.coordinates(r, c)) for r, c in cells] if self.owner else None
        buffer, why = self.buffer, why_of(self.buffer.origin)
        return {
            "name": buffer.name, "memory": buffer.memory, "machine": self.machine,
            "shape": list(buffer.shape), "dtype": buffer.dtype, "layout": str(buffer.layout),
            "kind": buffer.layout.kind, "parameters": list(buffer.layout.parameters),
            "itemsize": itemsize(buffer.dtype), "rows": rows, "columns": columns,
            "banks": {"count": self.banks[0], "bytes": self.banks[1]}, "banked": self.banked,
            "offsets": [self.offset(r, c) for r, c in cells],
            "threads": [o[0] for o in owners] if owners else None,
            "slots": [o[1] for o in owners] if owners else None,
            "why": why["rule"], "places": why["places"],
        }  # fmt: skip

    def explore(self) -> Any:
        """The interactive view of it."""
        from septran.explain.live import explore

        return explore(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from septran.explain.html import code, join, panel, strong

        del include, exclude
        title = join([strong(self.buffer.name), f" in {self.buffer.memory}"])
        return {"text/html": str(panel(title, code(str(self)))), "text/plain": str(self)}

    def __str__(self) -> str:
        rows, columns = (min(n, 16) for n in self.window)
        width = itemsize(self.buffer.dtype)
        lines = [f"{self.buffer.name}: {self.buffer.layout}; each element's place, in elements"]
        for row in range(rows):
            places = (self.offset(row, column) // width for column in range(columns))
            lines.append(" ".join(f"{place:5d}" for place in places))
        return "\n".join(lines) + "\n"


def layout_map(program: TileProgram, name: str, owner: Owner | None = None) -> LayoutMap:
    """The layout of a buffer of a program."""
    try:
        buffer = program.buffer(name)
    except KeyError as error:
        names = [b.name for b in program.buffers]
        raise NoSuchBufferError(f"no buffer {name!r}", hint=nearest(name, names)) from error
    machine = program.machine
    banked = machine.backend in ("cuda", "hip") and buffer.memory != machine.main_memory.name
    return LayoutMap(buffer, machine.name, owner, banked=banked)
