"""The stage explorer as a widget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import traitlets

from septran.argument_checks import write_text
from septran_widgets.page import page
from septran_widgets.view import View


class Explorer(View):
    """Every stage of a compilation in linked panes: `septran.views.links` makes its data."""

    module = "explorer"
    can_save = traitlets.Bool(default_value=True).tag(sync=True)
    """Whether the view may ask for the page that `save_html` writes."""

    def __init__(self, data: dict[str, Any], static: str = "", text: str = "") -> None:
        """`data` is what `septran.views.links.linked_data` gives."""
        super().__init__(data, static, text)
        self.on_msg(self._asked)

    def _asked(self, _: Any, content: Any, __: Any) -> None:
        if content == {"want": "page"}:
            self.send({"page": self.html()})

    def html(self) -> str:
        """The same explorer as one page that opens without a notebook or a network."""
        return page(self.data["title"], self.module, self.data)

    def save_html(self, path: str | Path) -> Path:
        """Write that page."""
        return write_text(path, self.html())
