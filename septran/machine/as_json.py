"""A machine as JSON and back, so that a saved kernel can be simulated anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from septran.machine.model import Engine, Instruction, Machine, Memory, Processor, frozen

_PARTS: Mapping[str, type] = {
    "processors": Processor, "memories": Memory, "engines": Engine, "instructions": Instruction,
}  # fmt: skip


def to_json(machine: Machine) -> str:
    """Return a machine as JSON, without what concerns its file alone: places, former keys."""
    return json.dumps(_plain(machine))


def from_json(text: str) -> Machine:
    """Return the machine that `to_json` wrote."""
    data = json.loads(text)
    for key, kind in _PARTS.items():
        data[key] = tuple(kind(**frozen(part)) for part in data[key])
    return Machine(**{k: v if k in _PARTS else frozen(v) for k, v in data.items()})


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        # What equal machines may differ in is of the file, and nobody has that where JSON is read.
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
