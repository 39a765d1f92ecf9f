"""The views: each a script over plain data that `septran.explain` makes."""

from __future__ import annotations

from septran_widgets.view import View


class Timeline(View):
    """Lanes by engine and core, or several runs on one axis; data of `timeline.timelines`."""

    module = "timeline"


class LedgerGraph(View):
    """Copies as bands between memories; data of `ledger_graph.ledger_graph`."""

    module = "ledger"


class MemoryMap(View):
    """What lives where over the program; data of `memory_map.MemoryMap`."""

    module = "memory"


class Comparison(View):
    """One logic under several mappings; data of `comparison_data.comparison_data`."""

    module = "comparison"
