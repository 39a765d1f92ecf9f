"""A program's code between guard pages, where nothing else of the kernel is looked at."""

from __future__ import annotations

from typing import Any

import septran
from septran.runtime.arguments import scalar_values
from septran.runtime.checks import check, sample
from septran.runtime.guard.check import run_guarded
from septran.runtime.signature import Specialisation


def check_between_guards(logic: Any, mapping: Any = "cpu-x86", **given: Any) -> None:
    """As `kernel.check(guard=True)`, which makes the kernel itself as well: that is not run."""
    made, name = Specialisation.of(septran.produce_stages(logic, mapping, **given)), str(logic)
    scalars = scalar_values(name, made.scalars, {})

    def launch(arrays: Any) -> Any:
        return run_guarded(made, arrays, scalars)

    check(name, made, sample(made), scalars, launch).raise_if_wrong()
