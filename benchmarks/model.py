"""The performance model beside the simulator: ``python -m benchmarks.model [OPERATOR ...]``.

For each operator and DSA, the shipped mapping and random ones: every tunable that it sets a
quarter of, half of, as it is, or twice as large, and each `pipeline` from 1 to 3. What the
compiler refuses is left out, and a program that was drawn before, too. Printed are the predicted
beside the simulated cycles: the middle and the worst difference, the rank correlation
(Spearman's) over the mappings of one operator, and how fast the mapping is that the model puts
first, or the best of its first five, beside the fastest of all (1 is best).
"""

from __future__ import annotations

import argparse
import math
import random
import re
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from septran import operators
from septran.compiler import compile_request, fitted
from septran.errors import SepTranError
from septran.mapping.loader import load_mapping
from septran.request import CompileRequest
from septran.targets.dsa.schedule.control import work_out
from septran.tile.analyses.indirect import indirect
from septran.tuning.model import predict

FACTORS = (0.25, 0.5, 1, 2)
STAGES = ("1", "2", "3")
TRIES = 4
"""Mappings that are drawn for each that is wanted, as many are refused."""


class OutOfTimeError(Exception):
    """The processor time of an operator is over, whatever is being done."""


@dataclass(frozen=True)
class Pair:
    """One mapping of an operator."""

    operator: str
    machine: str
    change: str
    predicted: int
    simulated: int
    model_seconds: float
    """Processor seconds that the prediction took."""

    @property
    def off(self) -> float:
        """How far the prediction is from the simulated cycles, as a share of these."""
        return abs(self.predicted / self.simulated - 1)


def main() -> None:
    """Print a row for each operator and machine, and what holds over all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", default=[])
    parser.add_argument("--on", default="dsa-sim,npu-cube", help="machines, with commas")
    parser.add_argument("--mappings", type=int, default=50, help="random mappings of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="of the processor, of each")
    parser.add_argument("--small", action="store_true", help="sizes of the first case of each")
    parser.add_argument("--all", action="store_true", help="print each mapping")
    given = parser.parse_args()
    found: list[Pair] = []
    for operator in given.operators or operators.names():
        for machine in given.on.split(","):
            first = _request(operator, machine, given.small)
            mine = list(pairs(first, given.mappings, given.seed, given.seconds))
            found += mine
            if mine:
                print(row(mine), flush=True)
            for pair in mine if given.all else ():
                print(f"    {pair.predicted:>11,} {pair.simulated:>11,}  {pair.change}")
    print(total(found))


def pairs(
    first: CompileRequest, count: int, seed: int, seconds: float = math.inf
) -> Iterator[Pair]:
    """The shipped mapping of an operator, and up to `count` random ones; what fits in the time."""
    end, timed = time.process_time() + seconds, seconds < math.inf
    signal.signal(signal.SIGPROF, _out_of_time)
    operator, machine = first.entry.name, first.mapping.machine.name
    draw = random.Random(f"{operator} {machine} {seed}")  # no secret
    known: set[str] = set()
    values = _tunables(first)
    wanted = count + 1
    for n in range(1 + count * TRIES):
        if len(known) == wanted or time.process_time() > end:
            return
        request, change = first, "as shipped"
        signal.setitimer(signal.ITIMER_PROF, max(0.01, end - time.process_time()) if timed else 0)
        try:
            if n:
                request, change = _drawn(first, values, draw)
            pair = _pair(request, operator, machine, change, known)
        except SepTranError:
            continue
        except OutOfTimeError:
            break
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if pair is not None:
            yield pair


def _out_of_time(*_: Any) -> None:
    raise OutOfTimeError


def _request(operator: str, mapping: Any, small: bool) -> CompileRequest:
    if not small:
        return CompileRequest.of(operator, mapping).with_example()
    case = operators.cases(operator)[0]
    return CompileRequest.of(
        operator, mapping, shapes=case.sizes, dtypes=case.dtype, static=case.static
    )


def _tunables(request: CompileRequest) -> dict[str, int]:
    """The integer tunables that the mapping sets for an operator, with their values."""
    stages = fitted(request)
    return {
        name: setting.value
        for instance in stages.mapping.instances
        for name, setting in instance.tunables.items()
        if isinstance(setting.value, int) and not isinstance(setting.value, bool)
    }


def _drawn(
    first: CompileRequest, values: dict[str, int], draw: random.Random
) -> tuple[CompileRequest, str]:
    """A random mapping of the same, and how it differs."""
    file = Path(str(first.mapping.file))
    stages: list[str] = []

    def stage(_: re.Match[str]) -> str:
        stages.append(draw.choice(STAGES))
        return f"pipeline: {stages[-1]}"

    text = re.sub(r"pipeline: \d+", stage, file.read_text("utf-8"))
    tried = {name: max(1, int(value * draw.choice(FACTORS))) for name, value in values.items()}
    mapping = load_mapping(text, folder=file.parent)
    request = replace(first, mapping=mapping).with_tunables(tried)
    set_to = ", ".join(f"{name}={value}" for name, value in tried.items())
    return request, f"{set_to}; pipeline {' '.join(stages)}"


def _pair(
    request: CompileRequest, operator: str, machine: str, change: str, known: set[str]
) -> Pair | None:
    """Predict and simulate; None for a program that is known already."""
    program = fitted(request).tile_program
    text = str(program)
    if text in known:
        return None
    kernel = compile_request(request)
    sample = kernel.sample(0)
    names = indirect(program.body)
    begin = time.process_time()
    if names and all(name in sample for name in names):
        # The same rows and counts as the run's, which the program alone does not say.
        tables = {name: np.asarray(sample[name]) for name in names}
        predicted = work_out(program, tables).cycles
    elif names:
        return None  # computed by the program itself: nobody knows them before
    else:
        predicted = predict(program).cycles or 0
    seconds = time.process_time() - begin
    known.add(text)
    simulated = kernel.profile(**sample).cycles
    return Pair(operator, machine, change, predicted, simulated, seconds)


def row(found: Sequence[Pair]) -> str:
    """One operator on one machine."""
    name = f"{found[0].operator} on {found[0].machine}"
    return f"{name:36} {summary(found)}  rank {ranked(found)}"


def total(found: Sequence[Pair]) -> str:
    """All of them."""
    return f"{'all':36} {summary(found)}" if found else "nothing compiled"


def summary(found: Sequence[Pair]) -> str:
    """The middle and the worst difference."""
    off = [pair.off for pair in found]
    cost = statistics.median(pair.model_seconds for pair in found)
    return (
        f"{len(found):4} mappings: median {statistics.median(off):.2%}, worst {max(off):.1%} off, "
        f"{cost:.2f} s each"
    )


def ranked(found: Sequence[Pair]) -> str:
    """Rank correlation, and the speed of the model's first and of its first five."""
    if len(found) < 3:
        return "-"
    predicted = np.array([pair.predicted for pair in found])
    simulated = np.array([pair.simulated for pair in found])
    ranks = [np.argsort(np.argsort(values, kind="stable")) for values in (predicted, simulated)]
    order = np.argsort(predicted, kind="stable")
    best = simulated.min()
    correlation = np.corrcoef(*ranks)[0, 1]
    return (
        f"{correlation:.3f}, first {best / simulated[order[0]]:.3f}, "
        f"of five {best / simulated[order[:5]].min():.3f}"
    )


if __name__ == "__main__":
    main()
