"""From an object to its interactive view; the notebook package is imported only here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from septran.errors import CallError

if TYPE_CHECKING:
    from septran.views.html import Markup
    from septran.views.timeline import Timeline

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
    for kind in type(thing).__mro__:
        view = _VIEWS.get(f"{kind.__module__}.{kind.__qualname__}")
        if view is not None:
            return view(thing, **options)
    known = ", ".join(sorted(name.rpartition(".")[2] for name in _VIEWS))
    raise NothingToExploreError(
        f"{type(thing).__name__} has no interactive view", hint=f"there are views of {known}"
    )


def _profile(profile: Any) -> Any:
    from septran.views.dsa_profile_panel import profile_panel
    from septran.views.dsa_timeline import timeline

    return _lanes([timeline(profile)], profile_panel(profile), str(profile))


def _emulated(profile: Any) -> Any:
    from septran.views.emulated_panel import emulated_panel, timeline

    return _lanes([timeline(profile, None)], emulated_panel(profile), str(profile))


def _profiles(comparison: Any) -> Any:
    from septran.views.dsa_profile_panel import comparison_panel
    from septran.views.dsa_timeline import timeline

    pairs = zip(comparison.profiles, comparison.titles, strict=True)
    found = [timeline(profile, title) for profile, title in pairs]
    return _lanes(found, comparison_panel(comparison), str(comparison))


def _timeline(timeline: Any) -> Any:
    from septran.views.timeline_svg import timeline_panel

    return _lanes([timeline], timeline_panel(timeline), repr(timeline))


def _lanes(found: Sequence[Timeline], static: Markup, text: str) -> Any:
    """Timelines one above the other; `static` and `text` are what is shown without a kernel."""
    from septran.views.timeline import timelines

    return widgets("views").Timeline(timelines(*found), static, text)


def _explanation(explanation: Any) -> Any:
    from septran.views.explore_panel import explore_panel
    from septran.views.links import linked, linked_data

    panes = linked(explanation)
    static = explore_panel(explanation, panes)
    return widgets("explorer").Explorer(linked_data(panes), static, repr(explanation))


def _kernel(kernel: Any) -> Any:
    from septran.views.explanation import Explanation

    return _explanation(Explanation(kernel.stages))


def _ledger(ledger: Any) -> Any:
    from septran.views.ledger_graph import ledger_graph
    from septran.views.stages import mimebundle

    return widgets("views").LedgerGraph(ledger_graph(ledger), *_static(mimebundle(ledger)))


def _memory_map(found: Any) -> Any:
    return widgets("views").MemoryMap(found.to_dict(), *_static(found._repr_mimebundle_()))


def _comparison(comparison: Any) -> Any:
    from septran.views.comparison_data import comparison_data

    static = _static(comparison._repr_mimebundle_())
    return widgets("views").Comparison(comparison_data(comparison), static[0], repr(comparison))


def _element(journey: Any) -> Any:
    return widgets("views").Element(journey, *_static(journey._repr_mimebundle_()))


def _layout(found: Any) -> Any:
    return widgets("views").Layout(found.to_dict(), *_static(found._repr_mimebundle_()))


def _accesses(found: Any) -> Any:
    return widgets("views").Accesses(found, *_static(found._repr_mimebundle_()))


def _mapping_profile(found: Any) -> Any:
    static = _static(found._repr_mimebundle_())
    return widgets("views").MappingProfile(found.to_dict(), *static)


def _job(job: Any) -> Any:
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


_VIEWS: dict[str, Callable[..., Any]] = {
    "septran.views.explanation.Explanation": _explanation,
    "septran.runtime.kernel.Kernel": _kernel,
    "septran.targets.dsa.profile.DsaProfile": _profile,
    "septran.targets.dsa.profile_comparison.ProfileComparison": _profiles,
    "septran.targets.cuda.emulated_profile.EmulatedProfile": _emulated,
    "septran.views.timeline.Timeline": _timeline,
    "septran.views.comparison.Comparison": _comparison,
    "septran.views.element.Journey": _element,
    "septran.views.layout_map.LayoutMap": _layout,
    "septran.views.access_map.AccessMap": _accesses,
    "septran.views.mapping_profile.MappingProfile": _mapping_profile,
    "septran.views.progress.Job": _job,
    "septran.views.memory_map.MemoryMap": _memory_map,
    "septran.tile.ledger.Ledger": _ledger,
}
"""By the full name of a class, so that nothing is imported before it is shown."""
