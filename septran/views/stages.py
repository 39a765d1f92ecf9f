"""The five stages as HTML and as drawings."""

from __future__ import annotations

from typing import Any

from septran.mapping.resolved import ResolvedMapping
from septran.targets.base import Source, TensorIR
from septran.task.tree import TaskTree
from septran.tile.nodes import TileProgram
from septran.views.panels.code import source_panel, tensor_ir_panel
from septran.views.panels.mapping import mapping_panel
from septran.views.panels.program import tile_program_panel
from septran.views.panels.task import task_tree_panel
from septran.views.pictures.html import Markup, join, panel, strong

TITLES = {
    "task_tree": "Task tree", "mapping": "Resolved mapping", "tile_program": "Tile program",
    "tensor_ir": "TensorIR", "source": "Source",
}  # fmt: skip
"""The stages in order, as headings."""


def stage_html(stage: Any) -> Markup:
    """One stage as HTML under its title."""
    kind = stage_kind(stage)
    if kind is None:
        raise TypeError(f"{type(stage).__name__} is not a stage")
    return panel(join([strong(TITLES[kind]), " of ", stage_name(stage)]), stage_panel(stage))


def stage_kind(stage: Any) -> str | None:
    """Return which of `TITLES` an object is; None where it is no stage."""
    kinds = (TaskTree, ResolvedMapping, TileProgram, TensorIR, Source)
    pairs = zip(TITLES, kinds, strict=True)
    return next((name for name, kind in pairs if isinstance(stage, kind)), None)


def stage_name(stage: Any) -> str:
    """The name of the logic that a stage belongs to."""
    name: str = stage.tree.name if isinstance(stage, ResolvedMapping) else stage.name
    return name


def stage_panel(stage: Any) -> Markup:
    """One stage as HTML without a title."""
    match stage:
        case TaskTree():
            return task_tree_panel(stage, draw(stage).svg())
        case ResolvedMapping():
            return mapping_panel(stage, draw(stage).svg())
        case TileProgram():
            return tile_program_panel(stage, draw(stage).svg())
        case TensorIR():
            return tensor_ir_panel(stage)
        case Source():
            return source_panel(stage)
        case _:
            raise TypeError(f"{type(stage).__name__} is not a stage")


def draw(stage: Any) -> Any:
    """A Graphviz drawing of one of the first three stages."""
    from septran.views.pictures.graphs import draw_mapping, draw_task_tree  # late: graphviz
    from septran.views.pictures.program_graph import draw_tile_program

    match stage:
        case TaskTree():
            return draw_task_tree(stage)
        case ResolvedMapping():
            return draw_mapping(stage)
        case TileProgram():
            return draw_tile_program(stage)
        case _:
            raise TypeError(f"{type(stage).__name__} has no drawing: it is a text")
