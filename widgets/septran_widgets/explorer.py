"""The stage explorer as a widget."""

from __future__ import annotations

from typing import Any

from septran.explain.links import linked, linked_data
from septran_widgets.view import View


class Explorer(View):
    """Every stage of a compilation in linked panes."""

    module = "explorer"

    @classmethod
    def of(cls, explanation: Any) -> Explorer:
        """The explorer of what `septran.explain` returns."""
        data = linked_data(linked(explanation))
        return cls(data, static=explanation.static_html(), text=repr(explanation))
