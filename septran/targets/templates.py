"""Texts with places to fill in: ``@name@`` stands for the word of that name."""

from __future__ import annotations

import re
from pathlib import Path


def filled(text: str, /, **words: object) -> str:
    """Return the text with its words; raises KeyError for one that is not given."""
    return re.sub(r"@(\w+)@", lambda found: str(words[found[1]]), text)


def check_header() -> str:
    """Return the C header with which examples read, compare and print."""
    return Path(__file__).with_name("check.h").read_text(encoding="utf-8")
