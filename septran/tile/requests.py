"""What the mapping asks for the loops of a task instance, as passes read it."""

from __future__ import annotations

from septran.mapping.resolved import Instance
from septran.tile.nodes import Request


def request_of(instance: Instance) -> Request:
    """The settings of an instance that passes look at."""
    return Request(
        instance.path,
        instance.pipeline.value,
        instance.warpspecialize.value,
        instance.consumers.value,
        tuple(sorted(instance.registers.items())),
        instance.pipeline.where,
        tuple((name, setting.value) for name, setting in sorted(instance.tunables.items())),
        _asked(instance, "persistent"),
        _raster(instance),
        _asked(instance, "overlap"),
        _asked(instance, "turns"),
    )


def _asked(instance: Instance, key: str) -> bool:
    return key in instance.schedule and bool(instance.schedule[key].value)


def _raster(instance: Instance) -> int:
    setting = instance.schedule.get("raster")
    return setting.value if setting is not None and isinstance(setting.value, int) else 0
