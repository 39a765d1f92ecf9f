"""The ledger as a graph: memories as columns, a band for each copy between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from septran.tile.ledger import Entry, Ledger
from septran.views.text.movements import place_text
from septran.views.text.origin_text import place_keys

INWARD, OUTWARD = "in", "out"


def ledger_graph(found: Ledger) -> dict[str, Any]:
    """JSON-ready: the columns of memories from main memory inwards and out again; bands."""
    edges = list(dict.fromkeys((row.source, row.target) for row in found.rows))
    inwards, outwards = _distances(edges, found.main_memory), _distances(
        [(target, source) for source, target in edges], found.main_memory
    )  # fmt: skip
    ways = {edge: _way(edge, inwards, outwards, found.main_memory) for edge in edges}
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for row in found.rows:  # the copies of a peeled loop are one band
        groups.setdefault((row.tensor, row.source, row.target, row.state, row.engine), []).append(
            row
        )
    bands = [_band(number, rows, ways) for number, rows in enumerate(groups.values())]
    return {
        "title": found.name,
        "main": found.main_memory,
        "least": found.least_bytes,
        "traffic": found.main_memory_bytes,
        "ratio": found.ratio,
        "in_place": list(found.in_place),
        "columns": {
            INWARD: _columns(edges, ways, inwards, INWARD),
            OUTWARD: _columns(edges, ways, outwards, OUTWARD)[::-1],
        },
        "bands": bands,
    }


def _distances(edges: Iterable[tuple[str, str]], start: str) -> dict[str, int]:
    """Copies that it takes from `start` to each memory."""
    found, front = {start: 0}, [start]
    known = list(edges)
    while front:
        reached = [t for s, t in known if s in front and t not in found]
        depth = max(found.values()) + 1
        found |= dict.fromkeys(reached, depth)
        front = list(dict.fromkeys(reached))
    return found


def _way(
    edge: tuple[str, str], inwards: Mapping[str, int], outwards: Mapping[str, int], main: str
) -> str:
    """Whether a copy brings data to where it is computed with, or takes results away."""
    source, target = edge
    if target == main or source not in inwards:
        return OUTWARD
    closer = inwards[target] > inwards[source]
    return INWARD if closer or target not in outwards else OUTWARD


def _columns(
    edges: Iterable[tuple[str, str]], ways: Mapping[tuple[str, str], str],
    distance: Mapping[str, int], way: str,
) -> list[list[str]]:  # fmt: skip
    """Memories at one end of a copy of this direction, by their distance from main memory."""
    names = dict.fromkeys(name for edge in edges if ways[edge] == way for name in edge)
    depths = {name: distance.get(name, 1) for name in names}
    return [[n for n in names if depths[n] == depth] for depth in sorted(set(depths.values()))]


def _band(
    number: int, rows: Sequence[Entry], ways: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    row = rows[0]
    places = dict.fromkeys(place for r in rows for place in (r.logic, r.mapping) if place)
    return {
        "number": number, "tensor": row.tensor, "source": row.source, "target": row.target,
        "way": ways[row.source, row.target], "bytes": max(r.bytes for r in rows),
        "trips": sum(r.trips for r in rows), "total": sum(r.total_bytes for r in rows),
        "saved": sum(r.saved_bytes for r in rows), "copies": len(rows), "engine": row.engine,
        "state": row.state, "reason": "; ".join(dict.fromkeys(r.reason for r in rows)),
        "by": row.by, "places": [place_text(place) for place in places],
        "keys": list(dict.fromkeys(key for r in rows for key in place_keys(r.logic, r.mapping))),
    }  # fmt: skip
