"""What all views have in common: plain data in, a script, a style, and a static stand-in."""

from __future__ import annotations

import secrets
from typing import Any

import anywidget
import traitlets

from septran_widgets.modules import script, styles


class View(anywidget.AnyWidget):
    """A view of plain data; subclasses name their script by ``module``.

    Where it is shown, the static HTML is displayed first, which the script hides once it is
    alive: a notebook without a kernel, or one that is not trusted, keeps the static HTML.
    """

    module = ""
    """The script's file name without ``.js``."""
    data = traitlets.Dict().tag(sync=True)
    """All that is shown, as JSON-ready data."""
    static_token = traitlets.Unicode().tag(sync=True)
    """Class of the static HTML that the script hides once it is alive; may be empty."""
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Keys of the origin of what is chosen, such as ``logic:gemm.py:33``."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Join the script and the style when the class is made."""
        if cls.__dict__.get("module"):  # anywidget makes further subclasses
            cls._esm = script(cls.module)
            cls._css = styles()
        super().__init_subclass__(**options)

    def __init__(self, data: dict[str, Any], static: str = "", text: str = "") -> None:
        """`static` is HTML that says the same without a script, `text` the same in words."""
        self.static, self.text = str(static), text
        token = f"septran-static-{secrets.token_hex(6)}" if static else ""
        super().__init__(data=data, static_token=token)

    def _ipython_display_(self) -> None:
        from IPython.display import publish_display_data

        publish: Any = publish_display_data
        text = self.text or f"<{type(self).__name__}>"
        if self.static:
            html = f'<div class="septran-static {self.static_token}">{self.static}</div>'
            publish({"text/html": html, "text/plain": text})
        bundle: Any = self._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        publish({**data, "text/plain": text}, metadata)
