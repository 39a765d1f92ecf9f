"""The table of views by class, which all objects that display themselves read.

Classes and functions are named, not imported: most sessions need few of them, and some need
Matplotlib, pandas or Graphviz.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

_STAGE = {"html": "stages.stage_html", "data": "text.plain.stage_data", "drawing": "stages.draw"}

VIEWS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "septran.task.tree.TaskTree": _STAGE,
        "septran.mapping.resolved.ResolvedMapping": _STAGE,
        "septran.tile.nodes.TileProgram": _STAGE,
        "septran.targets.base.TensorIR": _STAGE,
        "septran.targets.base.Source": _STAGE,
        "septran.tile.ledger.Ledger": {
            "html": "panels.ledger.ledger_html",
            "live": "live.explore_ledger",
        },
        "septran.runtime.kernel.Kernel": {
            "html": "panels.kernel.kernel_panel",
            "live": "live.explore_kernel",
        },
        "septran.runtime.profile.Profile": {"html": "panels.kernel.profile_panel"},
        "septran.runtime.instrumented_call.InstrumentedCall": {
            "timeline": "timelines.kernels.timeline_of"
        },
        "septran.targets.cpu.run.instrumentation.Recorded": {
            "timeline": "timelines.kernels.timeline"
        },
        "septran.targets.cuda.run.instrumented_run.RecordedRun": {
            "timeline": "timelines.gpu.timeline"
        },
        "septran.targets.cuda.run.emulated_profile.EmulatedProfile": {
            "html": "panels.emulated.emulated_panel",
            "timeline": "panels.emulated.timeline",
            "live": "live.explore_emulated",
        },
        "septran.targets.dsa.profiles.profile.DsaProfile": {
            "html": "dsa.profile_panel.profile_panel",
            "timeline": "dsa.timeline.timeline",
            "table": "dsa.tables.timeline_table",
            "origins": "dsa.tables.origin_table",
            "plot": "dsa.plots.plot_timeline",
            "roofline": "dsa.plots.plot_roofline",
            "live": "live.explore_profile",
        },
        "septran.targets.dsa.profiles.comparison.ProfileComparison": {
            "html": "dsa.profile_panel.comparison_panel",
            "table": "dsa.tables.comparison_table",
            "plot": "dsa.plots.plot_comparison",
            "live": "live.explore_profiles",
        },
        "septran.tuning.tuning.Tuning": {"html": "tuning.tuning_panel"},
        "septran.tuning.journal.Journal": {
            "html": "journal.journal_panel",
            "table": "journal.journal_table",
        },
        "septran.tuning.tuner.Search": {"job": "tuning.tuning_job"},
        "septran.views.explanation.Explanation": {"live": "live.explore_explanation"},
        "septran.views.timelines.timeline.Timeline": {"live": "live.explore_timeline"},
        "septran.views.comparisons.comparison.Comparison": {"live": "live.explore_comparison"},
        "septran.views.maps.element.Journey": {"live": "live.explore_element"},
        "septran.views.maps.layout_map.LayoutMap": {"live": "live.explore_layout"},
        "septran.views.maps.access_map.AccessMap": {"live": "live.explore_accesses"},
        "septran.views.maps.mapping_profile.MappingProfile": {
            "live": "live.explore_mapping_profile"
        },
        "septran.views.progress.Job": {"live": "live.explore_job"},
        "septran.views.maps.memory_map.MemoryMap": {"live": "live.explore_memory_map"},
    }
)
"""Functions of this package by the class that they show, and by what the view is called."""


def find_view(thing: object, name: str) -> Callable[..., Any] | None:
    """The function that shows `thing`; a class has the views of those it is derived from."""
    for kind in type(thing).__mro__:
        views = VIEWS.get(f"{kind.__module__}.{kind.__qualname__}", {})
        if name in views:
            module, _, function = views[name].rpartition(".")
            found: Callable[..., Any] = getattr(
                importlib.import_module(f"{__package__}.{module}"), function
            )
            return found
    return None


def classes_with(name: str) -> tuple[str, ...]:
    """Classes that have a view of this name."""
    return tuple(of.rpartition(".")[2] for of, views in VIEWS.items() if name in views)
