"""Origins as views show them: a rule, places, and the keys that link views."""

from __future__ import annotations

import re
from typing import Any

from septran.location import Location
from septran.tile.nodes import Origin
from septran.views.text.movements import place_text

_PLACES = re.compile(r" \[((?:[^\[\]]|\[\d+\])+)\]$")
_PLACE = re.compile(r"(.+?):(\d+)(:\d+)?")


def origin_parts(text: str) -> dict[str, Any]:
    """The rule, the places and the keys that link views, of the text of an `Origin`.

    >>> origin_parts("A is copied in [gemm.py:33, dsa.mapping.yaml:39:38]")["keys"]
    ['logic:gemm.py:33', 'mapping:39']
    >>> origin_parts("A is copied in [<mapping 3f2a>:6:42]")["keys"]
    ['mapping:6']
    >>> origin_parts("A is copied in [<cell In[2]>:9, <cell In[3]>:4:7]")["keys"]
    ['logic:<cell In[2]>:9', 'mapping:4']
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
    # A mapping that was given as a text is called <mapping 3f2a...>. Cells hold either: of a
    # logic only the line is known.
    cell = file.startswith("<cell ") and found[3] is not None
    mapping = cell or file.endswith((".yaml", ".yml")) or file.startswith("<mapping ")
    return f"mapping:{found[2]}" if mapping else f"logic:{file}:{found[2]}"


def place_keys(logic: Location | None, mapping: Location | None) -> list[str]:
    """Keys of a logic line and a mapping line."""
    keys = []
    if logic is not None:
        keys.append(f"logic:{logic.short_file.rpartition('/')[2]}:{logic.line}")
    if mapping is not None:
        keys.append(f"mapping:{mapping.line}")
    return keys


def why_of(origin: Origin | None) -> dict[str, Any]:
    """The rule, the places and the keys of an origin."""
    if origin is None:
        return {"rule": "", "places": [], "keys": []}
    places = [place_text(place) for place in (origin.logic, origin.mapping) if place]
    keys = [f"task:{origin.task}", *place_keys(origin.logic, origin.mapping)]
    return {"rule": origin.rule, "places": places, "keys": keys}
