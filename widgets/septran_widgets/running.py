"""Something long, live: how far it is, when it will be done, and a button that stops it."""

from __future__ import annotations

from typing import Any

from septran.views.pictures.html import panel, paragraph, strong
from septran.views.progress import Progress
from septran_widgets.view import View


class Running(View):
    """A bar over a `Progress`; the work runs in a thread of its own, so that clicks arrive."""

    module = "progress"

    def __init__(self, progress: Progress) -> None:
        """Follow `progress` until it ends."""
        self.progress = progress
        static = panel(strong(progress.title), paragraph("goes on beside the notebook"))
        super().__init__(progress.to_dict(), static, str(progress))
        self.on_msg(self._clicked)
        progress.listen(self._moved)

    def _moved(self, progress: Progress) -> None:
        self.data = progress.to_dict()

    def _clicked(self, _: Any, content: Any, __: Any) -> None:
        if isinstance(content, dict) and content.get("cancel"):
            self.progress.cancel()
