"""The views' scripts and styles, joined from small files without a build step.

A script imports others by lines such as ``import {tag} from "./dom.js";`` with everything on
one line. Each file becomes a scope of its own in the one module that a notebook or an
exported page loads, so names cannot clash.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z_]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


@cache
def script(name: str) -> str:
    """One ES module that holds `name` and all that it imports; its default export is kept."""
    parts = [_scope(other) for other in _order(name)[:-1]]
    body = _IMPORT.sub(_bindings, _read(name))
    return "\n".join([*parts, _EXPORT.sub("", body)])


@cache
def style(*names: str) -> str:
    """The style sheets of some views after one another, the common one first."""
    found = [FOLDER / f"{name}.css" for name in dict.fromkeys(("common", *names))]
    return "\n".join(path.read_text("utf-8") for path in found if path.exists())


@cache
def styles() -> str:
    """The style sheets of all views in one order, whichever a notebook shows first."""
    sheets = sorted(path.stem for path in FOLDER.glob("*.css") if path.stem != "page")
    return style(*sheets)


@cache
def styles_of(name: str) -> str:
    """The style sheets of a script and of all that it imports."""
    return style(*_order(name))


def _read(name: str) -> str:
    return (FOLDER / f"{name}.js").read_text("utf-8")


def _order(name: str) -> list[str]:
    """All files that `name` needs, each after those that it imports, itself last."""
    found: dict[str, None] = {}

    def visit(one: str) -> None:
        for match in _IMPORT.finditer(_read(one)):
            if match[2] not in found:
                visit(match[2])
        found[one] = None

    visit(name)
    return list(found)


def _scope(name: str) -> str:
    text = _read(name)
    names = ", ".join(match[1] for match in _EXPORT.finditer(text))
    body = _EXPORT.sub("", _IMPORT.sub(_bindings, text))
    return f"const module_{name} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


def _bindings(match: re.Match[str]) -> str:
    names = match[1].replace(" as ", ": ")
    return f"const {{{names}}} = module_{match[2]};\n"
