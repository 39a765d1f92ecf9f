"""A search that goes on beside the notebook, with its progress."""

from __future__ import annotations

from collections.abc import Callable

from septran.amounts import time_text
from septran.tuning.tuner import Search
from septran.tuning.tuning import Trial, Tuning, values_text
from septran.views.progress import Job, Progress, in_background


def tuning_job(found: Search) -> Job[Tuning]:
    """Begin it."""

    def work(progress: Progress, keep: Callable[[Tuning], None]) -> None:
        def told(so_far: Search, trial: Trial, total: int) -> None:
            progress.total = total
            if trial.kind != "ranked" or not found.measured:
                keep(so_far.result())
            progress.step(note(so_far.result()), kind=trial.kind)

        found.told = told
        found.worker.stopped = lambda: progress.cancelled
        keep(found.run())

    return in_background(
        work, f"tune {found.request.entry.name} on {found.request.mapping.machine.name}"
    )


def note(found: Tuning) -> str:
    """The best so far, in a few words."""
    best = found.ordered[:1]
    return f"best {time_text(best[0].cost or 0.0)}: {values_text(best[0].point)}" if best else ""
