"""A machine as JSON and back, so that a saved kernel can be simulated anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

from septran.location import Location
from septran.machine.model import Engine, Instruction, Machine, Memory, Processor

_PARTS: Mapping[str, type] = {
    "processors": Processor, "memories": Memory, "engines": Engine, "instructions": Instruction,
}  # fmt: skip


def to_json(machine: Machine) -> str:
    """Return a machine as JSON, without the places in its file."""
    return json.dumps(_plain(machine))


def from_json(text: str) -> Machine:
    """Return the machine that `to_json` wrote."""
    data = json.loads(text)
    for key, kind in _PARTS.items():
        data[key] = tuple(kind(**_frozen(part)) for part in data[key])
    return Machine(**{k: v if k in _PARTS else _value(v) for k, v in data.items()})


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        pairs = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {name: _plain(v) for name, v in pairs if not isinstance(v, Location)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType(_frozen(value))
    return tuple(_value(v) for v in value) if isinstance(value, list) else value


def _frozen(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _value(v) for k, v in data.items()}
