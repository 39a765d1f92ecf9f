"""The trace by lanes: one in-order queue of one core each, with what it did and waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.simulator import CAUSES, Run
from septran.simulator.commands import CODES

Array = np.ndarray[Any, Any]

NAMES = tuple(name.removeprefix("dsa.") for name in CODES)
"""The name of each command in a profile, by its number."""
CONTROL = "control"
"""The control core, in the place of a queue's name."""
_ORDERING = [CODES[f"dsa.{name}"] for name in ("set_flag", "wait_flag", "sync", "barrier")]


@dataclass(frozen=True)
class Lane:
    """One queue of one core over the whole run."""

    core: int
    queue: str
    commands: int
    """Without flags."""
    busy_cycles: int
    """In which at least one of its commands was carried out."""
    utilisation: float
    """`busy_cycles` over all cycles of the run."""
    bytes: int
    flops: int
    stalls: Mapping[str, int]
    """Cycles by cause: ``flag``, ``full``, ``bandwidth``, ``sync``."""


def working(trace: Array) -> Array:
    """Return which records do something, rather than order others."""
    mask: Array = ~np.isin(trace["command"], _ORDERING)
    return mask


def lanes(run: Run) -> tuple[Lane, ...]:
    """All lanes that something was issued to: by core, then in the order of the queues."""
    trace = run.trace
    works = working(trace)
    found = []
    for core in np.unique(trace["core"]):
        for number, queue in enumerate(run.queues):
            mine = (trace["core"] == core) & (trace["queue"] == number)
            if mine.any():
                found.append(_lane(int(core), queue, trace[mine], trace[mine & works], run.cycles))
    return tuple(found)


def _lane(core: int, queue: str, every: Array, works: Array, cycles: int) -> Lane:
    busy = int(sum(end - start for start, end in unions(works)))
    return Lane(
        core,
        queue,
        len(works),
        busy,
        busy / cycles if cycles else 0.0,
        int(works["bytes"].sum()),
        int(works["flops"].sum()),
        {cause: int(every[cause].sum()) for cause in CAUSES},
    )


def unions(records: Array) -> Array:
    """The times in which something of `records` was going on, as rows (start, end).

    Copies of one queue overlap where the latency of one hides behind the bytes of another.
    """
    records = records[records["end"] > records["start"]]
    if not len(records):
        return np.zeros((0, 2), np.int64)
    ordered = records[np.argsort(records["start"], kind="stable")]
    start, reach = ordered["start"], np.maximum.accumulate(ordered["end"])
    # A new span begins where all that began before has ended.
    first = np.concatenate([[True], start[1:] > reach[:-1]])
    ends = np.append(reach[:-1][first[1:]], reach[-1])
    return np.stack([start[first], ends], axis=1)


def waits(records: Array) -> Array:
    """The times in which the head of one lane waited for a flag, as rows (start, end)."""
    held = records[records["flag"] > 0]
    return np.stack([held["start"], held["start"] + held["flag"]], axis=1)


def shares(spans: Array, cycles: int, columns: int) -> Array:
    """Return how much of each of `columns` equal parts of the run the spans cover, from 0 to 1."""
    edges = np.linspace(0, cycles, columns + 1)
    starts, ends = spans[:, 0].astype(float), spans[:, 1].astype(float)
    before = np.concatenate([[0.0], np.cumsum(ends - starts)])

    def covered(at: Array) -> Array:
        """Cycles before each time that the spans, which are apart and in order, cover."""
        number = np.searchsorted(starts, at, side="right")
        last = np.maximum(number - 1, 0)
        inside = np.minimum(at, ends[last]) - starts[last]
        result: Array = np.where(number > 0, before[last] + inside, 0.0)
        return result

    if not len(spans) or not cycles:
        return np.zeros(columns)
    result: Array = np.diff(covered(edges)) / (cycles / columns)
    return result
