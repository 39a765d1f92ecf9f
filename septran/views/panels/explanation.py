"""An explanation as HTML: folded in a notebook, or a page of its own."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from septran.format_units import time_text
from septran.tile.pipeline import PassResult
from septran.timing.schedule import UnitSchedule
from septran.tuning.model import Prediction
from septran.views.explanation import Explanation, Unavailable
from septran.views.panels.ledger import ledger_panel
from septran.views.pictures.html import (
    Markup,
    code,
    details,
    diff,
    join,
    mono,
    panel,
    paragraph,
    strong,
    table,
)
from septran.views.pictures.page import Section, page
from septran.views.stages import TITLES, stage_panel
from septran.views.text.remarks import remarks_table
from septran.views.text.report import amount_text


def explanation_panel(explanation: Explanation) -> Markup:
    """All parts folded, what limits the kernel open."""
    title = join([strong(explanation.name), " on ", explanation.mapping.machine.name])
    sections = _sections(explanation)
    return panel(title, *(details(s.title, s.body, open=s.open) for s in sections))


def explanation_page(explanation: Explanation) -> str:
    """One self-contained document."""
    title = f"{explanation.name} on {explanation.mapping.machine.name}"
    tree = explanation.task_tree
    dims = ", ".join(f"{name} = {extent}" for name, extent in tree.dims)
    files = " and ".join(filter(None, (tree.file, explanation.mapping.file)))
    lead = paragraph(", ".join(filter(None, (dims, files))))
    return page(title, lead, _sections(explanation))


def _sections(explanation: Explanation) -> list[Section]:
    sections = [
        Section("limits", "What limits it", limits_panel(explanation.prediction), open=True)
    ]
    for number, (name, stage) in enumerate(explanation.stages(), 1):
        title = f"{number}. {TITLES[name]}"
        sections.append(Section(name, title, _stage(stage), open=name == "task_tree"))
    sections.append(Section("passes", "Pass by pass", passes_panel(explanation.passes)))
    sections.append(Section("ledger", "Data movement", ledger_panel(explanation.ledger)))
    if explanation.remarks:
        title = f"Remarks ({len(explanation.remarks)})"
        sections.append(Section("remarks", title, remarks_table(explanation.remarks), open=True))
    sections.append(Section("report", "Report", code(explanation.report())))
    return sections


def _stage(stage: Any) -> Markup:
    return paragraph(stage) if isinstance(stage, Unavailable) else stage_panel(stage)


def passes_panel(steps: Sequence[PassResult]) -> Markup:
    """The tile program as it was made, then what each pass changed in it."""
    parts = [details(_heading(steps[0], ""), code(str(steps[0].program), "python"))]
    for before, after in pairwise(steps):
        lines = difflib.unified_diff(
            str(before.program).splitlines(), str(after.program).splitlines(),
            before.name, after.name, lineterm="", n=2,
        )  # fmt: skip
        text = "\n".join(lines)
        if text:
            parts.append(details(_heading(after, ""), diff(text)))
        else:
            parts.append(paragraph(_heading(after, " (no change)")))
    return join(parts)


def _heading(step: PassResult, note: str) -> Markup:
    return join([mono(step.name), f": {step.summary}{note}"])


UNITS = {"compute": "op", "edge": "B", "memory": "B"}
"""Of what a resource does a second, by its kind."""


def _overlapping(prediction: Prediction) -> str:
    """What the prediction takes for granted; some know what overlaps."""
    known = prediction.total is not None or prediction.schedule is not None
    return "" if known else " where everything overlaps"


def _unit_table(schedule: UnitSchedule) -> list[Markup]:
    """What each unit does in the schedule, and for what it waits."""
    rows = [
        (unit.name, f"{unit.busy:,}", f"{unit.busy / schedule.cycles:.0%}", f"{unit.first:,}",
         f"{unit.last:,}", ", ".join(f"{name} {n:,}" for name, n in unit.waits if n))
        for unit in schedule.units
    ]  # fmt: skip
    head = ("unit", "busy, cycles", "of all", "first at", "last until", "waits for")
    return [table(head, rows, head[1:5])]


def limits_panel(prediction: Prediction) -> Markup:
    """The busiest resource first, with what the model assumes."""
    rows = []
    for limit in prediction.limits:
        share = limit.seconds / prediction.seconds if prediction.seconds else 0.0
        rate = limit.rate
        rows.append(
            (
                limit.name, amount_text(limit), time_text(limit.seconds), f"{share:.0%}",
                f"{rate / 1e9:,.4g} G{UNITS[limit.kind]}/s" if rate and limit.kind in UNITS else "",
            )
        )  # fmt: skip
    head = ("resource", "amount", "busy for", "of the longest", "at most")
    words = (
        f"predicted {time_text(prediction.seconds)}{_overlapping(prediction)}, "
        f"{time_text(prediction.without_overlap)} where nothing overlaps; "
        f"{prediction.units_used} of {prediction.units} units have work"
    )
    notes = [paragraph(f"assumed: {note}") for note in prediction.notes]
    bound = [paragraph(prediction.bound)] if prediction.bound is not None else []
    bound += _unit_table(prediction.schedule) if prediction.schedule is not None else []
    return join(
        [paragraph(words), *bound, table(head, rows, head[1:]), details("assumptions", *notes)]
    )
