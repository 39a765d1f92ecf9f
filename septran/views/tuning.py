"""A search beside the notebook, and its result as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from septran.format_units import time_text
from septran.tuning.tuner import Search
from septran.tuning.tuning import KINDS, Trial, Tuning, values_text
from septran.views.pictures.colours import GREEN
from septran.views.pictures.html import (
    Markup,
    code,
    details,
    join,
    mono,
    panel,
    paragraph,
    strong,
    table,
    tag,
)
from septran.views.progress import Job, Progress, in_background

BAR_PIXELS = 160
MOST_ROWS = 100


def tuning_panel(tuning: Tuning) -> Markup:
    """Return what was tried, what came of it, and the file to keep."""
    part = "" if tuning.complete else " (stopped before its end)"
    title = join([strong("Search"), f" for {tuning.name} on {tuning.machine}{part}"])
    kinds = "; ".join(f"{n} {kind} ({KINDS[kind]})" for kind, n in tuning.counts.items())
    parts: list[object] = [paragraph(f"{tuning.space}: {kinds}")]
    if tuning.gain:
        parts.append(paragraph(strong(tuning.gain)))
    parts += _times(tuning)
    parts += _others(tuning)
    if tuning.ordered:
        parts.append(details("the best as a mapping file", code(tuning.to_yaml(), "yaml")))
    return panel(title, *parts)


def _times(tuning: Tuning) -> Iterator[Markup]:
    shown = tuning.ordered[:MOST_ROWS]
    if not shown:
        return
    most = max(trial.cost or 0.0 for trial in shown) or 1.0
    simulated = any(trial.cycles is not None for trial in shown)
    names = list(dict.fromkeys(name for trial in shown for name in trial.point))
    head = ["time" if tuning.measured else "time by the model", ""]
    head += ["cycles"] if simulated else []
    head += ["by the model"] if tuning.measured else []
    numbers = [title for title in head if title] + names
    yield table([*head, *names], [_row(t, tuning, most, simulated, names) for t in shown], numbers)


def _row(
    trial: Trial, tuning: Tuning, most: float, simulated: bool, names: list[str]
) -> list[object]:
    cost = trial.cost or 0.0
    style = f"width:{max(1, round(cost / most * BAR_PIXELS))}px;height:10px;"
    cells: list[object] = [time_text(cost), tag("div", style=f"{style}background:{GREEN.line};")]
    cells += [f"{trial.cycles:,}" if trial.cycles is not None else ""] if simulated else []
    if tuning.measured:
        cells.append("" if trial.predicted is None else time_text(trial.predicted))
    return [*cells, *(mono(str(trial.point.get(name, ""))) for name in names)]


def _others(tuning: Tuning) -> Iterator[Markup]:
    some = [t for t in tuning.trials if t.message]
    if some:
        rows = [(mono(values_text(t.point)), t.kind, t.message) for t in some[:MOST_ROWS]]
        yield details(f"without a time ({len(some)})", table(("values", "", "why"), rows))


def tuning_job(found: Search) -> Job[Tuning]:
    """Begin it."""

    def work(progress: Progress, keep: Callable[[Tuning], None]) -> None:
        def report(so_far: Search, trial: Trial, total: int) -> None:
            progress.total = total
            if trial.kind != "ranked" or not found.measured:
                keep(so_far.result())
            progress.step(note(so_far.result()), kind=trial.kind)

        found.report = report
        found.worker.stopped = lambda: progress.cancelled
        keep(found.run())

    return in_background(
        work, f"tune {found.request.entry.name} on {found.request.mapping.machine.name}"
    )


def note(found: Tuning) -> str:
    """The best so far, in a few words."""
    best = found.ordered[:1]
    return f"best {time_text(best[0].cost or 0.0)}: {values_text(best[0].point)}" if best else ""
