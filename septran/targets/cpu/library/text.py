"""Texts with places to fill in: ``@name@`` stands for the word of that name."""

from __future__ import annotations

import re

from septran.targets.cpu.library.model import TEMPLATES


def template(name: str) -> str:
    """A template of this folder."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def filled(text: str, **words: object) -> str:
    """Return the text with its words; raises KeyError for one that is not given."""
    return re.sub(r"@(\w+)@", lambda found: str(words[found[1]]), text)
