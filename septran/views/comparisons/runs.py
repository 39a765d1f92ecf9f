"""Runs of the compared kernels: what was measured, or why nothing could be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from septran.errors import SepTranError
from septran.views.pictures.html import Markup, join, paragraph, strong

Make = Callable[[], Any]
"""Compiles the kernel of one mapping."""


@dataclass(frozen=True)
class Ran:
    """One kernel's profile, or the reason why there is none."""

    profile: Any = None
    """A `Profile`, or a `DsaProfile` where a machine is simulated; None without a run."""
    reason: str = ""

    @property
    def seconds(self) -> float | None:
        """The seconds of one call: the median, or simulated cycles at the machine's clock."""
        if self.profile is None:
            return None
        found = self.profile.median if self.cycles is None else self.profile.seconds
        return float(found)

    @property
    def cycles(self) -> int | None:
        """The cycles of a simulated run; None for other runs."""
        return getattr(self.profile, "cycles", None)

    @property
    def flops_per_second(self) -> float | None:
        """Operations that were carried out a second."""
        return None if self.profile is None else float(self.profile.flops_per_second)


def run(make: Make) -> Ran:
    """Compile and profile on random tensors; what cannot run here says why."""
    try:
        return Ran(make().profile())
    except SepTranError as error:
        return Ran(reason=error.message)
    except (ImportError, OSError) as error:
        return Ran(reason=f"{type(error).__name__}: {error}")


def timelines(names: Sequence[str], runs: Sequence[Ran]) -> Markup:
    """The lanes of every simulated run, one above the other on one axis; empty without any."""
    from septran.views.dsa.profile_panel import timeline_picture

    last = max((ran.cycles or 0 for ran in runs), default=0)
    parts: list[Markup] = []
    for name, ran in zip(names, runs, strict=False):
        if ran.cycles and hasattr(ran.profile, "lanes"):
            parts += [paragraph(strong(name)), timeline_picture(ran.profile, last)]
    return join(parts)
