"""Two or more runs beside each other: what a change of the mapping bought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from septran.argument_checks import as_tuple, require
from septran.errors import TargetError
from septran.stage import Displayable, view
from septran.targets.dsa.profiles.profile import DsaProfile


class NothingToCompareError(TargetError):
    """A comparison of nothing, or with a title too few."""

    code = "SEP560"


@dataclass(frozen=True)
class ProfileComparison(Displayable):
    """Profiles with titles, the first of which the others are set beside."""

    profiles: tuple[DsaProfile, ...]
    titles: tuple[str, ...]

    def to_pandas(self) -> Any:
        """A row a profile: cycles, speed-up, utilisation of each queue, stalls, bytes."""
        return view(self, "table")

    def plot(self, end: int | None = None) -> Any:
        """A Matplotlib figure: the timelines one above the other, on one axis of cycles."""
        return view(self, "plot", end)

    def explore(self) -> Any:
        """The timelines as one interactive view, on one axis of cycles."""
        return view(self, "live")

    def to_dict(self) -> dict[str, Any]:
        """The profiles' figures by title."""
        pairs = zip(self.titles, self.profiles, strict=True)
        return {title: profile.to_dict() for title, profile in pairs}

    def __str__(self) -> str:
        rows = [["", *self.titles]]
        frame = self.to_pandas()
        for name in frame.columns:
            values = frame[name].tolist()
            rows.append([name.replace("_", " "), *(cell(name, value) for value in values)])
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        lines = []
        for label, *cells in rows:
            right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            lines.append("  ".join([label.ljust(widths[0]), *right]))
        return "\n".join(lines)


def compare_profiles(
    profiles: Sequence[DsaProfile], titles: Sequence[str] | None = None
) -> ProfileComparison:
    """Set profiles beside each other; `titles` default to their kernels' names, numbered."""
    hint = "write [one.profile(), other.profile()], with kernels of simulated machines"
    given = as_tuple("profiles", profiles, "[one.profile(), other.profile()]")
    for profile in given:
        require("a profile", profile, DsaProfile, hint)
    if not given:
        raise NothingToCompareError("no profiles are given", hint=hint)
    names = as_tuple("titles", titles, "['before', 'after']") or [
        f"{n}: {profile.name}" for n, profile in enumerate(given, 1)
    ]
    if len(names) != len(given):
        message = f"{len(given)} profiles have {len(names)} titles"
        raise NothingToCompareError(message, hint="give one title a profile, or none")
    return ProfileComparison(given, tuple(map(str, names)))


def cell(name: str, value: Any) -> str:
    """One figure of a comparison as text."""
    if value != value:  # what another machine's queue has, and this one's has not
        return ""
    if name in ("speedup", "of_bound"):
        return f"{value:.3f}"
    counts = name in ("cycles", "main_memory_bytes") or name.startswith("stall_")
    return f"{int(value):,}" if counts else f"{value:.1%}"
