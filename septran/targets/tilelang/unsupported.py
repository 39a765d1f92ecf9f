"""What TileLang has no words for, at the line that it comes from."""

from __future__ import annotations

from septran.errors import TargetError
from septran.location import Location
from septran.tile.nodes import Origin


class UnsupportedByTileLangError(TargetError):
    """A tile program has something that a TileLang program cannot say."""

    code = "SEP538"


def unsupported(
    about: Origin | Location | None, message: str, hint: str | None = None
) -> UnsupportedByTileLangError:
    """The error at the line that a node comes from, or at a line."""
    if isinstance(about, Origin):
        hint = hint or f"the node is there because: {about.rule}"
        about = about.logic or about.mapping
    return UnsupportedByTileLangError(message, about, hint=hint)
