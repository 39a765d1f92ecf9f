"""One file a pass; `PASSES` is the order."""

from __future__ import annotations

from collections.abc import Callable

from septran.tile.nodes import TileProgram
from septran.tile.passes.assign_roles import assign_roles
from septran.tile.passes.choose_engines import choose_engines
from septran.tile.passes.eliminate_copies import eliminate_copies
from septran.tile.passes.fill_edges import fill_edges
from septran.tile.passes.form_clusters import form_clusters
from septran.tile.passes.fuse_fills import fuse_fills
from septran.tile.passes.infer_layouts import infer_layouts
from septran.tile.passes.insert_sync import insert_sync
from septran.tile.passes.isolate_parts import isolate_parts
from septran.tile.passes.multicast import multicast
from septran.tile.passes.overlap_products import overlap_products
from septran.tile.passes.persist import persist
from septran.tile.passes.pipeline_loops import pipeline_loops
from septran.tile.passes.plan_memory import plan_memory
from septran.tile.passes.rasterise import rasterise
from septran.tile.passes.read_in_place import read_in_place
from septran.tile.passes.round_tiles import round_tiles
from septran.tile.passes.spill_temporaries import spill_temporaries
from septran.tile.passes.stage_footprints import stage_footprints
from septran.tile.passes.stream_panels import stream_panels
from septran.tile.passes.turn_tiles import turn_tiles
from septran.tile.passes.widen_panels import widen_panels

PASSES: tuple[Callable[[TileProgram], TileProgram], ...] = (
    eliminate_copies,
    stage_footprints,
    read_in_place,
    stream_panels,
    round_tiles,
    isolate_parts,
    spill_temporaries,
    widen_panels,
    fuse_fills,
    turn_tiles,
    infer_layouts,
    fill_edges,
    choose_engines,
    form_clusters,
    rasterise,
    persist,
    pipeline_loops,
    assign_roles,
    multicast,
    overlap_products,
    insert_sync,
    plan_memory,
)
"""After `instantiate`, in order: the table of contents of the compiler."""
