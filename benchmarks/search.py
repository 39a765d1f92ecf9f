"""A search that names nothing beside a sweep: ``python -m benchmarks.search [OPERATOR ...]``.

The sweep is a grid that does not come from the search: every tunable of the operator at powers of
two from 8 to the greatest extent, and all pipelines with 1, 2 or 3 stages; of more than `--points`
combinations that many are drawn. What the machine refuses is left out, and of equal programs one is
run. All of them are run, and the fastest is compared with what `septran.tune` finds after
measuring `--runs` candidates. Where times are measured, both winners and the mapping as it is are
timed again alternately, and the medians are compared. Printed is the time of what the search found
as a share of the sweep's best (below 1: the search found a better one), and of the mapping as it
is.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import septran
from septran.compiler import compile_request, fitted
from septran.errors import SepTranError
from septran.mapping.keys import PIPELINE, TUNABLES
from septran.request import CompileRequest
from septran.tuning.changes import changed_text, changes, cost_of, places

SMALLEST = 8
STAGES = (1, 2, 3)
ROUNDS = 7


@dataclass(frozen=True)
class Comparison:
    """A search beside a sweep."""

    operator: str
    machine: str
    swept: int
    """Programs that the sweep ran."""
    best: float
    """The cost of its best: cycles or seconds."""
    found: float
    """The cost of what the search found."""
    before: float
    """The cost of the mapping as it is."""
    measured: int
    """Candidates that the search ran."""
    seconds: tuple[float, float]
    """The seconds that sweep and search took."""

    def __str__(self) -> str:
        swept, searched = self.seconds
        return (
            f"{self.operator:<12} {self.machine:<10} sweep of {self.swept:>3} ({swept:,.0f} s)  "
            f"search {self.measured:>2} runs ({searched:,.0f} s)  "
            f"as it is / best {self.before / self.best:6.3f}  "
            f"found / best {self.found / self.best:6.3f}"
        )


def main() -> None:
    """Print a row for each operator and machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", default=["gemm", "attention", "conv2d", "softmax"])
    parser.add_argument("--on", default="dsa-sim", help="machines, with commas")
    parser.add_argument("--points", type=int, default=300)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shapes", default="", help="M=512,N=256: instead of the example's")
    given = parser.parse_args()
    sizes = {n: int(v) for n, _, v in (p.partition("=") for p in given.shapes.split(",") if p)}
    for operator, machine in itertools.product(given.operators, given.on.split(",")):
        print(compared(operator, machine, sizes, given), flush=True)


def compared(operator: str, machine: str, sizes: dict[str, int], given: Any) -> Comparison:
    """Return a sweep and a search of one operator."""
    request = CompileRequest.of(operator, machine, shapes=sizes or None).with_example()
    began = time.monotonic()
    points = list(grid(request, given.points, given.seed))
    ran = sorted(
        ((cost, n) for n, point in enumerate(points)
         if (cost := measured(point)) is not None)
    )  # fmt: skip
    middle = time.monotonic()
    found = septran.tune(operator, machine, shapes=sizes or None, runs=given.runs)
    end = time.monotonic()
    winner = CompileRequest.of(operator, found.mapping, shapes=sizes or None).with_example()
    best, mine, before = timed(points[ran[0][1]], winner, request)
    runs = found.counts.get("measured", 0)
    return Comparison(
        operator, machine, len(ran), best, mine, before, runs, (middle - began, end - middle)
    )


def grid(request: CompileRequest, count: int, seed: int) -> Iterator[CompileRequest]:
    """Yield the sweep's requests, of equal programs one."""
    resolved = fitted(request).mapping
    most = max(n for p in resolved.tree.root.params for n in p.shape)
    sizes = [2**n for n in range(SMALLEST.bit_length() - 1, (most - 1).bit_length() + 1)]
    names = sorted({p.entry for p in places(resolved) if p.key == TUNABLES.path})
    axes = [*([(name, size) for size in sizes] for name in names), [("", n) for n in STAGES]]
    points = list(itertools.product(*axes))
    random.Random(seed).shuffle(points)
    programs: set[str] = set()
    for *tunables, (_, stages) in points:
        try:
            made = staged(request, resolved, stages).with_tunables(dict(tunables))
            text = str(fitted(made).tile_program)
        except SepTranError:
            continue
        if text not in programs:
            programs.add(text)
            yield made
        if len(programs) == count:
            return


def staged(request: CompileRequest, resolved: Any, stages: int) -> CompileRequest:
    """Return a request with so many stages in all pipelines."""
    made = [c for c in changes(resolved) if c.key == PIPELINE.path and c.after == stages]
    if not made:
        return request
    text = changed_text(request.mapping, *made)
    return replace(request, mapping=septran.load_mapping(text, request.mapping.machine))


def measured(request: CompileRequest) -> float | None:
    """Return the cost of a point, None where it is refused after all."""
    try:
        return cost_of(request)[0]
    except SepTranError:
        return None


def timed(*requests: CompileRequest) -> list[float]:
    """Return cycles, or medians of alternate timings in seconds."""
    first = [cost_of(request) for request in requests]
    if first[0][1] == "cycles":
        return [cost or 0.0 for cost, _ in first]
    kernels = [compile_request(request) for request in requests]
    arrays = [kernel.sample(0) for kernel in kernels]
    rounds = [
        [kernel.profile(*values).best for kernel, values in zip(kernels, arrays, strict=True)]
        for _ in range(ROUNDS)
    ]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


if __name__ == "__main__":
    main()
