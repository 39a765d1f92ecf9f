"""Layouts: where element (i, j, ...) of a buffer lies, in elements from its start."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from septran.task.index import Index, IndexLike

KINDS = ("row", "column", "padded", "panels", "fractal", "swizzle", "footprint")


@dataclass(frozen=True)
class Layout:
    """A bijection from coordinates to offsets, possibly with holes.

    ========== ============ ===========================================================
    kind       parameters   meaning
    ========== ============ ===========================================================
    row        ()           last axis contiguous
    column     ()           last two axes exchanged
    padded     (pad,)       row, with `pad` unused elements after each row
    panels     (axis, w)    axis cut into panels of w; within a panel w is contiguous
    fractal    (r, c)       last two axes cut into r x c blocks, blocks row by row
    swizzle    (bytes,)     row, with 16-byte chunks permuted by row within `bytes`
    footprint  (axes...)    the tensor's own elements around a view, its axes in that order;
                            `stage_footprints` makes it a row layout of that box
    ========== ============ ===========================================================
    """

    kind: str = "row"
    parameters: tuple[int, ...] = ()

    @staticmethod
    def parse(text: str) -> Layout:
        """From ``row``, ``padded(16)``, ``panels(1, 16)``, ``swizzle128``; ValueError else."""
        match = re.fullmatch(r"([a-z]+)\s*(?:\(([\d\s,]*)\)|(\d+))?", text.strip())
        if not match or match[1] not in KINDS:
            raise ValueError(f"unknown layout {text!r}; there are {', '.join(KINDS)}")
        numbers = tuple(int(n) for n in re.findall(r"\d+", match[2] or match[3] or ""))
        if match[1] == "footprint":
            return Layout(match[1], numbers)
        wanted = {"row": 0, "column": 0, "padded": 1, "swizzle": 1}.get(match[1], 2)
        if len(numbers) != wanted:
            raise ValueError(f"layout {match[1]} takes {wanted} number(s), not {len(numbers)}")
        return Layout(match[1], numbers)

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.parameters))
        return f"{self.kind}({inside})" if inside else self.kind

    def offset(
        self, coordinates: Sequence[IndexLike], shape: Sequence[int], itemsize: int = 1
    ) -> Index:
        """Elements from the buffer's start to the element at `coordinates`."""
        at = [Index.of(c) for c in coordinates]
        if self.kind == "swizzle":
            raise ValueError("a swizzle permutes bits: use swizzled_offset on integers")
        strided, sizes = self._split(at, list(shape))
        return _row_offset(strided, sizes)

    def swizzled_offset(
        self, coordinates: Sequence[int], shape: Sequence[int], itemsize: int
    ) -> int:
        """`offset` for integers, for every kind: swizzles exchange 16-byte chunks by row."""
        if self.kind != "swizzle":
            return self.offset(coordinates, shape).as_int()
        flat = _row_offset([Index.of(c) for c in coordinates], list(shape)).as_int()
        width = self.parameters[0]
        start = flat * itemsize
        chunk, row = (start % width) // 16, start // width
        return (start - chunk * 16 + (chunk ^ (row % (width // 16))) * 16) // itemsize

    def elements(self, shape: Sequence[int]) -> int:
        """Elements that a buffer of `shape` takes, holes included."""
        if math.prod(shape) == 0:
            return 0
        _, sizes = self._split([Index()] * len(shape), list(shape))
        return math.prod(sizes)

    def _split(self, at: list[Index], shape: list[int]) -> tuple[list[Index], list[int]]:
        """Coordinates and extents of the equivalent row-major array."""
        match self.kind, self.parameters:
            case "column", _:
                return [*at[:-2], at[-1], at[-2]], [*shape[:-2], shape[-1], shape[-2]]
            case "padded", (pad,):
                return at, [*shape[:-1], shape[-1] + pad]
            case "panels", (axis, width):
                rest = [n for n in range(len(at)) if n != axis]
                panels = -(-shape[axis] // width)
                coordinates = [at[axis] // width, *(at[n] for n in rest), at[axis] % width]
                return coordinates, [panels, *(shape[n] for n in rest), width]
            case "fractal", (rows, columns):
                i, j = at[-2], at[-1]
                blocks = [-(-shape[-2] // rows), -(-shape[-1] // columns)]
                inner = [i // rows, j // columns, i % rows, j % columns]
                return [*at[:-2], *inner], [*shape[:-2], *blocks, rows, columns]
            case _:
                return at, shape


ROW = Layout()


def _row_offset(at: list[Index], shape: list[int]) -> Index:
    total, stride = Index(), 1
    for coordinate, extent in zip(reversed(at), reversed(shape), strict=True):
        total, stride = total + coordinate * stride, stride * extent
    return total
