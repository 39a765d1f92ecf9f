"""Decisions of the resolution and remarks of the passes: what, why, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from septran.mapping.resolved import Decision
from septran.tile.nodes import Remark
from septran.views.pictures.colours import GREY, SKY, VERMILION
from septran.views.pictures.html import Markup, chip, faint, join, mono, table

Noted = Decision | Remark

_ORDER = ("unchecked", "missed", "no-effect", "decision")
_COLOURS = {"unchecked": VERMILION, "missed": VERMILION, "no-effect": GREY, "decision": SKY}


def ordered(remarks: Iterable[Noted]) -> list[Noted]:
    """Return remarks by kind: unchecked, missed, without effect, mere decisions."""
    return sorted(remarks, key=lambda r: _ORDER.index(r.kind) if r.kind in _ORDER else 9)


def remarks_table(remarks: Sequence[Noted]) -> Markup:
    """One row a remark."""
    rows = []
    for remark in ordered(remarks):
        kind = chip(remark.kind, _COLOURS.get(remark.kind, GREY))
        message = join([remark.message, *_hint(remark)])
        where = str(remark.where) if remark.where else ""
        rows.append((kind, mono(remark.about), message, faint(_author(remark)), faint(where)))
    return table(("kind", "about", "what and why", "by", "line"), rows)


def remarks_text(remarks: Iterable[Noted]) -> str:
    """One or two lines a remark."""
    lines = []
    for remark in ordered(remarks):
        where = f" [{remark.where}]" if remark.where else ""
        lines.append(f"{remark.kind}: {remark.about}: {remark.message}{where}")
        if remark.hint:
            lines.append(f"    try: {remark.hint}")
    return "\n".join(lines) + "\n" if lines else "no remarks\n"


def _hint(remark: Noted) -> tuple[object, ...]:
    return (". Try: ", mono(remark.hint)) if remark.hint else ()


def _author(remark: Noted) -> str:
    return remark.passed if isinstance(remark, Remark) else "resolve"
