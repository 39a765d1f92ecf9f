"""Which elements of a copy follow each other in GLOBAL as they do in SHARED."""

from __future__ import annotations

from septran.ir.atoms import Atom, FloorDiv, Mod
from septran.ir.index import Index, Var
from septran.targets.cuda.addresses import Access
from septran.targets.cuda.context import Context
from septran.targets.lower.indices import divisor
from septran.tile.nodes import Copy


def follows(context: Context, copy: Copy, source: Access, number: int, lanes: int) -> bool:
    """Whether runs of so many elements along an axis follow each other in GLOBAL, too."""
    lane = Var("@lane")
    coordinates: list[Index] = []
    context.indices.bind(lane, None, 0, lanes - 1)
    for n, extent in enumerate(copy.target.shape):
        variable = Var(f"@any{n}")
        context.indices.bind(variable, None, 0, max(0, extent - 1))
        here = Index.of(variable)
        coordinates.append(here * lanes + Index.of(lane) if n == number else here)
    at = tuple(coordinates)
    places = [_parted(source.flat(at), lane, lanes)]
    if source.region.padded:
        entries = [_parted(e, lane, lanes) for e in source.region.at(at)]
        places.append(entries.pop())
        if any(lane in entry.variables() for entry in entries):
            return False
    return not any(lane in (place - Index.of(lane)).variables() for place in places)


def _parted(index: Index, lane: Var, lanes: int) -> Index:
    """The same, a lane outside of divisions that it does not change."""
    total = Index((), index.constant)
    for atom, factor in index.terms:
        total = total + _parted_atom(atom, lane, lanes) * factor
    return total


def _parted_atom(atom: Atom, lane: Var, lanes: int) -> Index:
    if not isinstance(atom, FloorDiv | Mod):
        return Index(((atom, 1),), 0)
    value = _parted(atom.value, lane, lanes)
    rest = value - Index.of(lane)
    steady = lane not in rest.variables() and divisor(rest) % lanes == 0
    if not steady or atom.divisor % lanes:
        lane_part, rest = Index(), value
    else:
        lane_part = Index.of(lane)
    if isinstance(atom, Mod):
        return rest % atom.divisor + lane_part
    return rest // atom.divisor
