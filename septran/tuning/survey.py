"""What a CPU can do, measured: clock, caches, bandwidths, instructions, functions, starts of loops.

Cycles are those of the clock that is found in the same rounds, whatever the processor's name says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from septran.backends import HostLoops, backend_of
from septran.errors import MachineError
from septran.machine.model import Instruction, Machine
from septran.tuning import caches
from septran.tuning.probes import ROUNDS, Figure, Probe, sample

FUNCTION_ROWS = 64, 1024
"""Elements that functions are measured on: 256 KiB each of input and output."""


class CannotMeasureError(MachineError):
    """A machine cannot be measured here."""

    code = "SEP207"


@dataclass(frozen=True)
class Survey:
    """All figures of this host."""

    machine: Machine
    """The shipped machine whose figures these are to replace."""
    host: str
    """What the code generator calls the processor."""
    cores: int
    clock: Figure
    """Cycles a second."""
    call: Figure
    """Seconds of a kernel's call that does almost nothing."""
    launch: Figure | None
    """Seconds of a loop over all cores that does almost nothing; None of a single core."""
    levels: tuple[caches.Level, ...]
    """The smallest first, main memory last."""
    instructions: dict[str, tuple[Figure, Figure]]
    """Multiply-adds or elements a second, by one core alone and by each of all."""
    wide: Figure | None
    """Those of float64 by one core."""
    costs: dict[str, Figure]
    """Vector operations that each function costs."""
    lacking: tuple[str, ...]
    """Instructions that this host does not have."""


def survey(machine: Machine, rounds: int = ROUNDS, largest: int = caches.LARGEST) -> Survey:
    """Measure this host as the one that `machine` describes; raises CannotMeasureError."""
    loops = loops_of(machine)
    cores = loops.cores()
    loops.use_threads(1)
    probes = _probes(machine, loops, cores)
    sizes = caches.cache_sizes(machine, loops, largest)
    spans = tuple(caches.spans(machine, sizes, largest, cores))
    memory = caches.memory_probes(spans, loops, cores, largest)
    sample([*probes.values(), *memory.values()], rounds, loops.use_threads)
    levels = tuple(caches.levels(spans, memory, loops, cores))
    # The latencies above were measured on one thread.
    loops.use_threads(cores)
    rates = {name: probe.rate for name, probe in probes.items()}
    found = {
        i.name: (rates[f"{i.name}/1"], rates[f"{i.name}/{cores}"])
        for i in machine.instructions if f"{i.name}/1" in rates
    }  # fmt: skip
    launch = probes["launch"].seconds if cores > 1 else None
    return Survey(
        machine, loops.host(), cores, rates["clock"], probes["call"].seconds, launch,
        levels, found, rates.get("float64"),
        _costs(probes, rates["vector/1"].value),
        tuple(i.name for i in machine.instructions if not _has(machine, i)),
    )  # fmt: skip


def loops_of(machine: Machine) -> HostLoops:
    """The module of the machine's loops; raises CannotMeasureError unless this host runs them."""
    loops = backend_of(machine.backend).loops
    if loops is None:
        raise CannotMeasureError(
            f"{machine.name} is no CPU: its figures are those of its file",
            machine.location,
            hint="measure cpu-x86 or cpu-arm, on a host of that kind",
        )
    found = loops()
    if not found.runs(machine):
        raise CannotMeasureError(
            f"{machine.name} is another kind of processor than this host's",
            machine.location,
            hint="measure it on a host of its kind; no time of an emulator would be of use",
        )
    return found


# ------------------------------------------------------------ instructions, functions, starts
def _probes(machine: Machine, loops: HostLoops, cores: int) -> dict[str, Probe]:
    """Everything but caches, by name; of instructions with the number of threads."""
    found = {"clock": Probe(_counted(*loops.clock()))}
    for instruction in machine.instructions:
        for threads in sorted({1, cores}):
            made = loops.sums(instruction.name, threads) if _has(machine, instruction) else None
            if made:
                run, work = made
                # Each core's part, so that one core alone and one of all can be compared.
                found[f"{instruction.name}/{threads}"] = Probe(
                    _counted(run, work / threads), threads
                )
    wide = loops.sums("fma_microkernel", 1, "float64")
    if wide:
        found["float64"] = Probe(_counted(*wide))
    if cores > 1:
        found["launch"] = Probe(_counted(loops.launch(cores), 1), cores)
    found["call"] = Probe(_call(machine))
    for name, probe in _functions(machine):
        found[name] = probe
    return found


def _counted(run: Callable[[int], object], amount: float) -> Callable[[int], float]:
    def counted(times: int) -> float:
        run(times)
        return times * amount

    return counted


def _has(machine: Machine, instruction: Instruction) -> bool:
    """Whether this host has what an instruction requires."""
    features = backend_of(machine.backend).features
    return features is None or set(instruction.requires) <= features("native")


def _functions(machine: Machine) -> Iterator[tuple[str, Probe]]:
    """Sums of each function, and one of none, as kernels."""
    from septran.tuning.function_sums import FUNCTIONS

    for name in ("", *FUNCTIONS):
        yield f"function {name}", Probe(_kernel(machine, name, FUNCTION_ROWS))


def _call(machine: Machine) -> Callable[[int], float]:
    """Calls of a kernel on four elements."""
    run = _kernel(machine, "", (1, 4))
    return lambda times: run(times) / 4


def _kernel(machine: Machine, function: str, shape: tuple[int, int]) -> Callable[[int], float]:
    """Calls of a sum's kernel; the elements that they compute."""
    import numpy as np

    from septran.compiler import compile
    from septran.runtime.arrays import as_torch
    from septran.tuning.function_sums import sums

    rows, columns = shape
    kernel = compile(
        sums, machine.name, shapes={"M": rows, "N": columns}, static={"function": function}
    )
    values = np.random.default_rng(1).uniform(0.5, 1.5, shape).astype("float32")
    x, y = as_torch(values), as_torch(np.empty_like(values))

    def run(times: int) -> float:
        for _ in range(times):
            kernel(x, out=y)
        return times * rows * columns

    return run


def _costs(probes: dict[str, Probe], adds: float) -> dict[str, Figure]:
    """Vector operations of each function: what a sum of it takes more than one of none."""
    from septran.tuning.function_sums import FUNCTIONS, SCALES

    plain = probes["function "].samples
    return {
        name: Figure.of(
            [
                # Seconds that one function adds to an element, times operations of the unit a
                # second.
                max(1.0, (1 / each - 1 / none) / len(SCALES) * adds)
                for each, none in zip(probes[f"function {name}"].samples, plain, strict=True)
            ]
        )
        for name in FUNCTIONS
    }
