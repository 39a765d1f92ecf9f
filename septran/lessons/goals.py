"""The goals that lessons are made of: the reference, the ledger, the model, the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from septran.format_units import size_text, time_text
from septran.lessons.attempt import Attempt
from septran.lessons.lesson import Goal, Outcome
from septran.task import run
from septran.tile.ledger import HIDDEN, REMOVED

ORDERS: tuple[str | int, ...] = ("early", "late", 0)
"""When the interpreter lets asynchronous copies land."""


def right() -> Goal:
    """Every element is as exact as rounding allows, beside the sequential run of the logic."""

    def judge(attempt: Attempt) -> Outcome:
        return Outcome(attempt.check.right, str(attempt.check).splitlines()[0])

    return Goal("every element is right", judge, "the logic and its check say which are wrong")


def right_in_any_order() -> Goal:
    """The tile program gives the same bits whenever its copies land."""

    def judge(attempt: Attempt) -> Outcome:
        kernel = attempt.kernel
        inputs = tuple(kernel.sample().values())
        first, *others = (kernel.interpret(*inputs, order=order) for order in ORDERS)
        same = all(np.array_equal(first, other) for other in others)
        return Outcome(same, "the same bits" if same else "results differ with the order")

    return Goal("copies may land early, late or at random", judge)


def at_most_cycles(most: int, hint: str = "") -> Goal:
    """Simulated cycles of a DSA."""

    def judge(attempt: Attempt) -> Outcome:
        cycles = attempt.profile.cycles
        return Outcome(cycles <= most, f"{cycles:,} cycles")

    return Goal(f"at most {most:,} cycles", judge, hint)


def busy(queue: str, least: float, hint: str = "") -> Goal:
    """Return how much of the simulated time a DSA's queue works."""

    def judge(attempt: Attempt) -> Outcome:
        share = attempt.profile.utilisation.get(queue, 0.0)
        return Outcome(share >= least, f"{share:.0%} of the cycles")

    return Goal(f"{queue} works in at least {least:.0%} of the cycles", judge, hint)


def moves_at_most(most: int, hint: str = "") -> Goal:
    """Bytes that pass main memory, by the ledger."""

    def judge(attempt: Attempt) -> Outcome:
        ledger = attempt.ledger
        moved = ledger.main_memory_bytes
        return Outcome(moved <= most, f"{size_text(moved)}, {ledger.ratio:.1f} times the least")

    return Goal(f"at most {size_text(most)} to and from main memory", judge, hint)


def hides(*tensors: str, least: float = 0.75, hint: str = "") -> Goal:
    """The share of these tensors' bytes that travels behind computation, by the ledger.

    It is never all: the first tiles of a loop have nothing to hide behind.
    """

    def judge(attempt: Attempt) -> Outcome:
        rows = [r for r in attempt.ledger.rows if r.tensor in tensors]
        hidden = sum(r.total_bytes for r in rows if r.state == HIDDEN)
        every = sum(r.total_bytes for r in rows)
        share = hidden / every if every else 1.0
        return Outcome(share >= least, f"{share:.0%} hidden")

    text = f"at least {least:.0%} of the bytes of {' and '.join(tensors)} travel behind computation"
    return Goal(text, judge, hint)


def copies_nothing_of(tensor: str, hint: str = "") -> Goal:
    """A tensor is used where it is."""

    def judge(attempt: Attempt) -> Outcome:
        rows = [r for r in attempt.ledger.rows if r.tensor == tensor and r.state != REMOVED]
        found = "; ".join(f"{r.edge}, {r.trips:,} times" for r in rows) or "no copy"
        return Outcome(not rows, found)

    return Goal(f"{tensor} is not copied", judge, hint)


def predicted_at_most(seconds: float, hint: str = "") -> Goal:
    """The performance model's time."""

    def judge(attempt: Attempt) -> Outcome:
        found = attempt.explanation.prediction.seconds
        return Outcome(found <= seconds, time_text(found))

    return Goal(f"predicted to take at most {time_text(seconds)}", judge, hint)


def agrees(
    text: str,
    reference: Callable[..., Any],
    inputs: Callable[[], tuple[Any, ...]],
    within: float = 1e-9,
    dtype: str | None = "float64",
    hint: str = "",
) -> Goal:
    """The sequential run of the logic beside a function on NumPy arrays in float64.

    `within` is the greatest difference as a share of the greatest value; `dtype` is what the
    logic computes in, its own element types where None.
    """

    def judge(attempt: Attempt) -> Outcome:
        arrays = inputs()
        # An answer that overflows has a result to report, and needs no warning.
        with np.errstate(all="ignore"):
            found = np.asarray(run(attempt.logic, *arrays, dtype=dtype), np.float64)
            wanted = reference(*(x.astype(np.float64) for x in arrays))
            worst = float(np.abs(found - wanted).max() / np.abs(wanted).max())
        if not np.isfinite(worst):
            count = np.count_nonzero(~np.isfinite(found))
            return Outcome(reached=False, found=f"{count:,} elements are no number")
        return Outcome(worst <= within, f"differs by {worst:.1e} of the greatest value")

    return Goal(text, judge, hint)
