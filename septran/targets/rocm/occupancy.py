"""How many blocks a compute unit holds at a time, by registers and by local data share."""

from __future__ import annotations

from septran.emulator.launch import KernelLaunch
from septran.machine.model import Machine
from septran.targets.rocm.compile import HipFigures
from septran.targets.rocm.dialect import LANES


def unit_limits(machine: Machine) -> dict[str, int]:
    """What one compute unit has, from the machine file's ``vendor: compute_unit``."""
    given = machine.vendor.get("compute_unit", {})
    return {str(name): int(value) for name, value in given.items()}


def waves_at_a_time(launch: KernelLaunch, figures: HipFigures, machine: Machine) -> int | None:
    """Waves of this kernel on one compute unit; None where its limits are not known.

    A block's waves are dealt to the vector units in turn, and all of them have to fit.
    """
    limits = unit_limits(machine)
    if not limits or not launch.block:
        return None
    units, waves = limits["vector_units"], -(-launch.block // LANES)
    each = max(_whole(figures.vector_registers, limits["register_unit"]), 1)
    on_unit = min(limits["waves"], limits["registers"] // each)
    blocks = on_unit * units // waves
    shared = _whole(launch.shared_bytes + figures.static_shared_bytes, limits["shared_unit"])
    if shared:
        blocks = min(blocks, limits["shared"] // shared)
    return blocks * waves


def _whole(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit
