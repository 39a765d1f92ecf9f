"""Main memory's port: copies that are on it at one time share its bandwidth."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence


class Port:
    """Copies that wait for or use one bandwidth, each at most at its own rate."""

    def __init__(self, bytes_per_cycle: float) -> None:
        self.bytes_per_cycle = bytes_per_cycle
        self.now = 0.0
        self.asking: list[tuple[int, int, int, float]] = []
        """Heap of (time, command, bytes, rate)."""
        self.active: list[_Transfer] = []

    def ask(self, at: int, command: int, size: int, rate: float) -> None:
        """A copy is ready for its first byte at cycle `at`."""
        heapq.heappush(self.asking, (at, command, size, rate))

    def next(self) -> tuple[int, int, float] | None:
        """The next copy that ends: (command, when it asked, when it ended).

        None where there is none. What asks later than this call returns asks for a later
        time than that of the copy returned.
        """
        if len(self.asking) == 1 and not self.active:  # as it mostly is
            at, command, size, rate = self.asking.pop()
            begin = at if at > self.now else self.now
            self.now = begin + size / min(rate, self.bytes_per_cycle)
            return command, at, self.now
        while self.asking or self.active:
            first = min((t.left / t.speed for t in self.active), default=math.inf)
            # What comes first: another copy begins, and all shares change, or one ends.
            if self.asking and self.asking[0][0] <= self.now + first:
                at, command, size, rate = heapq.heappop(self.asking)
                self._advance(max(at, self.now))
                self.active.append(_Transfer(command, at, float(size), rate))
                self._share()
                continue
            self._advance(self.now + first)
            done = min(self.active, key=lambda t: t.left / t.speed)
            self.active.remove(done)
            self._share()
            return done.command, done.asked, self.now
        return None

    def _advance(self, to: float) -> None:
        passed = to - self.now
        if passed > 0:
            for transfer in self.active:
                transfer.left = max(0.0, transfer.left - passed * transfer.speed)
        self.now = to

    def _share(self) -> None:
        speeds = fair(self.bytes_per_cycle, [t.rate for t in self.active])
        for transfer, speed in zip(self.active, speeds, strict=True):
            transfer.speed = speed


class _Transfer:
    __slots__ = ("asked", "command", "left", "rate", "speed")

    def __init__(self, command: int, asked: int, left: float, rate: float) -> None:
        self.command, self.asked, self.left, self.rate = command, asked, left, rate
        self.speed = rate


def fair(total: float, rates: Sequence[float]) -> list[float]:
    """Shares of `total`, none above its rate; what one leaves, the others share."""
    if sum(rates) <= total or len(rates) == 1:
        return [min(rate, total) for rate in rates]
    shares = [0.0] * len(rates)
    left, count = total, len(rates)
    # Max-min fair: the slowest take all that they can use, and what they leave goes to the others.
    for n in sorted(range(len(rates)), key=rates.__getitem__):
        shares[n] = min(rates[n], left / count)
        left, count = left - shares[n], count - 1
    return shares
