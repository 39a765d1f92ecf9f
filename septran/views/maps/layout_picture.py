"""A layout as a static picture: the first elements, each with its thread or its banks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from septran.dtypes import itemsize
from septran.views.maps.layout_map import LayoutMap
from septran.views.pictures import colours
from septran.views.pictures.html import (
    Markup,
    h,
    join,
    mono,
    panel,
    paragraph,
    picture,
    strong,
    tag,
)

ROWS, COLUMNS = 16, 16
"""Cells of the picture at most; what lies beyond repeats it."""
CHUNK = 16
"""Bytes that stay next to each other in every swizzle."""
HIGH, TOP, LEFT = 19, 22, 34
NARROW, WIDE = 30, 52
TINTS = tuple(colour.tint for colour in colours.PALETTE[1:])


@dataclass(frozen=True)
class LayoutCell:
    """The drawing of an element, or of a chunk of several."""

    text: str
    hue: int


def layout_panel(found: LayoutMap) -> Markup:
    """The picture under what is shown."""
    buffer = found.buffer
    shape = ", ".join(map(str, buffer.shape))
    title = join([strong(buffer.name), f" {buffer.dtype}[{shape}] in {buffer.memory}"])
    notes = [found.summary, _legend(found)]
    body = [paragraph(" · ".join(notes)), picture(layout_svg(found), f"{found.summary} of {shape}")]
    if found.spread is not None and found.spread.digits:
        body.append(paragraph("fragment ", mono(found.spread.digits)))
    return panel(title, *body)


def _legend(found: LayoutMap) -> str:
    if found.spread is not None:
        return "each cell: thread and number among its elements"
    if found.banked:
        return f"each cell: the banks of {_step(found)} neighbours, of {found.banks[0]}"
    return "each cell: the element's place in memory"


def layout_svg(found: LayoutMap) -> str:
    """An SVG document of the first rows."""
    step, (rows, columns) = _step(found), found.window
    rows, across = min(rows, ROWS), min(-(-columns // step), COLUMNS)
    wide = NARROW if not found.spread and not found.banked else WIDE
    parts: list[Markup] = []
    for n in range(across):
        parts.append(_text(LEFT + n * wide + wide / 2, TOP - 7, str(n * step), colours.LINE))
    for row in range(rows):
        parts.append(_text(LEFT / 2, TOP + row * HIGH + 13, str(row), colours.LINE))
        for n, cell in enumerate(_cells(found, row, across, step)):
            parts += _drawn(cell, LEFT + n * wide, TOP + row * HIGH, wide)
    width, height = LEFT + across * wide + 4, TOP + rows * HIGH + 4
    text = tag(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", role="img", font_family="monospace",
        font_size=10, viewBox=f"0 0 {width} {height}", width=width, height=height,
    )  # fmt: skip
    return text.replace("font_family", "font-family").replace("font_size", "font-size")


def _step(found: LayoutMap) -> int:
    """Elements of one cell: a chunk where all of its elements lie side by side."""
    width = itemsize(found.buffer.dtype)
    step = max(1, CHUNK // width)
    rows, columns = found.window
    if found.spread is not None or not found.banked or columns % step:
        return 1
    starts = ((row, column) for row in range(min(rows, ROWS)) for column in range(0, columns, step))
    whole = all(
        found.offset(row, column + step - 1) == found.offset(row, column) + (step - 1) * width
        for row, column in starts
    )
    return step if whole else 1


def _cells(found: LayoutMap, row: int, across: int, step: int) -> Iterator[LayoutCell]:
    for n in range(across):
        if found.spread is not None:
            thread, place = found.spread.owner(found.coordinates(row, n))
            yield LayoutCell(f"{thread}:{place}", thread)
        elif found.banked:
            bank = found.bank(row, n * step)
            last = found.bank(row, n * step + step - 1)
            yield LayoutCell(f"{bank}–{last}" if last > bank else str(bank), bank * 4 // CHUNK)
        else:
            place = found.offset(row, n) // itemsize(found.buffer.dtype)
            yield LayoutCell(str(place), place // max(1, found.window[1]))


def _drawn(cell: LayoutCell, x: int, y: int, wide: int) -> Iterator[Markup]:
    fill = TINTS[cell.hue % len(TINTS)]
    yield tag("rect", x=x, y=y, width=wide - 1, height=HIGH - 1, fill=fill)
    yield _text(x + wide / 2, y + 13, cell.text, colours.INK)


def _text(x: float, y: float, text: str, fill: str) -> Markup:
    style = f'fill="{fill}" text-anchor="middle"'
    return Markup(f'<text x="{x:g}" y="{y:g}" {style}>{h(text)}</text>')
