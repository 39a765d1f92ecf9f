"""The timeline: lanes by engine and core, or several runs on one axis of time."""

from __future__ import annotations

import traitlets

from septran_widgets.view import View


class Timeline(View):
    """Bars by lane; `data` is made by `septran.explain.timeline.timelines`."""

    module = "timeline"
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Keys of the origin of the bar that is chosen, such as ``logic:gemm.py:33``."""
