"""The templates of a library's files."""

from __future__ import annotations

from septran.targets.cpu.library.model import TEMPLATES


def template(name: str) -> str:
    """A template of this folder."""
    return (TEMPLATES / name).read_text(encoding="utf-8")
