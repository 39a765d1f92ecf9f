"""The verifier: whether a tile program keeps the rules of Tile IR.

Every region is inside its buffer, every buffer fits its memory, copies use engines that there are,
parallel iterations do not race, writes to a staged tensor get back to it, and an asynchronous
copy's target is read after its wait and overwritten after its release only.
Of rows that the caller's integers choose nothing is known, so that each may be any; loops
that they count turn never, once, twice, as often as they may, and unevenly. Where extents are
known only when the kernel is called, it is so for any, and for a few of them in turn.
"""

from __future__ import annotations

from septran.argument_checks import require
from septran.errors import SepTranError, raise_all
from septran.tile.analyses.indirect import at_sizes, counted, index_reads, widened
from septran.tile.analyses.scopes import blocks
from septran.tile.nodes import TileProgram
from septran.tile.verify.lost_writes import check_lost_writes
from septran.tile.verify.names import check_names
from septran.tile.verify.places import check_clusters, check_places
from septran.tile.verify.races import check_races
from septran.tile.verify.regions import check_regions
from septran.tile.verify.sync import check_sync


def verify(program: TileProgram, *, full: bool = False) -> None:
    """Raise all errors of `program`, each with its place and its class.

    `full` runs every iteration of pipelined loops, where the default runs the first and
    the last ones, and enumerates more where bounds are not obvious.
    """
    require("program", program, TileProgram, "pass stages.tile_program, or a step of septran.place")
    found: list[SepTranError] = list(check_names(program))
    raise_all(found)  # the rest relies on names that exist
    for sized in at_sizes(program):
        for each in counted(sized):
            _verify(widened(each), full, program)


def _verify(program: TileProgram, full: bool, original: TileProgram) -> None:
    """Raise all errors of a program whose names exist and that reads no integers as indices.

    `original` has the same nodes, and reads them.
    """
    found: list[SepTranError] = []
    top, chosen = blocks(program), index_reads(program, original)
    found += check_places(program, top)
    found += check_regions(program, full)
    found += check_clusters(program)
    found += check_races(program, top, full, chosen)
    found += check_lost_writes(program, chosen)
    raise_all(found or check_sync(program, top, full, chosen))
