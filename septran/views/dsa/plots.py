"""Profiles as Matplotlib drawings: the timeline by lanes, and the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from septran.targets.dsa.profiles.lanes import NAMES, waits, working

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from septran.targets.dsa.profiles.comparison import ProfileComparison
    from septran.targets.dsa.profiles.profile import DsaProfile

KINDS = {"in": "#0072b2", "out": "#c04f00", "matrix": "#00795a", "vector": "#b87a00"}
"""Okabe and Ito's hues: copies inwards, copies outwards, matrix unit, vector unit."""
TITLES = {"in": "copies in", "out": "copies out", "matrix": "matrix unit", "vector": "vector unit"}
WAIT = "#d0d0ca"
"""A lane that is held by a flag."""
INK = "#1b1b1b"
_MOST = 4000
"""Bars of a lane that are drawn; of more, only every second, third and so on."""


def plot_timeline(
    profile: DsaProfile, axes: Axes | None = None, start: int = 0, end: int | None = None
) -> Axes:
    """A bar a command, a lane a queue and core; what alternates in shade are neighbours."""
    end = profile.cycles if end is None else end
    rows = [(lane.core, lane.queue) for lane in profile.lanes]
    if axes is None:
        axes = _figure(10, 1.2 + 0.42 * max(1, len(rows)))
    kinds = kinds_of(profile)
    used: dict[str, None] = {}
    trace, works = profile.run.trace, working(profile.run.trace)
    many = len({core for core, _ in rows}) > 1
    for row, (core, queue) in enumerate(rows):
        number = profile.run.queues.index(queue)
        seen = (trace["end"] >= start) & (trace["start"] <= end)
        mine = (trace["core"] == core) & (trace["queue"] == number) & seen
        held = waits(trace[mine])
        if len(held):
            used["wait"] = None
            axes.broken_barh(_spans(held), (row - 0.12, 0.24), facecolors=WAIT, linewidth=0)
        for kind in sorted(set(kinds[mine & works])):
            used[kind] = None
            bars = trace[mine & works & (kinds == kind)]
            _bars(axes, row, bars, KINDS[kind])
    axes.set_yticks(range(len(rows)), [f"core {c} {q}" if many else q for c, q in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(start, max(end, start + 1))
    axes.set_xlabel("cycles")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.set_title(f"{profile.name} on {profile.machine}: {profile.cycles:,} cycles", loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    _legend(axes, used)
    return axes


def _bars(axes: Axes, row: int, records: Any, colour: str) -> None:
    """Commands of one kind: each in its colour, every other one paler, so that tiles show."""
    spans = np.stack([records["start"], records["end"]], axis=1)
    if len(spans) > _MOST:  # no screen has as many columns
        spans = spans[:: -(-len(spans) // _MOST)]
    # Commands of one queue may be under way at a time: they then lie one above the other.
    overlap = len(spans) > 1 and bool((spans[1:, 0] < spans[:-1, 1]).any())
    for parity, strength in ((0, 1.0), (1, 0.6)):
        low, high = (-0.38, 0.76) if not overlap else ((-0.38, 0.0)[parity], 0.38)
        axes.broken_barh(
            _spans(spans[parity::2]), (row + low, high),
            facecolors=colour, alpha=strength, linewidth=0,
        )  # fmt: skip


def _spans(pairs: Any) -> Sequence[tuple[float, float]]:
    return [(float(a), float(b - a)) for a, b in pairs]


def _legend(axes: Axes, used: dict[str, None]) -> None:
    from matplotlib.patches import Patch

    marks: list[Any] = [
        Patch(facecolor=colour, label=TITLES[kind])
        for kind, colour in KINDS.items()
        if kind in used
    ]
    if "wait" in used:
        marks.append(Patch(facecolor=WAIT, label="waits for a flag"))
    if marks:
        axes.legend(
            handles=marks, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8
        )


def kinds_of(profile: DsaProfile) -> Any:
    """Return what each command is, as a key of `KINDS`; empty for flags and syncs."""
    trace = profile.run.trace
    main = profile.run.machine.main_memory.name
    edges = profile.movement.edge.astype(str)
    names = np.array(NAMES)[trace["command"]]
    kinds = np.where(np.char.startswith(names, "vec_"), "vector", "").astype("U8")
    kinds[names == "mma"] = "matrix"
    copies = np.char.startswith(names, "dma_")
    # The edge of a copy that writes zeros is the memory that gets them.
    outwards = (edges == main) | np.char.endswith(edges, f"-> {main}")
    kinds[copies] = np.where(outwards[copies], "out", "in")
    return kinds


def plot_roofline(profile: DsaProfile, axes: Axes | None = None) -> Axes:
    """The machine's roofs, and where the run is below them, on logarithmic axes."""
    axes = axes or _figure(6.5, 4.2)
    at = profile.intensity if np.isfinite(profile.intensity) else 1.0
    compute = [roof for roof in profile.roofs if roof.kind == "compute"]
    memory = [roof for roof in profile.roofs if roof.kind == "memory"]
    slope = min((roof.per_second for roof in memory), default=None)
    top = max((roof.per_second for roof in compute), default=None)
    corner = top / slope if top and slope else at
    x = np.geomspace(min(at, corner) / 16, max(at, corner) * 16, 200)
    hues = (KINDS["matrix"], KINDS["vector"]) * len(compute)
    for roof, colour in zip(compute, hues[: len(compute)], strict=True):
        y = np.minimum(roof.per_second, slope * x) if slope else np.full(x.shape, roof.per_second)
        label = f"{roof.name}: {roof.per_second / 1e9:,.0f} GFLOP/s"
        axes.plot(x, y / 1e9, color=colour, linewidth=1.6, label=label)
    for roof in memory:
        axes.plot(
            x, roof.per_second * x / 1e9, color=KINDS["in"], linewidth=1.0, linestyle="--",
            label=f"{roof.name}: {roof.per_second / 1e9:,.0f} GB/s",
        )  # fmt: skip
    reached = profile.flops_per_second / 1e9
    axes.plot([at], [reached], "o", color=KINDS["out"], markersize=8, label=f"{profile.name}: "
              f"{reached:,.1f} GFLOP/s at {at:,.1f} FLOP/byte")  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    lowest = min([reached or 1.0, *(roof.per_second / 1e9 for roof in compute)])
    axes.set_ylim(lowest / 8, (top or 1e9) / 1e9 * 4)
    axes.set_xlabel("operations for each byte of main memory")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{profile.name} beside the roofs of {profile.machine}", loc="left")
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.legend(fontsize=8, loc="lower right")
    return axes


def plot_comparison(comparison: ProfileComparison, end: int | None = None) -> Figure:
    """The timelines one above the other, on one axis of cycles."""
    from matplotlib.figure import Figure

    profiles = comparison.profiles
    heights = [1.0 + 0.42 * len(profile.lanes) for profile in profiles]
    figure = Figure(figsize=(10, sum(heights) + 0.3), layout="constrained")
    axes = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    last = end or max(profile.cycles for profile in profiles)
    for one, title, place in zip(profiles, comparison.titles, axes, strict=True):
        plot_timeline(one, place, 0, last)
        place.set_title(f"{title}: {one.cycles:,} cycles", loc="left")
        place.axvline(one.cycles, color=INK, linewidth=1, linestyle=":")
    for place in axes[:-1]:
        place.set_xlabel("")
    return figure


def _figure(width: float, height: float) -> Axes:
    from matplotlib.figure import Figure  # without pyplot: nothing is kept or shown by itself

    return Figure(figsize=(width, height), layout="constrained").add_subplot()
