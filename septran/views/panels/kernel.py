"""Kernels and profiles as HTML: what was compiled, how long each step took, what it reaches."""

from __future__ import annotations

from collections.abc import Iterator

from septran.format_units import time_text
from septran.runtime.kernel import Kernel
from septran.runtime.profile import Profile
from septran.runtime.signature import Specialisation
from septran.views.pictures.colours import GREEN, VERMILION
from septran.views.pictures.html import (
    Markup,
    details,
    join,
    mono,
    panel,
    paragraph,
    strong,
    table,
    tag,
)
from septran.views.text.remarks import remarks_table


def kernel_panel(kernel: Kernel) -> Markup:
    """The signature, each compilation, the stages of the latest."""
    title = join([strong("Kernel "), mono(kernel.signature)])
    compiled = kernel.specialisations
    if not compiled:
        return panel(title, paragraph("not compiled yet: it is when it is first called"))
    rows = [(mono(_shapes(s)), _timings(s)) for s in compiled]
    parts = [table(("compiled for", "seconds of each step"), rows)]
    if kernel.remarks:
        head = f"remarks ({len(kernel.remarks)})"
        parts.append(details(head, remarks_table(kernel.remarks)))
    return panel(title, *parts, *_stages(compiled[-1]))


def _stages(latest: Specialisation) -> Iterator[Markup]:
    """The stages that have been made; looking at a kernel makes none."""
    from septran.views.stages import TITLES, stage_panel

    made = latest.stages.made
    for name, title in TITLES.items():
        if (name if name != "source" else "executable") in made:
            yield details(title, stage_panel(latest.stages[name]))


def _shapes(specialisation: Specialisation) -> str:
    return ", ".join(
        f"{t.name}: {t.dtype}[{', '.join(map(str, t.shape or ()))}]" for t in specialisation.tensors
    )


def _timings(specialisation: Specialisation) -> str:
    timings = specialisation.stages.timings
    return ", ".join(f"{name} {time_text(seconds)}" for name, seconds in timings.items())


def profile_panel(profile: Profile) -> Markup:
    """The figures, and how near the machine's two roofs are."""
    low, high = profile.quartiles
    rows = [
        ("median", time_text(profile.median)),
        ("best", time_text(profile.best)),
        ("quartiles", f"{time_text(low)} to {time_text(high)}"),
        ("calls", f"{len(profile.samples):,}"),
        ("operations", f"{profile.flops:,}"),
        ("operations a second", f"{profile.flops_per_second / 1e9:,.4g} G"),
        ("bytes of compulsory traffic", f"{profile.bytes_moved:,}"),
        ("bytes a second", f"{profile.bytes_per_second / 1e9:,.4g} G"),
        ("operations a byte", f"{profile.intensity:.4g}"),
    ]
    bars = [
        _bar("of the machine's operations a second", profile.fraction_of_peak),
        _bar("of main memory's bytes a second", profile.fraction_of_bandwidth),
    ]
    bound = [paragraph(f"{profile.limit}-bound")] if profile.limit else []
    on = f" on {profile.machine}" if profile.machine else ""
    title = join([strong(profile.name), on])
    return panel(title, table(("", ""), rows), *bars, *bound, *_when(profile))


def _when(profile: Profile) -> Iterator[Markup]:
    """The timeline, where one was asked for."""
    if profile.timeline is not None:
        from septran.views.timelines.svg import timeline_panel

        yield timeline_panel(profile.timeline)


def _bar(what: str, share: float | None) -> Markup | str:
    if share is None:
        return ""
    colour = GREEN if share <= 1 else VERMILION
    width = f"{min(1.0, share) * 100:.1f}%"
    inner = tag("div", style=f"width:{width};height:10px;background:{colour.line};")
    box = tag("div", inner, style="width:320px;max-width:100%;border:1px solid #8a8a8a;")
    return join([paragraph(f"{share:.1%} {what}"), box])
