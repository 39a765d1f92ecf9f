"""The language that lessons speak: that of the computer, or what SEPTRAN_LANGUAGE says."""

from __future__ import annotations

import os
import re

VARIABLES = ("SEPTRAN_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""The first that is set decides."""


def language() -> str:
    """``zh``, or ``en`` for everything else."""
    chosen = next((value for name in VARIABLES if (value := os.environ.get(name))), "en")
    return "zh" if chosen.lower().startswith("zh") else "en"


def say(text: str) -> str:
    """A lesson's text in that language; as it is where nobody has translated it."""
    return text if language() == "en" else in_chinese(text)


def in_chinese(text: str) -> str:
    """The same in Chinese; `text` itself where there is no translation."""
    from septran.lessons.chinese import PATTERNS, SENTENCES

    if text in SENTENCES:
        return SENTENCES[text]
    for pattern, words in PATTERNS:
        match = re.fullmatch(pattern, text)
        if match is not None:
            return match.expand(words)
    parts = text.split("; ")
    return text if len(parts) == 1 else "；".join(map(in_chinese, parts))
