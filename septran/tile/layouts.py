"""Layouts: the place of element (i, j, ...) of a buffer, in elements from its start."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from septran.ir.index import Index, IndexLike

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
    panels     (axis, w, g) the same with groups of g along the last other axis: of each of w
                            g elements side by side, the last group filled up
    panels     (a, w, g, r) likewise, with groups that begin anew after every r elements: the
                            last group of each of these runs is filled up
    panels     (axis,)      of what size the instruction says that reads them: `infer_layouts`
    fractal    (r, c)       last two axes cut into r x c blocks, blocks row by row
    swizzle    (bytes,)     last axis cut into panels of `bytes` (32, 64 or 128), each with
                            its rows one after another; 16-byte chunks permuted by row
    footprint  (axes...)    the tensor's own elements around a view, its axes in that order;
                            `stage_footprints` makes it a row layout of that box
    ========== ============ ===========================================================

    A swizzle is that of NVIDIA's hardware, a permutation of address bits: of the address
    in a panel (from a multiple of 1,024) bits 4 and up are exchanged by bits 7 and up.
    """

    kind: str = "row"
    parameters: tuple[int, ...] = ()

    @staticmethod
    def parse(text: str) -> Layout:
        """Return the layout of ``row``, ``padded(16)``, ``panels(1)``, ``swizzle128``.

        Raises ValueError for other texts.
        """
        match = re.fullmatch(r"([a-z]+)\s*(?:\(([\d\s,]*)\)|(\d+))?", text.strip())
        if not match or match[1] not in KINDS:
            raise ValueError(f"unknown layout {text!r}; there are {', '.join(KINDS)}")
        numbers = tuple(int(n) for n in re.findall(r"\d+", match[2] or match[3] or ""))
        if match[1] == "footprint":
            return Layout(match[1], numbers)
        wanted = _PARAMETERS[match[1]]
        if len(numbers) not in wanted:
            words = " or ".join(map(str, wanted))
            raise ValueError(f"layout {match[1]} takes {words} number(s), not {len(numbers)}")
        # The first number of panels is an axis, which may well be 0.
        if match[1] in ("panels", "fractal") and 0 in numbers[match[1] == "panels" :]:
            raise ValueError(f"layout {text.strip()} cuts into parts of no elements")
        if match[1] == "swizzle" and numbers[0] not in (32, 64, 128):
            raise ValueError(f"a swizzle is of 32, 64 or 128 bytes, not {numbers[0]}")
        return Layout(match[1], numbers)

    @staticmethod
    def aligned(row_bytes: int, alignment: int, itemsize: int) -> Layout:
        """Return rows that each begin at a multiple of `alignment` bytes."""
        pad = -row_bytes % alignment // itemsize
        return Layout("padded", (pad,)) if pad else Layout()

    @property
    def open(self) -> bool:
        """Whether it is of panels whose size the instruction that reads them decides."""
        return self.kind == "panels" and len(self.parameters) == 1

    @property
    def group(self) -> int:
        """The number of elements of a row that panels hold side by side; 1 without groups."""
        return self.parameters[2] if self.kind == "panels" and len(self.parameters) > 2 else 1

    @property
    def run(self) -> int:
        """The number of elements after which groups begin anew; 0 where they never do."""
        return self.parameters[3] if self.kind == "panels" and len(self.parameters) > 3 else 0

    @property
    def least_rank(self) -> int:
        """The least number of axes of a buffer with this layout."""
        if self.kind == "panels":
            return max(self.parameters[0] + 1, 2 if self.group > 1 else 1)
        return {"column": 2, "fractal": 2, "padded": 1, "swizzle": 1}.get(self.kind, 0)

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.parameters))
        return f"{self.kind}({inside})" if inside else self.kind

    def offset(
        self, coordinates: Sequence[IndexLike], shape: Sequence[int], itemsize: int = 1
    ) -> Index:
        """Return the elements from the buffer's start to the element at `coordinates`."""
        at = [Index.of(c) for c in coordinates]
        if self.kind == "swizzle":
            raise ValueError("a swizzle permutes bits: use swizzled_offset on integers")
        strided, sizes = self._split(at, list(shape))
        return _row_offset(strided, sizes)

    def swizzled_offset(
        self, coordinates: Sequence[int], shape: Sequence[int], itemsize: int
    ) -> int:
        """Return `offset` for integer coordinates and every kind of layout."""
        if self.kind != "swizzle":
            return self.offset(coordinates, shape).as_int()
        width = self.parameters[0]
        row = 0
        for coordinate, extent in zip(coordinates[:-1], shape[:-1], strict=True):
            row = row * extent + coordinate
        panel, within = divmod(coordinates[-1] * itemsize, width)
        start = panel * self.panel_bytes(shape) + row * width + within
        return swizzled(start, width) // itemsize

    def panel_bytes(self, shape: Sequence[int]) -> int:
        """The bytes from one panel of a swizzle to the next: whole periods of its pattern."""
        size = math.prod(shape[:-1]) * self.parameters[0]
        return -(-size // SWIZZLE_PERIOD) * SWIZZLE_PERIOD

    def elements(self, shape: Sequence[int], itemsize: int = 1) -> int:
        """Return the elements that a buffer of `shape` takes, holes included."""
        if math.prod(shape) == 0:
            return 0
        if self.kind == "swizzle":
            panels = -(-shape[-1] * itemsize // self.parameters[0])
            return panels * self.panel_bytes(shape) // itemsize
        _, sizes = self._split([Index()] * len(shape), list(shape))
        return math.prod(sizes)

    def _split(self, at: list[Index], shape: list[int]) -> tuple[list[Index], list[int]]:
        """Return coordinates and extents of the equivalent row-major array."""
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
            case "panels", (axis, width, group):
                *outer, deep = (n for n in range(len(at)) if n != axis)
                sizes = [-(-shape[axis] // width), *(shape[n] for n in outer)]
                coordinates = [at[axis] // width, *(at[n] for n in outer), at[deep] // group]
                coordinates += [at[axis] % width, at[deep] % group]
                return coordinates, [*sizes, -(-shape[deep] // group), width, group]
            case "panels", (axis, width, group, run):
                *outer, deep = (n for n in range(len(at)) if n != axis)
                sizes = [-(-shape[axis] // width), *(shape[n] for n in outer)]
                within = at[deep] % run
                coordinates = [at[axis] // width, *(at[n] for n in outer), at[deep] // run]
                coordinates += [within // group, at[axis] % width, within % group]
                sizes += [-(-shape[deep] // run), -(-run // group)]
                return coordinates, [*sizes, width, group]
            case "fractal", (rows, columns):
                i, j = at[-2], at[-1]
                blocks = [-(-shape[-2] // rows), -(-shape[-1] // columns)]
                inner = [i // rows, j // columns, i % rows, j % columns]
                return [*at[:-2], *inner], [*shape[:-2], *blocks, rows, columns]
            # Row, and for now open panels and footprints, too, which passes settle later.
            case _:
                return at, shape


_PARAMETERS = {
    "row": (0,), "column": (0,), "padded": (1,), "swizzle": (1,), "panels": (1, 2, 3, 4),
    "fractal": (2,),
}  # fmt: skip
"""The number of arguments that each kind takes."""
ROW = Layout()
SWIZZLE_PERIOD = 1024
"""The number of bytes after which the pattern of a swizzle repeats, whatever its width."""


def swizzled(address: int, width: int) -> int:
    """Return the address in a swizzle of 32, 64 or 128 bytes for the byte at `address`."""
    # CUTLASS calls these Swizzle<3, 4, 3>, <2, 4, 3> and <1, 4, 3>, for 128, 64 and 32 bytes.
    chunks = width // 16 - 1
    return address ^ ((address >> 7 & chunks) << 4)


def widest_swizzle(row_bytes: int, most: int = 128) -> Layout:
    """Return the widest swizzle whose panels rows of that length fill, else the narrowest wider."""
    fits = [w for w in (128, 64, 32) if w <= most and row_bytes % w == 0]
    wider = [w for w in (32, 64, 128) if w <= most and w >= row_bytes]
    return Layout("swizzle", ((fits or wider or [most])[0],))


def _row_offset(at: list[Index], shape: list[int]) -> Index:
    total, stride = Index(), 1
    for coordinate, extent in zip(reversed(at), reversed(shape), strict=True):
        total, stride = total + coordinate * stride, stride * extent
    return total
