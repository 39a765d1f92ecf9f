"""Which levels of a machine can hold tensors in which memories."""

from __future__ import annotations

from dataclasses import replace

from septran.machine.model import Machine
from septran.mapping.resolved import Setting


def sees(machine: Machine, proc: str, memory: str) -> bool:
    """Whether tasks on a level can hold tensors in a memory.

    The memory's own level and those inside see it. A level outside, but not the host,
    holds a tensor in it together with its units, each a part (a block's fragments in its
    threads' registers).
    """
    if machine.sees(proc, memory):
        return True
    return machine.processor(proc) != machine.host


def canonical(machine: Machine, setting: Setting[str]) -> Setting[str]:
    """A name as the machine file spells it, with what was written in the reason."""
    own = machine.canonical(setting.value)
    if own == setting.value:
        return setting
    return replace(setting, value=own, reason=f"{setting.reason} ({setting.value})")
