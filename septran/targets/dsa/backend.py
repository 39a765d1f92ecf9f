"""The facts about accelerators with scratchpads that layers below the targets need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from septran.backends import Backend

if TYPE_CHECKING:
    from septran.machine.model import Machine


def _lint(machine: Machine) -> Iterator[str]:
    """Its vendor section, and a header, which is no data, that nobody has said to trust."""
    from septran.targets.dsa.code.trust import advice, untrusted
    from septran.targets.dsa.code.vendor import Vendor

    Vendor(machine).check()
    header = untrusted(machine)
    if header is not None:
        yield (
            f"the header {header.path.name} beside it is C code, which you do not trust: nothing "
            "of it is compiled or run, and nobody checks that it agrees with this file. If you "
            f"would run code of those who wrote it: {advice(machine)}"
        )


def _schedule(program: Any) -> Any:
    from septran.targets.dsa.schedule.control import work_out

    return work_out(program)


BACKEND = Backend(
    "dsa",
    keys=frozenset({"persistent"}),
    simulated=True,
    dynamic=True,
    schedule=_schedule,
    lint=_lint,
)
