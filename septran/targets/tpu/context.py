"""What the code of one kernel knows: its buffers, their room, names, indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from septran.ir.index import Index
from septran.targets.lower.python_indices import PythonIndices
from septran.targets.tpu import element_types
from septran.targets.tpu.access import TilePart, parts
from septran.targets.tpu.writer import PallasWriter
from septran.tile.nodes import Buffer, Region, TileProgram

Pads = tuple[tuple[int, int], ...]
"""The elements before and behind each axis that a tensor is padded by."""


@dataclass
class Context:
    """The state of one kernel's code."""

    program: TileProgram
    writer: PallasWriter
    indices: PythonIndices
    pads: Mapping[str, Pads]
    """The padding of buffers, so that whole tiles can be moved."""
    names: dict[str, str] = field(default_factory=dict)
    """What each buffer, channel and scalar is called."""
    used: set[str] = field(default_factory=set)
    """The functions of the prelude that the code calls."""

    def buffer(self, name: str) -> Buffer:
        """A buffer of the program."""
        return self.program.buffer(name)

    def in_hbm(self, name: str) -> bool:
        """Whether a buffer is in main memory, which only DMA reaches."""
        return self.buffer(name).memory == self.program.machine.main_memory.name

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of a buffer with its padding."""
        return padded(self.buffer(name), self.pads)

    def helper(self, name: str) -> str:
        """A function of the prelude, which the module then has."""
        self.used.add(name)
        return name

    def at(
        self, region: Region, fixed: Mapping[int, Index], sizes: Sequence[int], *, value: bool
    ) -> tuple[str, list[int]]:
        """What stands in brackets after a buffer's name, and the view's axes in that order.

        `value` is of a read or write, ``.at[...]`` of a copy otherwise, which may be empty.
        """
        buffer = self.buffer(region.buffer)
        found, order = parts(region, fixed), [p.axis for p in parts(region, fixed)]
        entries = [
            self._entry(part, sizes, low, whole)
            for part, (low, _), whole in zip(
                found, self.pads[buffer.name], self.shape(buffer.name), strict=True
            )
        ]
        if not buffer.shape:  # one number, which is kept as an array of one
            entries, order = ["0"], []
        while entries and entries[-1] == ":":
            entries.pop()
        if buffer.stages > 1:
            entries.insert(0, self.indices.text(region.stage))
        text = ", ".join(entries) or ("..." if value else "")
        return text, [n for n in order if n is not None]

    def _entry(self, part: TilePart, sizes: Sequence[int], low: int, whole: int) -> str:
        start = self.indices.simple(part.start + low)
        if part.axis is None:
            return self.indices.text(start)
        size = sizes[part.axis]
        if start == Index() and size == whole and part.step == 1:
            return ":"
        step = f", stride={part.step}" if part.step > 1 else ""
        return f"pl.ds({self.indices.text(start)}, {size}{step})"

    def constant(self, value: float | int | bool, dtype: str) -> str:
        """A number as Python writes it."""
        if isinstance(value, bool) or dtype == "bool":
            return str(bool(value))
        number = float(value) if dtype.startswith(("float", "bfloat")) else int(value)
        if number != number:
            return "jnp.nan"
        if number in (float("inf"), float("-inf")):
            return "jnp.inf" if number > 0 else "-jnp.inf"
        return repr(number)

    def typed(self, value: float | int | bool, dtype: str) -> str:
        """A number of a type."""
        return f"{element_types.name(element_types.computed(dtype))}({self.constant(value, dtype)})"


def padded(buffer: Buffer, pads: Mapping[str, Pads]) -> tuple[int, ...]:
    """The extents of a buffer with its padding; one number is an array of one."""
    if not buffer.shape:
        return (1,)
    return tuple(
        extent + low + high
        for extent, (low, high) in zip(buffer.shape, pads[buffer.name], strict=True)
    )
