"""The stage explorer as a widget."""

from __future__ import annotations

from pathlib import Path

from septran_widgets.page import page
from septran_widgets.view import View


class Explorer(View):
    """Every stage of a compilation in linked panes: `septran.explain.links` makes its data."""

    module = "explorer"

    def html(self) -> str:
        """The same explorer as one page that opens without a notebook or a network."""
        return page(self.data["title"], self.module, self.data)

    def save_html(self, path: str | Path) -> Path:
        """Write that page."""
        target = Path(path)
        target.write_text(self.html(), encoding="utf-8")
        return target
