"""The passes, one file each, and their order in `PASSES`."""

from __future__ import annotations

from collections.abc import Callable

from septran.tile.nodes import TileProgram
from septran.tile.passes.copies.choose_engines import choose_engines
from septran.tile.passes.copies.eliminate_copies import eliminate_copies
from septran.tile.passes.copies.fuse_fills import fuse_fills
from septran.tile.passes.copies.multicast import multicast
from septran.tile.passes.copies.read_in_place import read_in_place
from septran.tile.passes.copies.stage_footprints import stage_footprints
from septran.tile.passes.copies.stream_panels import stream_panels
from septran.tile.passes.layout.choose_transposes import choose_transposes
from septran.tile.passes.layout.expand_steps import expand_steps
from septran.tile.passes.layout.infer_layouts import infer_layouts
from septran.tile.passes.layout.materialize_slices import materialize_slices
from septran.tile.passes.layout.order_sums import order_sums
from septran.tile.passes.layout.pad_panels import pad_panels
from septran.tile.passes.layout.pad_tiles import pad_tiles
from septran.tile.passes.layout.plan_memory import plan_memory
from septran.tile.passes.layout.spill_temporaries import spill_temporaries
from septran.tile.passes.layout.zero_edges import zero_edges
from septran.tile.passes.schedule.assign_roles import assign_roles
from septran.tile.passes.schedule.form_clusters import form_clusters
from septran.tile.passes.schedule.insert_sync import insert_sync
from septran.tile.passes.schedule.overlap_products import overlap_products
from septran.tile.passes.schedule.persist import persist
from septran.tile.passes.schedule.pipeline_loops import pipeline_loops
from septran.tile.passes.schedule.rasterise import rasterise

PASSES: tuple[Callable[[TileProgram], TileProgram], ...] = (
    eliminate_copies,
    stage_footprints,
    read_in_place,
    stream_panels,
    pad_tiles,
    materialize_slices,
    expand_steps,  # into expressions, whose temporaries may have to be spilled
    spill_temporaries,
    pad_panels,
    fuse_fills,
    choose_transposes,
    infer_layouts,
    order_sums,  # which operands are in groups is now known
    zero_edges,
    # Whether an engine can carry out a copy depends on its tile's layout and on zeros to write.
    choose_engines,
    form_clusters,
    rasterise,
    persist,
    pipeline_loops,  # only copies whose engine is asynchronous run ahead
    assign_roles,  # a producer takes the copies of the channels that pipelining made
    multicast,
    overlap_products,
    # Each fill and its uses are counted in the final order of nodes.
    insert_sync,
    # Live ranges and sizes follow from that order and from the stages of every buffer.
    plan_memory,
)
"""The passes after `instantiate`, in order: the table of contents of the compiler."""
