"""A profile as text: the figures, and the lanes of the timeline in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from septran.format_units import shades_text, time_text
from septran.targets.dsa.profiles.lanes import shares, unions, working

if TYPE_CHECKING:
    from septran.targets.dsa.profiles.profile import DsaProfile

CAUSE_TEXTS = {
    "flag": "waiting for a flag",
    "full": "issuing to a full queue",
    "bandwidth": "sharing main memory's bandwidth",
    "sync": "in sync and barrier",
}
"""The meaning of each cause of a stall."""


def summary(profile: DsaProfile) -> str:
    """The figures: cycles beside the bound, utilisation, stalls, bytes."""
    return "\n".join(_lines(profile))


def _lines(profile: DsaProfile) -> Iterator[str]:
    beside = f"  ({profile.of_bound:.3f} of the bound)" if profile.of_bound else ""
    yield (
        f"{profile.name} on {profile.machine}: {profile.cycles:,} cycles, "
        f"{time_text(profile.seconds)} at {profile.run.machine.clock_mhz:g} MHz{beside}"
    )
    if profile.bound is not None:
        yield f"  {profile.bound}"
    yield (
        f"  {profile.flops_per_second / 1e9:,.2f} GFLOP/s{_of(profile, 'compute')}, "
        f"{profile.bytes_per_second / 1e9:,.2f} GB/s{_of(profile, 'memory')}"
    )
    yield "  utilisation"
    many = len({lane.core for lane in profile.lanes}) > 1
    names = [f"core {x.core} {x.queue}" if many else x.queue for x in profile.lanes]
    width = max(map(len, names), default=0)
    for name, lane in zip(names, profile.lanes, strict=True):
        held = ", ".join(f"{cause} {n:,}" for cause, n in lane.stalls.items() if n)
        yield (
            f"    {name:{width}}  {lane.utilisation:>6.1%}  {lane.busy_cycles:>12,} cycles  "
            f"{lane.commands:>7,} commands  {lane.bytes:>14,} bytes"
            + (f"  stalls: {held}" if held else "")
        )
    stalls = [f"{n:,} {CAUSE_TEXTS[cause]}" for cause, n in profile.stalls.items() if n]
    yield f"  stall cycles: {'; '.join(stalls) or 'none'}"
    for title, sums in (("moved", profile.edge_bytes), ("channels", profile.channel_bytes)):
        if sums:
            yield f"  {title}: {', '.join(f'{name} {n:,} bytes' for name, n in sums.items())}"


def _of(profile: DsaProfile, kind: str) -> str:
    """The highest roof of a kind and the share of it that was reached."""
    found = [roof for roof in profile.roofs if roof.kind == kind]
    if not found:
        return ""
    top = max(found, key=lambda roof: roof.per_second)
    mine = profile.flops_per_second if kind == "compute" else profile.bytes_per_second
    return f" ({mine / top.per_second:.1%} of {top.name})"


def timeline(profile: DsaProfile, width: int = 72) -> str:
    """One row a lane; the darker a character, the busier the lane in that part of the run."""
    trace, queues = profile.run.trace, profile.run.queues
    works = trace[working(trace)]
    many = len({lane.core for lane in profile.lanes}) > 1
    rows = []
    for lane in profile.lanes:
        number = queues.index(lane.queue)
        mine = works[(works["core"] == lane.core) & (works["queue"] == number)]
        filled = shares(unions(mine), profile.cycles, width)
        label = f"core {lane.core} {lane.queue}" if many else lane.queue
        rows.append((label, shades_text(filled), f"{lane.utilisation:.1%}"))
    indent = max((len(label) for label, _, _ in rows), default=0)
    lines = [f"{label:{indent}} |{bar}| {share:>6}" for label, bar, share in rows]
    last = f"{profile.cycles:,} cycles"
    return "\n".join([*lines, f"{'':{indent}}  0{last:>{width - 1}}"])
