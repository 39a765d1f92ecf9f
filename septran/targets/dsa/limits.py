"""The vendor's limits on numbers that only a run knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from septran.machine.model import Machine
from septran.simulator.commands import CODES, EXTERNS
from septran.targets.dsa.code.codegen import LimitError
from septran.targets.dsa.code.vendor import Vendor


def check_limits(
    machine: Machine, stream: np.ndarray[Any, Any], origins: Mapping[int, str]
) -> None:
    """Raise LimitError for the first command whose arguments are beyond ``vendor.limits``."""
    limits = Vendor(machine).limits
    if not limits:
        return
    codes = set(np.unique(stream["code"]).tolist())
    for extern, (command, _) in EXTERNS.items():
        if CODES[extern] not in codes:
            continue
        mine = stream[stream["code"] == CODES[extern]]
        for place, argument in enumerate(command.arguments):
            most = limits.get(argument.name)
            if most is None:
                continue
            over = mine[mine["arguments"][:, place] > most]
            if len(over):
                found, line = int(over[0]["arguments"][place]), int(over[0]["line"])
                raise LimitError(
                    f"{extern} on line {line} has {argument.name} {found:,}, and the vendor's "
                    f"limit is {most:,}",
                    machine.location,
                    hint=origins.get(line),
                )
