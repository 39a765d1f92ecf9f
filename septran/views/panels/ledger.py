"""The data-movement ledger as HTML: each copy, the sums by memory edge, the least there is."""

from __future__ import annotations

from septran.format_units import size_text
from septran.tile.ledger import REMOVED, Entry, Ledger
from septran.views.pictures.colours import GREEN, GREY, VERMILION
from septran.views.pictures.html import (
    Markup,
    chip,
    details,
    faint,
    join,
    mono,
    panel,
    paragraph,
    strong,
    table,
    tag,
)
from septran.views.text.movements import place_text

_COLOURS = {"hidden": GREEN, "exposed": VERMILION}


def ledger_html(ledger: Ledger) -> Markup:
    """The ledger under its title."""
    return panel(join([strong("Data movement"), " of ", ledger.name]), ledger_panel(ledger))


def ledger_panel(ledger: Ledger) -> Markup:
    """Rows in program order, removed copies last, then the sums."""
    if not ledger.rows:
        return paragraph(f"{ledger.name} copies nothing: every tensor is used where it is")
    head = ("tensor", "edge", "bytes", "trips", "total", "engine", "state", "because")
    sums = [(edge, size_text(count)) for edge, count in ledger.edges.items()]
    words = (
        f"{ledger.main_memory} traffic {size_text(ledger.main_memory_bytes)}, "
        f"{ledger.ratio:.2f} times the compulsory traffic ({size_text(ledger.least_bytes)})"
    )
    parts = [
        paragraph(words),
        table(head, [_row(row) for row in ledger.rows], head[2:5]),
        table(("edge", "bytes"), sums, ("bytes",)),
    ]
    if ledger.in_place:
        parts.append(paragraph("used in place: ", mono(", ".join(ledger.in_place))))
    return join(parts)


def _row(row: Entry) -> tuple[object, ...]:
    removed = row.state == REMOVED
    total = f"-{size_text(row.saved_bytes)}" if removed else size_text(row.total_bytes)
    state = chip(f"removed by {row.by}" if removed else row.state, _COLOURS.get(row.state, GREY))
    edge = tag("span", row.edge, style="white-space:nowrap;")
    places = table(
        ("", ""),
        [
            ("logic", mono(place_text(row.logic))),
            ("mapping", mono(place_text(row.mapping))),
        ],
    )
    return (
        mono(row.tensor), edge, size_text(row.bytes), f"{row.trips:,}", total,
        mono(row.engine), state, details(faint(row.reason), places),
    )  # fmt: skip
