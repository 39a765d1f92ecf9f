"""A journal as a table, and as HTML: the best, the model beside times, what each value did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

from septran.format_units import time_text
from septran.tuning.journal import Journal, JournalEntry
from septran.views.pictures.html import (
    Markup,
    faint,
    join,
    mono,
    panel,
    paragraph,
    picture,
    strong,
    table,
)
from septran.views.pictures.scatter import TimePoint, scatter_svg

if TYPE_CHECKING:
    import pandas as pd

FIGURES = ("logic", "machine", "kind", "predicted", "seconds", "cycles", "message", "host")


def journal_table(journal: Journal) -> pd.DataFrame:
    """One row an entry; each value of a mapping has a column of its own."""
    import pandas as pd

    rows = [{**{n: getattr(e, n) for n in FIGURES}, **e.point} for e in journal.entries]
    return pd.DataFrame(rows)


def journal_panel(journal: Journal) -> Markup:
    """For each logic and machine the best, how well it was predicted, and what values did."""
    entries = sorted(journal.entries, key=_subject)
    parts: list[object] = []
    for (logic, machine), some in groupby(entries, key=_subject):
        parts += _searched(f"{logic} on {machine}", list(some))
    title = join([strong("Journal"), f" {journal.path.name}: {len(entries)} candidates"])
    return panel(title, *parts)


def _subject(entry: JournalEntry) -> tuple[str, str]:
    return entry.logic, entry.machine


def _searched(name: str, entries: Sequence[JournalEntry]) -> Iterator[Markup]:
    timed = sorted((e for e in entries if e.seconds), key=_cost)
    yield paragraph(join([strong(name), f": {len(entries)} tried, {len(timed)} with a time"]))
    if not timed:
        return
    rows = [
        (time_text(_cost(e)), time_text(e.predicted) if e.predicted else "", mono(e.point_text))
        for e in timed[:10]
    ]
    yield table(("time", "by the model", "values"), rows, ("time", "by the model"))
    yield from _beside_the_model(name, timed)
    yield table(("value", "tried", "median", "best"), list(_effects(timed)), ("tried", "median"))


def _beside_the_model(name: str, timed: Sequence[JournalEntry]) -> Iterator[Markup]:
    """A picture of predicted and measured times, where there are two to compare."""
    points = [TimePoint(e.predicted, _cost(e), e.point_text) for e in timed if e.predicted]
    if len(points) > 1:
        title = f"{name}: predicted and measured times"
        yield picture(scatter_svg(points, title, "predicted", "measured"), title)
        yield faint(
            "Dashed: measured as predicted. Joined: no other candidate is both predicted and "
            "measured faster; where this is one point, the model would have chosen the best."
        )


def _cost(entry: JournalEntry) -> float:
    return entry.seconds or 0.0


def _effects(timed: Sequence[JournalEntry]) -> Iterator[tuple[object, ...]]:
    """For each value of each name how often it was tried, and the times with it."""
    found: dict[str, list[float]] = {}
    for entry in timed:
        for name, value in entry.point.items():
            found.setdefault(f"{name}={value}", []).append(_cost(entry))
    for name, times in sorted(found.items()):
        yield mono(name), len(times), time_text(median(times)), time_text(min(times))
