"""One file a pass; `PASSES` is the order."""

from __future__ import annotations

from collections.abc import Callable

from septran.tile.nodes import TileProgram
from septran.tile.passes.assign_roles import assign_roles
from septran.tile.passes.eliminate_copies import eliminate_copies
from septran.tile.passes.fuse_fills import fuse_fills
from septran.tile.passes.infer_layouts import infer_layouts
from septran.tile.passes.insert_sync import insert_sync
from septran.tile.passes.persist import persist
from septran.tile.passes.pipeline_loops import pipeline_loops
from septran.tile.passes.plan_memory import plan_memory
from septran.tile.passes.read_in_place import read_in_place
from septran.tile.passes.stream_panels import stream_panels

PASSES: tuple[Callable[[TileProgram], TileProgram], ...] = (
    eliminate_copies,
    read_in_place,
    stream_panels,
    fuse_fills,
    infer_layouts,
    persist,
    pipeline_loops,
    assign_roles,
    insert_sync,
    plan_memory,
)
"""After `instantiate`, in order: the table of contents of the compiler."""
