"""Times and sizes as text, in the unit that keeps them short; shares as shades."""

from __future__ import annotations

import math
from collections.abc import Iterable

_SHADES = " ░▒▓█"


def time_text(seconds: float, digits: int = 4) -> str:
    """Return a time in the largest of s, ms, us and ns that it reaches: ``1.25 ms``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.{digits}g} {unit}"
    return f"{seconds * 1e9:.{digits}g} ns"


def size_text(count: int | float) -> str:
    """Return a number of bytes in binary units: ``64 KiB``."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while abs(count) >= 1024 and power < len(units) - 1:
        count, power = count / 1024, power + 1
    return f"{count:.4g} {units[power]}"


def shades_text(shares: Iterable[float]) -> str:
    """Return a character for each share from 0 to 1, darker for greater ones; blank for 0 alone."""
    darkest = len(_SHADES) - 1
    # What rounding adds to a share makes it no darker.
    steps = (math.ceil(min(max(share, 0.0), 1.0) * darkest - 1e-9) for share in shares)
    return "".join(_SHADES[max(0, step)] for step in steps)
