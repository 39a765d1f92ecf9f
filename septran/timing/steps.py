"""A program as steps of a clock: work, flags, loops.

What varies from iteration to iteration is a function of the values of the loops around, in a list:
each loop and each name has its place there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Union

from septran.timing.clock import Clock, Cost
from septran.timing.steady import Steady

WATCHED, STEPS = 6, 100
"""Iterations, and steps of all of them, from which on it pays to look for repetition."""
PATIENCE = 4
"""How often in turn a loop is watched that does not repeat itself."""

Values = list[int]
"""The value of each loop and name, by place."""
Number = Callable[[Values], int]


@dataclass(frozen=True, eq=False)
class CommandStep:
    """A command for a queue."""

    queue: Number
    key: Callable[[Values], Hashable]
    """What its cost depends on."""
    cost: Callable[[Any], Cost]


@dataclass(frozen=True, eq=False)
class FlagStep:
    """A flag that one queue sets, or another waits for."""

    sets: bool
    source: Number
    target: Number
    number: Number


@dataclass(frozen=True, eq=False)
class Meet:
    """The control core waits for all its queues."""


@dataclass(frozen=True, eq=False)
class ShareStep:
    """From here on so many cores use main memory's port."""

    cores: Number


@dataclass(frozen=True, eq=False)
class Name:
    """A name for a number."""

    place: int
    value: Number


@dataclass(frozen=True, eq=False)
class BranchStep:
    """Steps that are done under a condition, and others that are done otherwise."""

    condition: Number
    body: tuple[Step, ...]
    otherwise: tuple[Step, ...] = ()


@dataclass(frozen=True, eq=False)
class Repeat:
    """A loop from 0."""

    place: int
    extent: Number
    body: tuple[Step, ...]
    varies: bool = True
    """Whether what is done, flags' numbers left out, may depend on its index."""

    @cached_property
    def weight(self) -> int:
        """The steps in its body, those of loops inside once."""
        return _weight(self.body)


Step = Union[CommandStep, FlagStep, Meet, ShareStep, Name, BranchStep, Repeat]


def _weight(body: tuple[Step, ...]) -> int:
    inner = [step for step in body if isinstance(step, Repeat)]
    branches = [
        part
        for step in body
        if isinstance(step, BranchStep)
        for part in (step.body, step.otherwise)
    ]
    return len(body) + sum(loop.weight for loop in inner) + sum(map(_weight, branches))


def run(body: tuple[Step, ...], values: Values, clock: Clock) -> None:
    """Work out the times of all steps."""
    for step in body:
        match step:
            case CommandStep():
                clock.work(step.queue(values), step.cost(step.key(values)))
            case FlagStep():
                act = clock.set if step.sets else clock.wait
                act(step.source(values), step.target(values), step.number(values))
            case Name():
                values[step.place] = step.value(values)
            case Meet():
                clock.meet()
            case ShareStep():
                clock.share(step.cores(values))
            case BranchStep():
                run(step.body if step.condition(values) else step.otherwise, values, clock)
            case Repeat():
                _repeat(step, values, clock)


def _repeat(loop: Repeat, values: Values, clock: Clock) -> None:
    """Walk a loop; once it repeats itself, go on where it no longer does."""
    extent, n = loop.extent(values), 0
    steady = Steady(clock)

    done: dict[int, Hashable] = {}

    def alike(first: int, second: int) -> bool:
        if not loop.varies:
            return True
        for n in (first, second):
            if n not in done:
                done[n] = hash(_done(loop, n, values))
        return done[first] == done[second]

    while n < extent:
        values[loop.place] = n
        run(loop.body, values, clock)
        n += 1
        if steady is not None:
            n += steady.skipped(n, extent, alike)
    if steady is not None:
        clock.fruitless[id(loop)] = 0 if steady.moved else clock.fruitless.get(id(loop), 0) + 1


def _done(loop: Repeat, n: int, values: Values) -> tuple[Hashable, ...]:
    """What one iteration does, of loops inside the first and the last iteration."""
    inside = list(values)
    inside[loop.place] = n
    return tuple(_forms(loop.body, inside))


def _forms(body: tuple[Step, ...], values: Values) -> Iterator[Hashable]:
    for step in body:
        match step:
            case CommandStep():
                yield step.key(values)
            case Name():
                values[step.place] = step.value(values)
            case BranchStep():
                holds = bool(step.condition(values))
                yield holds
                yield from _forms(step.body if holds else step.otherwise, values)
            case Repeat():
                extent = step.extent(values)
                yield extent
                for n in sorted({0, extent - 1}) if extent > 0 else ():
                    values[step.place] = n
                    yield from _forms(step.body, values)
