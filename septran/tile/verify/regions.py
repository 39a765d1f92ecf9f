"""Check that every region stays inside its buffer, for all values of all loop indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from septran.errors import TileError
from septran.ir.bounds import greatest, least, loop_range
from septran.ir.index import Range, Var, axis
from septran.tile.analyses.loops import ends, ranges_of, samples, walk
from septran.tile.interpret.channel_state import located
from septran.tile.interpret.storage import ExtentError, OutOfBoundsError, grid
from septran.tile.nodes import Buffer, For, Node, Region, TileProgram, regions, writes


@dataclass(frozen=True)
class _Place:
    """A region of a node, in its loops."""

    region: Region
    node: Node
    loops: tuple[For, ...]
    buffer: Buffer
    written: bool


def check_regions(program: TileProgram, full: bool) -> Iterator[TileError]:
    """Regions that leave their buffer, name a stage that is not there, or exceed their shape."""
    buffers = {b.name: b for b in program.buffers}
    known: dict[tuple[int, ...], dict[Var, Range]] = {}  # by identity: hashing is deep
    most = 65536 if full else 512
    for node, loops in walk(program.body):
        for region in regions(node):
            nest = tuple(map(id, loops))
            if nest not in known:
                known[nest] = ranges_of(loops)
            place = _Place(region, node, loops, buffers[region.buffer], region in writes(node))
            # Bounds decide nearly all cases at once; only the others are enumerated, `most`
            # iterations.
            if not _obviously_inside(place, known[nest]):
                problem = _problem(place, most)
                if problem is not None:
                    yield problem


def _obviously_inside(place: _Place, known: dict[Var, Range]) -> bool:
    region, buffer = place.region, place.buffer
    if len(region.index) != len(buffer.shape):
        return False
    for valid, nominal in zip(region.valid, region.shape, strict=True):
        if (valid.terms or valid.constant > nominal) and greatest(valid - nominal, known) > 0:
            return False
    stage = region.stage
    if not 0 <= least(stage, known) <= greatest(stage, known) < buffer.stages:
        return False
    # Reads beyond the buffer give zeros in a padded region; a write there would have no place.
    if region.padded and not place.written:
        return True
    corners = ends(region)
    if corners is None:
        return _curved_inside(place, known)
    return all(
        least(low, known) >= 0 and greatest(high, known) < size
        for (low, high), size in zip(corners, buffer.shape, strict=True)
    )


def _curved_inside(place: _Place, known: dict[Var, Range]) -> bool:
    region = place.region
    spans = {axis(n): loop_range(v, known) for n, v in enumerate(region.valid)}
    every = {**known, **spans}
    return all(
        least(entry, every) >= 0 and greatest(entry, every) < size
        for entry, size in zip(region.index, place.buffer.shape, strict=True)
    )


def _problem(place: _Place, most: int) -> TileError | None:
    """Return the mistake at some iteration; None where all that were examined are right."""
    region, buffer = place.region, place.buffer
    if len(region.index) != len(buffer.shape):
        message = f"{region} has {len(region.index)} axes, {buffer.name} has {len(buffer.shape)}"
        return located(ExtentError, message, place.node.origin)
    for values in samples(place.loops, {}, most):
        problem = _at(place, values)
        if problem is not None:
            return problem
    return None


def _at(place: _Place, values: dict[Var, int]) -> TileError | None:
    region, buffer = place.region, place.buffer
    at = ", ".join(f"{v}={n}" for v, n in values.items())
    where = f" at {at}" if at else ""
    extents = tuple(max(0, v.evaluate(values)) for v in region.valid)
    if any(e > n for e, n in zip(extents, region.shape, strict=True)):
        message = f"{region} has {extents} of {region.shape} elements{where}"
        return located(ExtentError, message, place.node.origin)
    if not 0 <= region.stage.evaluate(values) < buffer.stages:
        message = f"{region} names stage {region.stage.evaluate(values)} of {buffer.stages}{where}"
        return located(OutOfBoundsError, message, place.node.origin)
    if 0 in extents or (region.padded and not place.written):
        return None
    for number, (entry, size) in enumerate(zip(region.index, buffer.shape, strict=True)):
        coordinates = grid(entry, extents, values)
        low, high = int(coordinates.min()), int(coordinates.max())
        if low < 0 or high >= size:
            message = (
                f"{region} reaches from {low} to {high} along axis {number} of {buffer.name}, "
                f"which has 0 to {size - 1}{where}"
            )
            return located(OutOfBoundsError, message, place.node.origin)
    return None
