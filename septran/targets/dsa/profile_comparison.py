"""Two or more runs beside each other: what a change of the mapping bought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from septran.errors import TargetError
from septran.stage import Shown
from septran.targets.dsa.profile import DsaProfile

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class NothingToCompareError(TargetError):
    """A comparison of no profiles, or with a title too few."""

    code = "SEP560"


@dataclass(frozen=True)
class ProfileComparison(Shown):
    """Profiles with titles, the first of which the others are set beside."""

    profiles: tuple[DsaProfile, ...]
    titles: tuple[str, ...]

    def to_pandas(self) -> pandas.DataFrame:
        """One row a profile: cycles, speed-up, utilisation of each queue, stalls, bytes."""
        import pandas as pd

        return pd.DataFrame([self._row(n) for n in range(len(self.profiles))], index=self.titles)

    def _row(self, number: int) -> dict[str, Any]:
        one, first = self.profiles[number], self.profiles[0]
        return {
            "cycles": one.cycles,
            "speedup": first.cycles / one.cycles if one.cycles else float("nan"),
            **({} if one.of_bound is None else {"of_bound": one.of_bound}),
            **one.utilisation,
            **{f"stall_{cause}": cycles for cause, cycles in one.stalls.items()},
            "main_memory_bytes": one.main_memory_bytes,
        }

    def plot(self, end: int | None = None) -> Figure:
        """The timelines one above the other, on one axis of cycles."""
        from matplotlib.figure import Figure

        heights = [1.0 + 0.42 * len(profile.lanes) for profile in self.profiles]
        figure = Figure(figsize=(10, sum(heights) + 0.3), layout="constrained")
        axes = figure.subplots(
            len(heights), sharex=True, squeeze=False, height_ratios=heights
        )[:, 0]  # fmt: skip
        last = end or max(profile.cycles for profile in self.profiles)
        for one, title, place in zip(self.profiles, self.titles, axes, strict=True):
            one.plot(place, end=last)
            place.set_title(f"{title}: {one.cycles:,} cycles", loc="left")
            place.axvline(one.cycles, color="#1b1b1b", linewidth=1, linestyle=":")
        for place in axes[:-1]:
            place.set_xlabel("")
        return figure

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
    if not profiles:
        raise NothingToCompareError("no profiles are given", hint="pass a list of profiles")
    names = titles or [f"{n}: {profile.name}" for n, profile in enumerate(profiles, 1)]
    if len(names) != len(profiles):
        message = f"{len(profiles)} profiles have {len(names)} titles"
        raise NothingToCompareError(message, hint="give one title a profile, or none")
    return ProfileComparison(tuple(profiles), tuple(names))


def cell(name: str, value: Any) -> str:
    """One figure of a comparison as text."""
    if value != value:  # what another machine's queue has, and this one's has not
        return ""
    if name in ("speedup", "of_bound"):
        return f"{value:.3f}"
    counts = name in ("cycles", "main_memory_bytes") or name.startswith("stall_")
    return f"{int(value):,}" if counts else f"{value:.1%}"
