"""What a mapping asks for the loops of a task instance, as tile programs have it."""

from __future__ import annotations

from septran.location import Location
from septran.machine.model import Machine
from septran.mapping.keys import LAYOUTS
from septran.mapping.resolved import Instance
from septran.tile.layouts import ROW, Layout
from septran.tile.records import LoopSchedule
from septran.tile.verify.bijection import LayoutError


def request_of(instance: Instance) -> LoopSchedule:
    """The settings of one instance that passes read."""
    return LoopSchedule(
        instance.path,
        instance.settings,
        tuple((name, setting.value) for name, setting in sorted(instance.tunables.items())),
        tuple((primitive, setting.value) for primitive, setting in instance.rounded.items()),
    )


def asked_at(instance: Instance, tensor: str) -> Location | None:
    """The entry of the mapping that asks for a tensor's layout."""
    wanted = instance.settings.table(LAYOUTS).get(tensor)
    return wanted.where if wanted else None


def laid_out(machine: Machine, instance: Instance, tensor: str, shape: tuple[int, ...]) -> Layout:
    """The layout that the mapping asks for a tensor of a task; row where it says nothing.

    Raises LayoutError where no buffer of that shape, or no buffer of that machine, has it.
    """
    wanted = instance.settings.table(LAYOUTS).get(tensor)
    if wanted is None:
        return ROW
    try:
        layout = Layout.parse(wanted.value)
    except ValueError as error:
        raise LayoutError(str(error), wanted.where) from None
    if len(shape) < layout.least_rank:
        message = f"{layout} is for {layout.least_rank} axes or more, and {tensor} is {list(shape)}"
        raise LayoutError(message, wanted.where)
    if layout.kind == "swizzle" and not any("swizzle" in e.layouts for e in machine.engines):
        known = dict.fromkeys(kind for e in machine.engines for kind in e.layouts)
        hint = f"its engines know {', '.join(known)}"
        raise LayoutError(f"{machine.name} has no swizzles", wanted.where, hint=hint)
    return layout
