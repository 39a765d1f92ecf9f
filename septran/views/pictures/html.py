"""Static HTML from Python values, in which no text of a user can become markup.

Everything is built by `tag`, which escapes each child that is not `Markup` already. The
result needs no style sheet, script or identifier: notebooks remove those from outputs
that they do not trust. Text inherits its colour; where a colour is set, its background
is set with it, as no colour has a contrast of 4.5 on white and on black alike.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from typing import Any

from septran.views.pictures import colours

CODE_LIMIT = 60_000
"""Characters of a text that are coloured; more is shown plain, as colours cost ten times."""
TEXT_LIMIT = 400_000
"""Characters of a text that are shown at all."""

_VOID = ("img", "br", "meta", "hr")
_MONO = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px;"
_PAPER = f"background:{colours.PAPER};color:{colours.INK};"
_PRE = (
    f"{_MONO}{_PAPER}line-height:1.45;margin:4px 0;padding:8px 10px;overflow:auto;"
    "max-height:480px;white-space:pre;border:1px solid #c8c8c2;border-radius:4px;"
)
_CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top;border:0;"
_NUMBER = "padding:2px 10px 2px 0;text-align:right;vertical-align:top;border:0;white-space:nowrap;"
_HEAD = "border-bottom:1px solid #8a8a8a;font-weight:600;"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def h(text: object) -> Markup:
    """Any value as inert HTML text, safe in elements and in quoted attributes."""
    if isinstance(text, Markup):
        return text
    plain = "".join(
        c if c >= " " or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )
    return Markup(html.escape(plain, quote=True))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """All parts in a row, each escaped unless it is markup."""
    return Markup(h(between).join(h(part) for part in parts))


def tag(name: str, *children: object, **attributes: str | bool | int | None) -> Markup:
    """One element; an attribute that is True has no value, one that is None is left out."""
    words = [name]
    for key, value in attributes.items():
        if value is True:
            words.append(key.rstrip("_"))
        elif value is not None and value is not False:
            words.append(f'{key.rstrip("_")}="{h(value)}"')
    opening = f"<{' '.join(words)}>"
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{join(children)}</{name}>")


def details(summary: object, *body: object, open: bool = False) -> Markup:
    """A part that the reader can fold; the browser needs no script for it."""
    head = tag("summary", summary, style="cursor:pointer;padding:1px 0;")
    inside = tag("div", *body, style="margin:2px 0 6px 18px;")
    return tag("details", head, inside, style="margin:1px 0;", open=open)


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[str] = ()
) -> Markup:
    """Rows under a head (none where all titles are empty); columns of `numbers` are set right."""
    styles = [_NUMBER if title in numbers else _CELL for title in head]
    titles = [tag("th", t, style=s + _HEAD) for t, s in zip(head, styles, strict=True)]
    body = [
        tag("tr", *(tag("td", cell, style=s) for cell, s in zip(row, styles, strict=True)))
        for row in rows
    ]
    style = "border-collapse:collapse;margin:4px 0;font-size:13px;"
    top = tag("thead", tag("tr", *titles)) if any(head) else ""
    return tag("table", top, tag("tbody", *body), style=style)


def paragraph(*children: object) -> Markup:
    """A line of prose."""
    return tag("div", *children, style="margin:4px 0;max-width:72em;")


def faint(*children: object) -> Markup:
    """Words that are less important: smaller, in the colour of the page."""
    return tag("span", *children, style="font-size:12px;font-style:italic;")


def strong(*children: object) -> Markup:
    """Words that are more important."""
    return tag("b", *children)


def mono(text: object) -> Markup:
    """Words of a program, in the colour of the page."""
    return tag("code", text, style=_MONO + "background:transparent;color:inherit;padding:0;")


def chip(text: object, colour: colours.Colour) -> Markup:
    """A word on a tint, such as the name of a memory; it is readable without the tint."""
    style = (
        f"background:{colour.tint};color:{colours.INK};border:1px solid {colour.line};"
        f"border-radius:3px;padding:0 5px;white-space:nowrap;{_MONO}"
    )
    return tag("span", text, style=style)


def code(text: str, language: str = "") -> Markup:
    """A program text, coloured where Pygments knows the language."""
    shown, rest = text[:TEXT_LIMIT], len(text) - TEXT_LIMIT
    body: Markup = h(shown)
    if language and len(shown) <= CODE_LIMIT:
        body = _coloured(shown, language)
    more = [faint(f"{rest:,} more characters: the object's text has all")] if rest > 0 else []
    return join([tag("pre", body, style=_PRE, class_="src"), *more])


def diff(text: str) -> Markup:
    """A unified diff: tints beside the signs, never instead of them."""
    tints = {"+": colours.GREEN.tint, "-": colours.VERMILION.tint, "@": colours.SKY.tint}
    lines = []
    for line in text[:TEXT_LIMIT].splitlines():
        tint = tints.get(line[:1])
        style = f"background:{tint};color:{colours.INK};" if tint else None
        lines.append(tag("span", line, style=style) if style else h(line))
    return tag("pre", join(lines, "\n"), style=_PRE, class_="src")


def picture(svg: str, alt: str) -> Markup:
    """An SVG as an image: nothing in it can run, and every notebook viewer shows it."""
    data = base64.b64encode(svg.encode()).decode("ascii")
    style = f"max-width:100%;height:auto;background:{colours.PAPER};border-radius:4px;"
    image = tag("img", src=f"data:image/svg+xml;base64,{data}", alt=alt, style=style, class_="pic")
    return tag("div", image, style="overflow:auto;margin:4px 0;")


def panel(title: object, *body: object) -> Markup:
    """The outermost box of one object."""
    head = tag("div", title, style="font-size:15px;margin:2px 0 4px 0;")
    style = "font-family:system-ui,sans-serif;font-size:14px;line-height:1.4;color:inherit;"
    return tag("div", head, *body, style=style)


def _coloured(text: str, language: str) -> Markup:
    lexer = _lexer(language)
    if lexer is None:
        return h(text)
    runs: list[tuple[colours.Token | None, list[str]]] = []
    for kind, value in lexer.get_tokens(text):
        token = colours.token(str(kind))
        if runs and (runs[-1][0] is token or not value.strip()):
            runs[-1][1].append(value)
        else:
            runs.append((token, [value]))
    return join(_run(token, "".join(values)) for token, values in runs)


def _run(token: colours.Token | None, text: str) -> Markup:
    if token is None:
        return h(text)
    return tag("span", text, style=token.style, class_=token.name)


def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # late: it takes a tenth of a second
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, ensurenl=False, stripnl=False)
    except ClassNotFound:
        return None
