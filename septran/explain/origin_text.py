"""Origins as they stand in generated sources and traces, taken apart again."""

from __future__ import annotations

import re
from typing import Any

_PLACES = re.compile(r" \[([^\[\]]+)\]$")
_PLACE = re.compile(r"(.+?):(\d+)(?::\d+)?")


def origin_parts(text: str) -> dict[str, Any]:
    """The rule, the places and the keys that link views, of the text of an `Origin`.

    >>> origin_parts("A is copied in [gemm.py:33, dsa.mapping.yaml:39:38]")["keys"]
    ['logic:gemm.py:33', 'mapping:39']
    """
    match = _PLACES.search(text)
    if match is None:
        return {"rule": text, "places": [], "keys": []}
    places = [place.strip() for place in match[1].split(", ")]
    keys = [key for place in places if (key := _key(place))]
    return {"rule": text[: match.start()], "places": places, "keys": keys}


def _key(place: str) -> str | None:
    found = _PLACE.fullmatch(place)
    if found is None:
        return None
    file = found[1].replace("\\", "/").rpartition("/")[2]
    return f"mapping:{found[2]}" if file.endswith((".yaml", ".yml")) else f"logic:{file}:{found[2]}"
