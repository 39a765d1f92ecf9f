"""Flags that are set as often as they are waited for."""

from __future__ import annotations

from septran.simulator.errors import FlagError
from septran.simulator.stream import Stream
from septran.simulator.timing.timeline import Timing


def check_balance(stream: Stream, timing: Timing) -> None:
    """Raise FlagError for a flag that stays set: the next kernel would find it."""
    for left in timing.left:
        raise FlagError(
            f"{stream.flag_name(left)} is set more often than it is waited for; "
            f"the first that nobody waits for is {stream.describe(left)}"
        )
