"""The choices that hardware is free to make when it runs a tile program."""

from __future__ import annotations

from dataclasses import dataclass

from septran.argument_checks import WrongArgumentError, shown


@dataclass(frozen=True)
class Schedule:
    """Every choice that hardware is free to make."""

    landing: str = "early"
    """When an asynchronous copy lands: ``early`` (at once), ``late`` (when a wait forces
    it) or ``random``."""
    roles: str = "first"
    """Which role runs whenever it can: the ``first``, the ``last``, or a ``random`` one."""
    iterations: str = "forward"
    """Order of parallel iterations: ``forward``, ``reversed`` or ``shuffled``."""
    seed: int = 0

    @staticmethod
    def of(order: str | int | Schedule) -> Schedule:
        """From ``early``, ``late`` or a seed; raises WrongArgumentError."""
        match order:
            case Schedule():
                return order
            case str("early"):
                return Schedule()
            case str("late"):
                return Schedule("late", "last", "reversed")
            case int() if not isinstance(order, bool):
                return Schedule("random", "random", "shuffled", order)
        message = f"an order is 'early', 'late' or a seed, not {shown(order)}"
        raise WrongArgumentError(message, hint="write order='late', or order=3")


ADVERSARIES: tuple[Schedule, ...] = tuple(
    Schedule(landing, roles, iterations)
    for landing in ("early", "late")
    for roles in ("first", "last")
    for iterations in ("forward", "reversed")
)
"""The extreme schedules: a correct program gives the same under all of them."""
