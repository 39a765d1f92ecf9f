"""Loops of generated code: the loop of the tile program that each one came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from septran.tile.nodes import For, Node, nodes
from septran.views.links.model import NO_KEYS, Keys
from septran.views.links.notes import block
from septran.views.links.origins import Origins

_LOOP = re.compile(r"^\s*for (?:\((?:int|int32_t|int64_t) (?P<c>\w+) = |(?P<python>\w+) in )")


@dataclass(frozen=True)
class _Loop:
    """A loop of the tile program: the reasons of all that is in it."""

    name: str
    keys: Keys
    """Its own: its node and its reason."""
    inside: Keys
    size: int
    spread: bool
    """Whether its iterations are spread over units."""


def loop_lines(
    text: str, lines: Mapping[int, Keys], origins: Origins
) -> Iterator[tuple[int, Keys]]:
    """Keys for loops that no note speaks of, by their variables and by what is in them.

    A loop of the generated code is that of the tile program which has its variable and,
    among those, the fewest nodes besides all that the generated one holds.
    """
    known = list(_loops(origins))
    every = frozenset[str]().union(*(loop.inside for loop in known))
    rows = text.splitlines()
    for number, row in enumerate(rows, 1):
        match = _LOOP.match(row)
        if match is None or number in lines:
            continue
        held = frozenset[str]().union(*(lines.get(n, NO_KEYS) for n in block(rows, number)))
        whys, name = held & every, _base(match["c"] or match["python"])
        found = [loop for loop in known if whys and whys <= loop.inside]
        named = [loop for loop in found if loop.name == name]
        if not named and name not in {loop.name for loop in known}:
            named = [loop for loop in found if loop.spread]  # "unit", "block": who runs it
        if named:
            yield number, min(named, key=lambda loop: loop.size).keys


def _base(name: str) -> str:
    """A variable without the number that keeps it apart from others of its name."""
    return re.sub(r"_\d+$", "", name)


def _loops(origins: Origins) -> Iterator[_Loop]:
    for number, node in enumerate(nodes(origins.program.body)):
        if isinstance(node, For):
            below: list[Node] = list(nodes(node.body))
            inside = frozenset[str]().union(*(origins.why(n.origin) for n in below))
            own = origins.why(node.origin) | {f"node:{number}"}
            spread = node.kind == "parallel"
            yield _Loop(_base(node.variable.name), own, inside, len(below), spread)
