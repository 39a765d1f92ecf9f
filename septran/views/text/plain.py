"""Any stage as plain JSON-ready data: dicts, lists, strings, finite numbers, booleans, None."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, get_args

from septran.ir.expression_text import expression_text
from septran.ir.expressions import Expr
from septran.ir.index import Index, Var
from septran.ir.views import View
from septran.location import Location
from septran.mapping.resolved import ResolvedMapping
from septran.targets.base import Source, TensorIR
from septran.task.tree import TaskTree
from septran.tile.layouts import Layout
from septran.tile.nodes import TileProgram


def stage_data(stage: Any) -> dict[str, Any]:
    """One stage; ``stage`` says which, every node carries its class as ``node``."""
    match stage:
        case TaskTree():
            return {"stage": "task_tree", "name": stage.name, **_fields(stage)}
        case ResolvedMapping():
            data = _fields(stage, leave_out=("tree",))
            return {"stage": "mapping", "name": stage.tree.name, **data}
        case TileProgram():
            data = _fields(stage, leave_out=("machine",))
            return {"stage": "tile_program", "machine": stage.machine.name, **data}
        case TensorIR():
            return {"stage": "tensor_ir", "name": stage.name, "text": str(stage)}
        case Source():
            return {"stage": "source", **_fields(stage)}
        case _:
            raise TypeError(f"{type(stage).__name__} is not a stage")


def plain(value: Any) -> Any:
    """A value and all in it; text where an object has a readable one."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Index() | Var() | Layout():
            return str(value)
        case Location():
            return {"file": value.short_file, "line": value.line, "column": value.column}
        case View():
            return {"node": type(value).__name__, "text": str(value), **_fields(value)}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return _node(value)


def _node(value: Any) -> Any:
    if isinstance(value, get_args(Expr)):
        return expression_text(value)
    if dataclasses.is_dataclass(value):
        return {"node": type(value).__name__, **_fields(value)}
    return str(value)


def _fields(value: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    names = (f.name for f in dataclasses.fields(value) if f.name not in leave_out)
    return {name: plain(getattr(value, name)) for name in names}
