"""Fragments: how the elements of a REGISTER buffer are spread over threads and registers.

Each axis is a product of digits, the most significant first, like a number in a mixed
radix. A digit is a part of the thread's number or of the register's. The accumulator of a
wgmma of 64 x N by one warpgroup is

    axis 0   warp 4 | register 2 | lane 8
    axis 1   register N/8 | lane 4 | register 2

Threads that differ only in digits that no axis uses hold copies: rows of that accumulator
are ``fragment.without(1)``, the same in the four lanes of a quad.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from septran.ir.index import Index, IndexLike

WARP = 32
GROUP = 4 * WARP
"""Threads of a warp, and of a warpgroup."""


@dataclass(frozen=True)
class Digit:
    """``number // stride % extent`` of a thread's or register's number."""

    extent: int
    place: str
    """Whose number it is a digit of: ``thread`` or ``register``."""
    stride: int


def thread(extent: int, stride: int) -> Digit:
    """A digit of the thread's number in its role."""
    return Digit(extent, "thread", stride)


def register(extent: int, stride: int) -> Digit:
    """A digit of the register's number."""
    return Digit(extent, "register", stride)


@dataclass(frozen=True)
class Fragment:
    """A buffer's elements over the `threads` of a role."""

    axes: tuple[tuple[Digit, ...], ...]
    """For each axis its digits, the most significant first; none for an axis of one element."""
    threads: int

    @staticmethod
    def of(axes: Sequence[Sequence[Digit]], threads: int) -> Fragment:
        """Without digits of one value, so that equal layouts are equal."""
        kept = tuple(tuple(d for d in digits if d.extent > 1) for digits in axes)
        return Fragment(kept, threads)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.axes)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Room along each axis: at least the buffer's extent."""
        return tuple(math.prod(d.extent for d in digits) for digits in self.axes)

    @cached_property
    def registers(self) -> int:
        """Elements that each thread holds."""
        return max((d.stride * d.extent for d in self.digits("register")), default=1)

    def digits(self, place: str) -> Iterator[Digit]:
        """All digits of a place."""
        return (d for digits in self.axes for d in digits if d.place == place)

    def weighted(self, axis: int) -> Iterator[tuple[Digit, int]]:
        """The digits of an axis with the step of the coordinate that each makes."""
        weight = self.extents[axis]
        for digit in self.axes[axis]:
            weight //= digit.extent
            yield digit, weight

    @cached_property
    def replicated(self) -> tuple[tuple[int, int], ...]:
        """``(stride, extent)`` of thread digits that no axis uses: those threads hold copies."""
        found: list[tuple[int, int]] = []
        at = 1
        for digit in sorted(self.digits("thread"), key=lambda d: d.stride):
            # A gap between strides is a digit that no axis has.
            if digit.stride > at:
                found.append((at, digit.stride // at))
            at = digit.stride * digit.extent
        if at < self.threads:
            found.append((at, -(-self.threads // at)))
        return tuple(found)

    def coordinates(self, thread: IndexLike, register: IndexLike) -> tuple[Index, ...]:
        """The element that a thread holds in a register."""
        numbers = {"thread": Index.of(thread), "register": Index.of(register)}
        return tuple(
            sum(
                (numbers[d.place] // d.stride % d.extent * w for d, w in self.weighted(axis)),
                Index(),
            )
            for axis in range(self.rank)
        )

    def parts(self, place: str, shape: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """For each axis what each of its coordinates adds to a thread's or register's number."""
        return tuple(
            tuple(
                sum(c // w % d.extent * d.stride for d, w in self.weighted(n) if d.place == place)
                for c in range(extent)
            )
            for n, extent in enumerate(shape)
        )

    def without(self, axis: int) -> Fragment:
        """The layout of what is left when an axis is reduced away: copies in its threads."""
        return Fragment(self.axes[:axis] + self.axes[axis + 1 :], self.threads).packed()

    def packed(self) -> Fragment:
        """The same with register numbers from 0 on without gaps."""
        digits = sorted(self.digits("register"), key=lambda d: d.stride)
        strides: dict[Digit, int] = {}
        at = 1
        for digit in digits:
            strides[digit] = at
            at *= digit.extent
        axes = tuple(
            tuple(register(d.extent, strides[d]) if d in strides else d for d in axis)
            for axis in self.axes
        )
        return Fragment(axes, self.threads)

    def agrees(self, axis: int, other: Fragment, other_axis: int) -> bool:
        """Whether equal coordinates along two axes lie in equal threads, step by step."""
        # Registers may be numbered otherwise: `RegisterLoop.register` translates digit by digit.
        mine = [(d.extent, d.place, d.place == "thread" and d.stride) for d in self.axes[axis]]
        its = [
            (d.extent, d.place, d.place == "thread" and d.stride) for d in other.axes[other_axis]
        ]
        return mine == its and self.threads == other.threads

    def __str__(self) -> str:
        return " x ".join(
            "(" + " ".join(f"{d.place[0]}{d.extent}:{d.stride}" for d in digits) + ")"
            for digits in self.axes
        )


@dataclass(frozen=True)
class Holding:
    """A REGISTER buffer as the threads that run a body hold it."""

    buffer: str
    fragment: Fragment
    first: int
    """The first of those threads in their block."""
    instruction: str = ""
    """What demands it so; empty where it follows from what the buffer meets."""

    @property
    def copies(self) -> int:
        """Threads that hold the same element."""
        return math.prod(extent for _, extent in self.fragment.replicated)


def spread(shape: Sequence[int], threads: int, vector: int) -> Fragment:
    """Vectors along the last axis, its chunks over a warp or more, rows over the other threads.

    `vector` elements are contiguous in a thread where the last extent is a multiple of it.
    """
    if not shape:
        return Fragment((), threads)
    # Digits are powers of two; threads beyond the greatest hold copies (`replicated`).
    usable = 1 << threads.bit_length() - 1
    vector = math.gcd(vector, shape[-1])
    chunks = -(-shape[-1] // vector)
    rows = math.prod(shape[:-1])
    # A warp goes along a row, so that its accesses are neighbours; more only where rows are few.
    wanted = max(WARP, usable // power_of_two(rows))
    lanes = min(power_of_two(chunks), wanted, usable)
    outer = -(-chunks // lanes)
    last = [register(outer, vector), thread(lanes, 1), register(vector, 1)]
    axes: list[list[Digit]] = [last]
    stride, at = lanes, vector * outer
    for extent in reversed(shape[:-1]):
        over = min(power_of_two(extent), usable // stride)
        rest = -(-extent // over)
        axes.insert(0, [register(rest, at), thread(over, stride)])
        stride, at = stride * over, at * rest
    return Fragment.of(axes, threads)


def power_of_two(number: int) -> int:
    """The least power of two that is not below `number`."""
    return 1 << max(0, number - 1).bit_length()
