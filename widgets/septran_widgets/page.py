"""A view as one HTML file that opens without a network, a notebook or a server."""

from __future__ import annotations

import html
import json
from typing import Any

from septran_widgets.modules import FOLDER, script, styles_of

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(title: str, module: str, data: dict[str, Any]) -> str:
    """The document of one view: its script, its style and its data."""
    # In a script element only "</" and "<!--" could end the text, so no "<" is left in it.
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    code = script(module).replace("export default", "const page_view =")
    own, start = ((FOLDER / f).read_text("utf-8") for f in ("page.css", "page_start.js"))
    name = html.escape(title, quote=True)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{name}</title>\n<style>{styles_of(module)}{own}</style>\n</head>\n<body>\n"
        '<main id="view"></main>\n<button id="theme" type="button">dark</button>\n'
        f'<script type="application/json" id="data">{text}</script>\n'
        f'<script type="module">\n{code}\n{{\n{start}}}\n</script>\n</body>\n</html>\n'
    )
