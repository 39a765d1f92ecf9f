"""Speed on this CPU beside torch's: ``python -m benchmarks.cpu``.

Both sides work on the same tensors, alternate in one process, and are compared by the
median of the pairs' ratios; a ratio above 1 means that SepTran is faster.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch

import septran
from septran.runtime.duel import Duel, duel
from septran.targets.cpu.isa import host_arch
from septran.targets.cpu.threads import set_threads, usable_cores

GEMMS = (
    *((n, n, n) for n in (128, 256, 512, 1024, 2048)),
    (1000, 777, 333),
    (64, 4096, 1024),
    (333, 777, 1000),
)
"""M, N, K."""
SOFTMAXES = ((4096, 64), (4096, 256), (1024, 1024), (128, 8192), (1000, 777))


@dataclass(frozen=True)
class Case:
    """One operator on one shape, ours and torch's, checked against float64."""

    operator: str
    shape: tuple[int, ...]
    ours: Callable[[], object]
    theirs: Callable[[], object]
    error: float
    """Greatest deviation of ours from a float64 result."""
    work: float
    """Floating-point operations (gemm) or bytes (softmax) of one run."""


def gemm(m: int, n: int, k: int) -> Case:
    """C = A @ B in float32."""
    a, b = torch.randn(m, k), torch.randn(k, n)
    c, other = torch.empty(m, n), torch.empty(m, n)
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": m, "N": n, "K": k})
    kernel(a, b, out=c)
    error = (c.double() - a.double() @ b.double()).abs().max().item()
    return Case(
        "gemm", (m, n, k), lambda: kernel(a, b, out=c), lambda: torch.mm(a, b, out=other),
        error, 2.0 * m * n * k,
    )  # fmt: skip


def softmax(m: int, n: int) -> Case:
    """Softmax along the last axis in float32."""
    x, y, other = torch.randn(m, n) * 4, torch.empty(m, n), torch.empty(m, n)
    kernel = septran.compile("softmax", "cpu-x86", shapes={"M": m, "N": n})
    kernel(x, out=y)
    error = (y.double() - torch.softmax(x.double(), 1)).abs().max().item()
    return Case(
        "softmax", (m, n), lambda: kernel(x, out=y), lambda: torch.softmax(x, 1, out=other),
        error, 8.0 * m * n,
    )  # fmt: skip


def cases(operators: Iterable[str]) -> Iterator[Case]:
    """All cases of the operators asked for."""
    if "gemm" in operators:
        yield from (gemm(*shape) for shape in GEMMS)
    if "softmax" in operators:
        yield from (softmax(*shape) for shape in SOFTMAXES)


def run(operators: Iterable[str], threads: Iterable[int], seconds: float) -> None:
    """Print the table, a geometric mean for each operator and number of threads last."""
    print(f"SepTran {septran.__version__} (TVM {importlib.metadata.version('apache-tvm')})", end="")
    print(f" beside torch {torch.__version__} on {platform.machine()} {host_arch()},", end=" ")
    print(f"{usable_cores()} cores")
    print("| operator | shape | threads | ratio | SepTran | torch | unit | error | pairs |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    ratios: dict[tuple[str, int], list[float]] = {}
    for case in cases(operators):
        for count in threads:
            set_threads(count)
            torch.set_num_threads(count)
            result = duel(case.ours, case.theirs, seconds)
            ratios.setdefault((case.operator, count), []).append(result.ratio)
            print(_line(case, count, result), flush=True)
    for (operator, count), values in sorted(ratios.items()):
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"geometric mean of {operator} on {count} thread(s): {mean:.3f}")


def _line(case: Case, count: int, result: Duel) -> str:
    shape = "x".join(map(str, case.shape))
    ours, theirs = (case.work / t / 1e9 for t in (result.ours_seconds, result.theirs_seconds))
    unit = "GFLOP/s" if case.operator == "gemm" else "GB/s"
    return (
        f"| {case.operator} | {shape} | {count} | {result.ratio:.3f} | {ours:.1f} | {theirs:.1f} "
        f"| {unit} | {case.error:.1e} | {result.pairs} |"
    )


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", default=["gemm", "softmax"])
    parser.add_argument("--seconds", type=float, default=1.5, help="for each line of the table")
    parser.add_argument("--threads", type=int, nargs="*", default=None)
    options = parser.parse_args()
    threads = options.threads or sorted({1, min(2, usable_cores())})
    run(options.operators, threads, options.seconds)


if __name__ == "__main__":
    main()
