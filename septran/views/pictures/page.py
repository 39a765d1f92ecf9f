"""One self-contained HTML page: no request anywhere, light or dark as the reader's system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from septran.views.pictures import colours
from septran.views.pictures.html import Markup, h, join, tag

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'"
_DARK_TOKENS = "".join(
    f".{token.name}{{color:{token.dark}!important}}"
    for token in dict.fromkeys(colours.TOKENS.values())
)
_STYLE = f"""
:root{{color-scheme:light dark}}
body{{font-family:system-ui,sans-serif;font-size:15px;line-height:1.45;margin:0;
background:#ffffff;color:{colours.INK}}}
header,main{{max-width:1180px;margin:0 auto;padding:12px 20px}}
h1{{font-size:22px;margin:8px 0}}h2{{font-size:18px;margin:0;display:inline}}
nav{{position:sticky;top:0;background:inherit;border-bottom:1px solid #8a8a8a;z-index:1}}
nav div{{max-width:1180px;margin:0 auto;padding:6px 20px;display:flex;gap:14px;flex-wrap:wrap}}
nav a{{color:inherit}}
button{{font:inherit;color:inherit;background:transparent;border:1px solid #8a8a8a;
border-radius:4px;padding:0 8px;cursor:pointer}}
section{{margin:14px 0;padding-top:6px}}
section>details>summary{{border-bottom:1px solid #b5b5b0;padding:4px 0!important}}
summary:hover{{text-decoration:underline}}
:focus-visible{{outline:2px solid #2f86ba;outline-offset:2px}}
@media (prefers-color-scheme:dark){{
body{{background:#121315;color:#e6e6e3}}
.src{{background:{colours.DARK_PAPER}!important;color:#e6e6e3!important;
border-color:#44474d!important}}
.pic{{filter:invert(.9) hue-rotate(180deg)}}
{_DARK_TOKENS}}}
@media print{{nav{{display:none}}pre{{max-height:none!important}}}}
"""
_SCRIPT = """
for (const [name, open] of [["open-all", true], ["close-all", false]])
  document.getElementById(name).addEventListener("click", () => {
    for (const part of document.querySelectorAll("details")) part.open = open;
  });
const show = () => {
  const section = document.getElementById(location.hash.slice(1));
  const part = section && section.querySelector("details");
  if (part) part.open = true;
};
addEventListener("hashchange", show);
show();
"""


@dataclass(frozen=True)
class Section:
    """One part of a page."""

    name: str
    """Its anchor: letters and underscores."""
    title: str
    body: Markup
    open: bool = False


def page(title: str, lead: Markup, sections: Sequence[Section]) -> str:
    """The whole document."""
    links = [tag("a", section.title, href=f"#{section.name}") for section in sections]
    buttons = [
        tag("button", "open all", id="open-all", type="button"),
        tag("button", "close all", id="close-all", type="button"),
    ]
    parts = [
        tag(
            "section",
            tag(
                "details",
                tag("summary", tag("h2", s.title), style="cursor:pointer;"),
                s.body,
                open=s.open,
            ),
            id=s.name,
        )
        for s in sections
    ]
    body = join(
        [
            tag("nav", tag("div", *links, *buttons)),
            tag("header", tag("h1", title), lead),
            tag("main", *parts),
        ]
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{h(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{h(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )
