"""Kernels between torch's operations, call by call: ``python -m benchmarks.cpu mixed``.

A program that uses a kernel calls torch's operations before and after it. Every case of the
other tables is timed alone and in turns with a small `torch.softmax` on the same threads, which
is timed alone, too; so is torch's own way of doing the same, in the kernel's place. Two pools whose
idle threads spin on the same cores show here, and nowhere in a benchmark of one side at a time.
With ``--spinning`` other processes keep cores busy meanwhile.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from benchmarks.cpu_case import Case, Run
from septran.runtime.beside_torch.interleaved_timing import WARM_UP_CALLS, seconds_of

MOST = 1.1
"""A call in turns with torch's may take so many times as long as alone, and torch's after it."""
LEAST_ROUNDS = 5
SERIES_SECONDS = 0.01
"""Of calls of one side alone, or of both in turns, before the next series."""
SHAPE = (64, 1024)
"""Of the softmax: several threads work on it, and their second-level caches keep it."""


@dataclass(frozen=True)
class Turns:
    """Seconds, medians, of a call and of the softmax beside it."""

    alone: float
    after: float
    """The call's, each after a softmax."""
    other_alone: float
    other_after: float
    """The softmax's, each after a call."""

    @property
    def factors(self) -> tuple[float, float]:
        """How much longer the call and the softmax take in turns than alone."""
        return self.after / self.alone, self.other_after / self.other_alone


def in_turns(side: Run, other: Run, seconds: float) -> Turns:
    """Short series of `side`, of `other`, and of both in turns, again and again."""
    series: tuple[tuple[Run, ...], ...] = ((side,), (other,), (side, other))
    times: list[list[list[float]]] = [[[] for _ in runs] for runs in series]
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < LEAST_ROUNDS or time.perf_counter() < end:
        for runs, found in zip(series, times, strict=True):
            _series(runs, found)
        rounds += 1
    [alone], [other_alone], [after, other_after] = (
        [statistics.median(one) for one in found] for found in times
    )
    return Turns(alone, after, other_alone, other_after)


def _series(runs: Sequence[Run], found: Sequence[list[float]]) -> None:
    """Call `runs` in turns for a moment; the first calls find what another series left."""
    for _ in range(WARM_UP_CALLS):
        for run in runs:
            run()
    end = time.perf_counter() + SERIES_SECONDS
    while True:
        for run, times in zip(runs, found, strict=True):
            times.append(seconds_of(run))
        if time.perf_counter() >= end:
            return


@contextmanager
def spinning(count: int) -> Iterator[None]:
    """`count` processes that never rest."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(cases: Iterable[Case], count: int, seconds: float) -> None:
    """Print a line for each case, then geometric means and the worst of each family."""
    x = torch.randn(*SHAPE)
    y = torch.empty_like(x)

    def other() -> object:
        return torch.softmax(x, 1, out=y)

    who = ("SepTran", "softmax after it", "torch", "softmax after torch")
    print("| operator | shape | threads | SepTran us | torch us | ", end="")
    print(" | ".join(f"{name}: in turns / alone" for name in who) + " |")
    print("| --- |" + " --- |" * (4 + len(who)))
    found: dict[str, list[tuple[float, ...]]] = {}
    for case in cases:
        sides = (in_turns(way, other, seconds) for way in (case.ours, case.theirs[0]))
        ours, theirs = sides
        factors = (*ours.factors, *theirs.factors)
        found.setdefault(case.family, []).append(factors)
        cells = [case.operator, case.shape, str(count)]
        cells += [f"{side.after * 1e6:.1f}" for side in (ours, theirs)]
        print("| " + " | ".join([*cells, *(f"{f:.2f}" for f in factors)]) + " |", flush=True)
    print(f"\n| family: geometric mean, worst; at most {MOST} | " + " | ".join(who) + " |")
    print("| --- |" + " --- |" * len(who))
    for family, lines in found.items():
        columns = list(zip(*lines, strict=True))
        means = (math.exp(statistics.fmean(map(math.log, column))) for column in columns)
        cells = [f"{mean:.2f}, {max(c):.2f}" for mean, c in zip(means, columns, strict=True)]
        print(f"| {family} | " + " | ".join(cells) + " |")
