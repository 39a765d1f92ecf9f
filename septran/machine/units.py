"""Amounts as machine files write them: ``227KiB``, ``4.8TB/s``, ``600ns``, a power of two."""

# ruff: noqa: D102 -- the methods of every kind are those of `Kind`, described there

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from septran.machine.kinds import Report, Schema
from septran.machine.positions import Node

_BYTES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_DECIMAL = {"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
SIZE: Mapping[str, tuple[str, float]] = {u: ("B", f) for u, f in {**_BYTES, **_DECIMAL}.items()}
TIME: Mapping[str, tuple[str, float]] = {
    "ns": ("ns", 1.0),
    "us": ("ns", 1e3),
    "cycles": ("cycles", 1.0),
    "cycle": ("cycles", 1.0),
}
RATE: Mapping[str, tuple[str, float]] = {
    **{f"{unit}/s": ("B/s", factor) for unit, (_, factor) in SIZE.items()},
    "B/cycle": ("B/cycle", 1.0),
}
WORK: Mapping[str, tuple[str, float]] = {
    "FMA/cycle": ("FMA/cycle", 1.0),
    "elements/cycle": ("FMA/cycle", 1.0),
}
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z/]{1,32})")


@dataclass(frozen=True)
class Amount:
    """A number with one of some units."""

    units: Mapping[str, tuple[str, float]]
    example: str
    suffix: str = ""
    """A pattern of text that may follow the unit, such as ``/SM``; it only informs."""
    positive: bool = True
    """Whether the amount must be greater than zero."""
    least: float = 0.0
    """The least amount, in the base unit."""

    @property
    def expected(self) -> str:
        return f"an amount such as {self.example}"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, str | int) and not isinstance(node.value, bool)

    def check(self, node: Node, report: Report) -> None:
        if self._split(node.text) is None:
            units = ", ".join(self.units)
            report.wrong(f"{node.text!r} is not {self.expected}", node.where, f"units: {units}")
            return
        number, unit = self.read(node)
        if number < self.least or (self.positive and number == 0):
            below = f"at least {self.least:g} {unit}" if self.least else "more than zero"
            report.wrong(f"{node.text} is not {below}", node.where, f"such as {self.example}")

    def read(self, node: Node) -> tuple[float, str]:
        """Return the number in the base unit, and that unit; raises ValueError for other texts."""
        found = self._split(node.text)
        if found is None:
            raise ValueError(node.text)
        number, unit = found
        base, factor = self.units[unit]
        return number * factor, base

    def _split(self, text: str) -> tuple[float, str] | None:
        match = _AMOUNT.fullmatch(text.strip())
        if not match:
            return None
        unit = match[2]
        if self.suffix and unit not in self.units:
            unit = re.sub(self.suffix + "$", "", unit)
        return (float(match[1]), unit) if unit in self.units else None

    def schema(self) -> Schema:
        units = "|".join(re.escape(unit) for unit in self.units)
        number = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
        if self.positive:
            number = rf"(?=[0-9.]*[1-9]){number}"
        suffix = f"(?:{self.suffix})?" if self.suffix else ""
        return {"type": "string", "pattern": rf"^\s*{number}\s*(?:{units}){suffix}\s*$"}


@dataclass(frozen=True)
class PowerOfTwo:
    """A power of two, up to a bound, of which addresses are multiples."""

    most: int = 1 << 16
    expected: str = "a power of two, such as 64"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, int) and not isinstance(node.value, bool)

    def check(self, node: Node, report: Report) -> None:
        value = node.value
        if isinstance(value, int) and value not in self._powers():
            below = 1 << min(max(value, 1), self.most).bit_length() - 1
            message = f"{node.text} is not a power of two of at most {self.most}"
            report.wrong(message, node.where, f"such as {below}")

    def schema(self) -> Schema:
        return {"enum": self._powers()}

    def _powers(self) -> list[int]:
        return [1 << n for n in range(self.most.bit_length())]


BYTES = Amount(SIZE, "227KiB", least=1.0)
BANDWIDTH = Amount(RATE, "4.8TB/s or 128B/cycle")
LATENCY = Amount(TIME, "600ns or 200cycles", positive=False)
THROUGHPUT = Amount(WORK, "1024 FMA/cycle", r"/[A-Za-z]+")
