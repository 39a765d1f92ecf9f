"""The memory map as static HTML: a picture and a table a memory."""

from __future__ import annotations

from collections.abc import Iterator

from septran.format_units import size_text
from septran.views.maps.memory_map import HeldBuffer, MemoryMap
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
    table,
    tag,
)

WIDTH, ROW = 860, 22
"""Pixels: of a memory's addresses, of one buffer's height."""
_HUES = (colours.SKY, colours.ORANGE, colours.GREEN, colours.PURPLE, colours.YELLOW, colours.BLUE)


def memory_panel(found: MemoryMap) -> Markup:
    """Each planned memory against its capacity."""
    title = join([strong("Memory map"), f" of {found.program.name}"])
    if not found.memories:
        return panel(title, paragraph("no buffer has a planned address"))
    parts = [part for name in found.memories for part in _memory(found, name)]
    return panel(title, *parts)


def _memory(found: MemoryMap, name: str) -> Iterator[Markup]:
    limit, peak = found.capacity(name), found.peak(name)
    share = f" of {size_text(limit)} ({peak / limit:.0%})" if limit else ""
    yield paragraph(strong(name), f": {size_text(peak)} in use at most{share}")
    held = found.memories[name]
    names = ", ".join(h.buffer.name for h in held)
    yield picture(_svg(found, name), f"Addresses of {name}: {names}")
    rows = [
        (mono(h.buffer.name), f"{h.offset:,}", f"{h.size:,}", h.buffer.stages,
         f"{h.first} to {h.last}")
        for h in held
    ]  # fmt: skip
    head = ("buffer", "address", "bytes", "stages", "lines in use")
    yield table(head, rows, ("address", "bytes", "stages"))


def _svg(found: MemoryMap, name: str) -> str:
    """Addresses from left to right, a row for what must not lie on what is above."""
    held = found.memories[name]
    whole = found.capacity(name) or max(h.offset + h.size for h in held)
    height = ROW * len(held) + 4
    parts = [tag("rect", x=0, y=0, width=WIDTH, height=height, fill="#f1f1ec")]
    for row, one in enumerate(held):
        parts += _box(one, row, whole, _HUES[row % len(_HUES)])
    return tag(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH, height=height, role="img",
    )  # fmt: skip


def _box(held: HeldBuffer, row: int, whole: int, hue: colours.Colour) -> Iterator[Markup]:
    x, width = held.offset / whole * WIDTH, max(1.0, held.size / whole * WIDTH)
    yield tag(
        "rect", x=f"{x:.1f}", y=row * ROW + 2, width=f"{width:.1f}", height=ROW - 2,
        fill=hue.tint, stroke=hue.line,
    )  # fmt: skip
    inside = width > 8 * len(held.buffer.name)
    at = x + 6 if inside else min(x + width + 6, WIDTH - 8 * len(held.buffer.name))
    yield Markup(
        f'<text x="{at:.1f}" y="{row * ROW + 16}" font-size="11" font-family="monospace" '
        f'fill="{colours.INK}">{h(held.buffer.name)}</text>'
    )
