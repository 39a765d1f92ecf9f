"""Streams written by hand, as the recorder would have written them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.dtypes import is_float
from septran.simulator.commands import CODES, DTYPES, EXTERNS, RECORD, VALUE

Array = np.ndarray[Any, Any]


@dataclass
class Script:
    """Collects commands: ``script.add("set_flag", src=0, dst=2, flag=0)``.

    Dtypes may be given by name, queues as numbers. Lines count up from 1.
    """

    core: int = 0
    rows: list[tuple[int, int, int, list[int]]] = field(default_factory=list)

    def add(self, name: str, **arguments: Any) -> int:
        """Append one command; gives its position."""
        extern = f"dsa.{name}"
        command, _ = EXTERNS[extern]
        names = [argument.name for argument in command.arguments]
        if set(names) != set(arguments):
            raise TypeError(f"{name} takes {', '.join(names)}, not {', '.join(arguments)}")
        kind = _dtype(arguments.get("type", 0))
        numbers = []
        for argument in command.arguments:
            value = arguments[argument.name]
            if isinstance(value, str):
                value = DTYPES.index(value)
            numbers.append(_bits(value, kind) if argument.kind == VALUE else int(value))
        self.rows.append((CODES[extern], self.core, len(self.rows) + 1, numbers))
        return len(self.rows) - 1

    def stream(self) -> Array:
        """The records."""
        records = np.zeros(len(self.rows), RECORD)
        for record, (code, core, line, numbers) in zip(records, self.rows, strict=True):
            record["code"], record["core"], record["line"] = code, core, line
            record["arguments"][: len(numbers)] = numbers
        return records


def _dtype(kind: str | int) -> str:
    return kind if isinstance(kind, str) else DTYPES[kind]


def _bits(value: float, kind: str) -> int:
    """A `VALUE` argument: the number, or the bits of its float64."""
    if not (is_float(kind) or kind.startswith("float8")):
        return int(value)
    return int(struct.unpack("<q", struct.pack("<d", value))[0])
