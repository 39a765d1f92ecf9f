"""Queues: which one each engine and instruction issues to, and what orders them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from septran.machine.model import Machine
from septran.tile.nodes import Compute, Copy


@dataclass(frozen=True)
class Queues:
    """The queues of one core of a machine, by number."""

    machine: Machine

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of each queue by engine or instruction queue, in the machine file's order.

        ``vendor: {queues: {name: other}}`` sends what `name` carries out to another queue
        (or gives it a number).
        """
        folded: Mapping[str, Any] = self.machine.vendor.get("queues") or {}
        names = self.known
        # Given numbers, then the least free ones, then those of queues that have theirs by now.
        numbers = {n: int(folded[n]) for n in names if isinstance(folded.get(n), int)}
        for name in names:
            if name not in folded:
                free = 0
                while free in numbers.values():
                    free += 1
                numbers[name] = free
        for name in names:
            if name not in numbers:
                numbers[name] = numbers[self.target(str(folded[name]))]
        return numbers

    @property
    def known(self) -> tuple[str, ...]:
        """The names of queues, in the machine file's order."""
        return tuple(dict.fromkeys([*(e.name for e in self.machine.engines), *self._instructions]))

    @property
    def _instructions(self) -> list[str]:
        return [i.queue for i in self.machine.instructions]

    def target(self, word: str) -> str:
        """The queue that a word of ``vendor.queues`` means."""
        name = self.machine.canonical(word)
        own = {i.name: i.queue for i in self.machine.instructions}
        return own.get(name, name)

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The name of each queue: that of its instructions where it has some."""
        found: dict[int, str] = {}
        for name in [*self._instructions, *(e.name for e in self.machine.engines)]:
            found.setdefault(self.numbers[name], name)
        return found

    def of(self, node: Copy | Compute) -> int:
        """The queue that carries out a node."""
        if isinstance(node, Copy):
            return self.numbers[self.machine.engine(node.engine).name]
        return self.numbers[self.machine.instruction(node.instruction).queue]

    @cached_property
    def synchronous(self) -> frozenset[int]:
        """Queues that no flag can order: only ``sync`` waits for them."""
        if self.machine.vendor.get("flags") == 0:
            return frozenset(self.numbers.values())
        return frozenset(
            self.numbers[e.name] for e in self.machine.engines if e.completes_by == "sync"
        )

    @property
    def flags(self) -> int | None:
        """Flag numbers for each pair of queues; None where there is no limit."""
        limit = self.machine.vendor.get("flags")
        return None if limit is None else int(limit)

    @property
    def flag_depth(self) -> int:
        """How far a flag counts before a set waits; 1 where the file says nothing."""
        return int(self.machine.vendor.get("flag_depth", 1))
