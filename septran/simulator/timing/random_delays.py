"""Delays that hardware is free to have: a correct stream gives the same under all of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.simulator.errors import SimulationError
from septran.simulator.timing.costs import Costs

Array = np.ndarray[Any, Any]

VARIABLE = "SEPTRAN_DSA_ADVERSARIAL"
"""Environment variable with the seed of delays, for runs that do not name one."""


@dataclass(frozen=True)
class Delays:
    """Random delays of a run: events happen later than they would, never earlier."""

    lanes: tuple[int, ...]
    """Cycle at which each queue begins to work (missing ones at once)."""
    starts: Array
    """Cycles that each command waits at the head of its queue."""
    ends: Array
    """Cycles that each takes longer."""
    effect: Array
    """When in the time from start (0) to end (1) each reads and writes."""


def delays(cost: Costs, lanes: int, seed: int | None) -> Delays:
    """None for no seed: copies take effect when they end, computations when they start."""
    size = len(cost.cycles)
    copies = cost.lead > 0
    if seed is None:
        zero = np.zeros(size, np.int64)
        return Delays((), zero, zero, np.where(copies, 1.0, 0.0))
    random = np.random.default_rng(seed)
    typical = int(np.median(cost.cycles[cost.cycles > 0])) if (cost.cycles > 0).any() else 1
    longest = 2 * typical + 64
    late = random.integers(0, 4 * longest, lanes) * (random.random(lanes) < 0.5)
    starts = random.integers(0, longest, size) * (random.random(size) < 0.25)
    ends = random.integers(0, longest, size) * (random.random(size) < 0.25)
    busy = (cost.cycles > 0) | (cost.shared_bytes > 0)
    effect = random.random(size)
    # Half of them right at the start or at the end, the extremes.
    effect = np.where(random.random(size) < 0.5, np.round(effect), effect)
    return Delays(tuple(late.tolist()), starts, np.where(busy, ends, 0), effect)


def seed_of(adversary: int | None) -> int | None:
    """The seed asked for, or the environment's."""
    if adversary is not None:
        return adversary
    text = os.environ.get(VARIABLE, "")
    if text and not text.isdecimal():
        raise SimulationError(f"{VARIABLE} is a seed, a number such as 7, not {text!r}")
    return int(text) if text else None
