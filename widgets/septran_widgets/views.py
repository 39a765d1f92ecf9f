"""The views: each a script over plain data that `septran.explain` makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from septran.errors import SepTranError
from septran_widgets.view import View

if TYPE_CHECKING:
    from septran.views.maps.access_map import AccessMap
    from septran.views.maps.element import Journey


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


class Element(View):
    """The way of one element; a click asks for another one's."""

    module = "element"
    asked = traitlets.Dict().tag(sync=True)
    """The element that was clicked: ``{"tensor": "C", "at": [37, 5]}``."""
    error = traitlets.Unicode().tag(sync=True)
    """Why what was asked for cannot be shown."""

    def __init__(self, journey: Journey, static: str = "", text: str = "") -> None:
        """`journey` is shown first."""
        self.program = journey.program
        super().__init__(journey.to_dict(), static, text)

    @traitlets.observe("asked")
    def _follow(self, change: Any) -> None:
        from septran.views.maps.element import follow

        wanted = change["new"]
        try:
            at = tuple(int(n) for n in wanted["at"])
            self.data = follow(self.program, str(wanted["tensor"]), at).to_dict()
        except (SepTranError, KeyError, TypeError, ValueError) as error:
            self.error = str(error)
        else:
            self.error = ""


class MappingProfile(View):
    """What each entry of a mapping costs; data of `mapping_profile.MappingProfile`."""

    module = "mapping_profile"


class Layout(View):
    """Where each element of a buffer lies; data of `layout_map.LayoutMap`."""

    module = "layout"


class Accesses(View):
    """What one block touches, step by step; another block can be asked for."""

    module = "access"
    asked = traitlets.Dict().tag(sync=True)
    """The block that was chosen: an iteration of each parallel loop."""
    error = traitlets.Unicode().tag(sync=True)
    """Why what was asked for cannot be shown."""

    def __init__(self, accesses: AccessMap, static: str = "", text: str = "") -> None:
        """`accesses` is shown first."""
        self.program = accesses.program
        super().__init__(accesses.to_dict(), static, text)

    @traitlets.observe("asked")
    def _choose(self, change: Any) -> None:
        from septran.views.maps.access_map import access_map

        try:
            block = {str(name): int(n) for name, n in change["new"].items()}
            self.data = access_map(self.program, **block).to_dict()
        except (SepTranError, TypeError, ValueError) as error:
            self.error = str(error)
        else:
            self.error = ""
