"""Kernels and torch's operations in turns: ``python -m benchmarks.cpu_beside``.

Single calls of `torch.softmax` and of a kernel alternate in one process, with default threads:
what a program does that uses both. Each is timed by itself and in turns with the other, and so
is torch's own operation in the kernel's place. Two pools whose idle threads spin on the same
cores show here, and nowhere in a benchmark of one side at a time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import torch

import septran
from benchmarks.cpu_case import Run
from septran.targets.cpu.run.isa import host_arch
from septran.targets.cpu.run.threads import usable_cores

WARM_CALLS = 20


def pairs() -> Iterator[tuple[str, Run, Run]]:
    """A name, a kernel's call, and torch's for the same."""
    for size in (256, 512):
        gemm = septran.compile("gemm", "cpu-x86")
        a, b = torch.randn(size, size), torch.randn(size, size)
        yield f"gemm {size}", lambda: gemm(a, b), lambda: torch.mm(a, b)  # noqa: B023
    softmax = septran.compile("softmax", "cpu-x86")
    x = torch.randn(512, 1024)
    yield "softmax 512 x 1024", lambda: softmax(x), lambda: torch.softmax(x, 1)


def microseconds(calls: int, *sides: Callable[[], object]) -> list[float]:
    """The median time of each side, called one after another again and again."""
    for _ in range(WARM_CALLS):
        for side in sides:
            side()
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(calls):
        for side, found in zip(sides, times, strict=True):
            start = time.perf_counter()
            side()
            found.append(time.perf_counter() - start)
    return [statistics.median(found) * 1e6 for found in times]


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    calls = parser.parse_args().calls
    beside = torch.randn(512, 1024)

    def other() -> object:
        return torch.softmax(beside, 1)

    print(f"torch {torch.__version__}, {host_arch()}, {usable_cores()} cores, ", end="")
    print(f"{torch.get_num_threads()} threads; us, medians of {calls} calls\n")
    print("| beside torch.softmax | who | alone | in turns | torch.softmax alone | in turns |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, ours, theirs in pairs():
        for who, side in (("SepTran", ours), ("torch", theirs)):
            side()
            [alone], [before] = microseconds(calls, side), microseconds(calls, other)
            turned, after = microseconds(calls, side, other)
            cells = " | ".join(f"{t:.0f}" for t in (alone, turned, before, after))
            print(f"| {name} | {who} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
