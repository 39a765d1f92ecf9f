"""From an object to its interactive view; the notebook package is imported only here."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from septran.errors import CallError
from septran.views.table import classes_with, find_view

if TYPE_CHECKING:
    from septran.views.pictures.html import Markup
    from septran.views.timelines.timeline import Timeline

NEEDED = ("anywidget", "ipywidgets", "traitlets", "IPython", "septran_widgets")


class NotebookMissingError(CallError):
    """Interactive views need packages that are not installed."""

    code = "SEP650"


class NothingToExploreError(CallError):
    """An object that has no interactive view."""

    code = "SEP651"


def widgets(module: str) -> Any:
    """A module of `septran_widgets`; NotebookMissingError says what to install."""
    try:
        return importlib.import_module(f"septran_widgets.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        raise NotebookMissingError(
            f"interactive views need {error.name}, which is not installed",
            hint='pip install "septran[notebook]"',
        ) from error


def explore(thing: Any, **options: Any) -> Any:
    """The interactive view of an object: show it as the last line of a cell."""
    found = find_view(thing, "live")
    if found is None:
        known = ", ".join(sorted(classes_with("live")))
        raise NothingToExploreError(
            f"{type(thing).__name__} has no interactive view", hint=f"there are views of {known}"
        )
    return found(thing, **options)


def explore_profile(profile: Any) -> Any:
    """The timeline of a run on a DSA."""
    from septran.views.dsa.profile_panel import profile_panel
    from septran.views.dsa.timeline import timeline

    return _lanes([timeline(profile)], profile_panel(profile), str(profile))


def explore_emulated(profile: Any) -> Any:
    """The timeline of an emulated run."""
    from septran.views.panels.emulated import emulated_panel, timeline

    return _lanes([timeline(profile, None)], emulated_panel(profile), str(profile))


def explore_profiles(comparison: Any) -> Any:
    """Runs on a DSA, one above the other."""
    from septran.views.dsa.profile_panel import comparison_panel
    from septran.views.dsa.timeline import timeline

    pairs = zip(comparison.profiles, comparison.titles, strict=True)
    found = [timeline(profile, title) for profile, title in pairs]
    return _lanes(found, comparison_panel(comparison), str(comparison))


def explore_timeline(timeline: Any) -> Any:
    """Zoom, pan, and what each bar is."""
    from septran.views.timelines.svg import timeline_panel

    return _lanes([timeline], timeline_panel(timeline), repr(timeline))


def _lanes(found: Sequence[Timeline], static: Markup, text: str) -> Any:
    """Timelines one above the other; `static` and `text` are what is shown without a kernel."""
    from septran.views.timelines.timeline import timelines

    return widgets("views").Timeline(timelines(*found), static, text)


def explore_explanation(explanation: Any) -> Any:
    """All stages in linked panes."""
    from septran.views.links import linked, linked_data
    from septran.views.panels.explore import explore_panel

    panes = linked(explanation)
    static = explore_panel(explanation, panes)
    return widgets("explorer").Explorer(linked_data(panes), static, repr(explanation))


def explore_kernel(kernel: Any) -> Any:
    """All stages of the latest compilation in linked panes."""
    from septran.views.explanation import Explanation

    return explore_explanation(Explanation(kernel.stages))


def explore_ledger(ledger: Any) -> Any:
    """The copies as a graph."""
    from septran.views.pictures.ledger_graph import ledger_graph

    static = _static(ledger._repr_mimebundle_())
    return widgets("views").LedgerGraph(ledger_graph(ledger), *static)


def explore_memory_map(found: Any) -> Any:
    """Show the buffers of each memory over the program, live."""
    return widgets("views").MemoryMap(found.to_dict(), *_static(found._repr_mimebundle_()))


def explore_comparison(comparison: Any) -> Any:
    """The stages of several mappings beside each other."""
    from septran.views.comparisons.data import comparison_data

    static = _static(comparison._repr_mimebundle_())
    return widgets("views").Comparison(comparison_data(comparison), static[0], repr(comparison))


def explore_element(journey: Any) -> Any:
    """The way of one element, step by step."""
    return widgets("views").Element(journey, *_static(journey._repr_mimebundle_()))


def explore_layout(found: Any) -> Any:
    """Return where each element of a buffer lies."""
    return widgets("views").Layout(found.to_dict(), *_static(found._repr_mimebundle_()))


def explore_accesses(found: Any) -> Any:
    """Return which elements an iteration reads and writes."""
    return widgets("views").Accesses(found, *_static(found._repr_mimebundle_()))


def explore_mapping_profile(found: Any) -> Any:
    """The lines of a mapping with what each costs."""
    static = _static(found._repr_mimebundle_())
    return widgets("views").MappingProfile(found.to_dict(), *static)


def explore_job(job: Any) -> Any:
    """The progress of a search, with a button that stops it."""
    return widgets("running").Running(job.progress)


def _static(bundle: dict[str, str]) -> tuple[str, str]:
    return bundle["text/html"], bundle["text/plain"]


def edit(logic: Any, mapping: Any, **named: Any) -> Any:
    """The editor of a mapping; `named` is what `septran.explain` takes besides."""
    from septran.compiler import compile
    from septran.views import explain
    from septran.views.editing import mapping_source

    text, folder, name = mapping_source(mapping)
    widgets_editor = widgets("editor")

    def explained(written: Any) -> Any:
        return explain(logic, written, **named)

    def compiled(written: Any) -> Any:
        shapes = named.get("shapes") or _example(logic)
        return compile(logic, written, **{**named, "shapes": shapes})

    return widgets_editor.Editor(text, folder, name, explained, compiled)


def _example(logic: Any) -> Any:
    from septran.request import load_pair

    entry, _ = load_pair(logic, None, None)
    return entry.function.__globals__.get("EXAMPLE")
