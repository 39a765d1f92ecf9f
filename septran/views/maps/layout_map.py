"""The address of each element of a buffer: its offset, its bank, or its thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from septran.backends import backend_of
from septran.dtypes import itemsize
from septran.errors import CallError, nearest
from septran.tile.nodes import Buffer, TileProgram
from septran.views.text.origin_text import why_of

ROWS, COLUMNS = 64, 64
"""Elements that are shown along the last two axes; a layout repeats beyond."""
BANKS = (32, 4)
"""Banks of a shared memory, and bytes of each that are next to each other."""

WARP = 32


class NoSuchBufferError(CallError):
    """A buffer that the program does not have."""

    code = "SEP654"


@dataclass(frozen=True)
class Spread:
    """The distribution of a buffer's elements over threads and their registers."""

    threads: tuple[tuple[int, ...], ...]
    """For each axis, what each of its coordinates adds to the thread's number."""
    places: tuple[tuple[int, ...], ...]
    """The same for the element's number among those of its thread."""
    count: int
    """Threads in all."""
    first: int = 0
    """The first of them in their block."""
    copies: int = 1
    """Threads that hold the same element."""
    instruction: str = ""
    """What demands it so; empty where it follows from what the buffer meets."""
    digits: str = ""
    """The fragment in the compiler's own notation."""

    @staticmethod
    def of(holding: Any, buffer: Buffer) -> Spread:
        """Read the distribution that the code generator of a GPU chose for a buffer."""
        fragment, shape = holding.fragment, buffer.shape
        return Spread(
            fragment.parts("thread", shape), fragment.parts("register", shape), fragment.threads,
            holding.first, holding.copies, holding.instruction, str(fragment),
        )  # fmt: skip

    def owner(self, at: Sequence[int]) -> tuple[int, int]:
        """The first thread that holds an element, and the element's number there."""
        thread = self.first + sum(part[c] for part, c in zip(self.threads, at, strict=True))
        return thread, sum(part[c] for part, c in zip(self.places, at, strict=True))

    @cached_property
    def each(self) -> int:
        """Elements that each thread holds."""
        return 1 + sum(max(part) for part in self.places)

    def __str__(self) -> str:
        demand = f", as {self.instruction} demands" if self.instruction else ""
        copies = f", each in {self.copies} threads" if self.copies > 1 else ""
        last = self.first + self.count - 1
        return f"{self.each} elements in each of threads {self.first} to {last}{copies}{demand}"


@dataclass(frozen=True)
class LayoutMap:
    """The layout of one buffer, element by element."""

    buffer: Buffer
    machine: str
    spread: Spread | None = None
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
        """Return which bank of a banked memory the element's first byte is in."""
        count, width = self.banks
        return self.offset(row, column) // width % count

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; offsets in bytes, row by row."""
        rows, columns = self.window
        cells = [(r, c) for r in range(rows) for c in range(columns)]
        spread = self.spread
        owners = [spread.owner(self.coordinates(r, c)) for r, c in cells] if spread else None
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
            "spread": {
                "text": str(spread), "digits": spread.digits, "copies": spread.copies,
                "each": spread.each,
            } if spread else None,
            "why": why["rule"], "places": why["places"],
        }  # fmt: skip

    def explore(self) -> Any:
        """The interactive view of it."""
        from septran.views.live import explore

        return explore(self)

    @property
    def summary(self) -> str:
        """The layout in one line."""
        return str(self.spread) if self.spread else f"{self.buffer.layout} layout"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from septran.views.maps.layout_picture import layout_panel

        del include, exclude
        return {"text/html": str(layout_panel(self)), "text/plain": str(self)}

    def __str__(self) -> str:
        rows, columns = (min(n, 16) for n in self.window)
        return "\n".join([self._title(), *(self._row(row, columns) for row in range(rows))]) + "\n"

    def _title(self) -> str:
        what = (
            "each element's thread:number" if self.spread else "each element's place, in elements"
        )
        return f"{self.buffer.name}: {self.spread or self.buffer.layout}; {what}"

    def _row(self, row: int, columns: int) -> str:
        if self.spread is None:
            width = itemsize(self.buffer.dtype)
            return " ".join(f"{self.offset(row, column) // width:5d}" for column in range(columns))
        owners = (self.spread.owner(self.coordinates(row, column)) for column in range(columns))
        return " ".join(f"{thread:4d}:{place:<3d}" for thread, place in owners).rstrip()


def layout_map(program: TileProgram, name: str, holdings: Sequence[Any] = ()) -> LayoutMap:
    """The layout of a buffer of a program; `holdings` are what a GPU's code generator says."""
    try:
        buffer = program.buffer(name)
    except KeyError as error:
        names = [b.name for b in program.buffers]
        raise NoSuchBufferError(f"no buffer {name!r}", hint=nearest(name, names)) from error
    machine = program.machine
    banked = backend_of(machine.backend).banked and buffer.memory != machine.main_memory.name
    found = next((Spread.of(h, buffer) for h in holdings if h.buffer == name), None)
    # What threads hold in registers has no address, thus no bank.
    banked = banked and found is None and buffer.memory != "REGISTER"
    return LayoutMap(buffer, machine.name, found, banked=banked)
