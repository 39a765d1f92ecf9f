"""What a mapping asks for the loops of a task instance, as tile programs have it."""

from __future__ import annotations

from septran.mapping.resolved import Instance
from septran.tile.nodes import Request


def request_of(instance: Instance) -> Request:
    """The settings of one instance that passes read."""
    return Request(
        instance.path,
        instance.pipeline.value,
        instance.warpspecialize.value,
        instance.consumers.value,
        tuple(sorted(instance.registers.items())),
        instance.pipeline.where,
        tuple((name, setting.value) for name, setting in sorted(instance.tunables.items())),
        *_schedule(instance),
        tuple((primitive, setting.value) for primitive, setting in instance.rounded.items()),
    )


def _schedule(instance: Instance) -> tuple[bool, int, tuple[int, ...], bool, bool]:
    """`persistent`, `raster`, `cluster`, `overlap` and `turns` as a request has them."""
    given = {key: setting.value for key, setting in instance.schedule.items()}
    raster, cluster = given.get("raster"), given.get("cluster", ())
    assert isinstance(cluster, int | list | tuple)
    sizes = (cluster,) if isinstance(cluster, int) else tuple(cluster)
    rows = raster if isinstance(raster, int) else 0
    overlap, turns = bool(given.get("overlap")), bool(given.get("turns"))
    return bool(given.get("persistent")), rows, sizes, overlap, turns
