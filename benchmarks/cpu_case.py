"""What one line of the CPU's table compares, and what each family of lines must reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

import septran
from septran.machine.loader import load_machine

Run = Callable[[], object]

BARS: dict[str, tuple[float, float]] = {
    "gemm": (1.0, 1.08),
    "gemm small and odd": (1.2, 1.3),
    "gemm int8": (1.05, 1.25),
    "gemm bfloat16": (1.05, 1.25),
    "conv2d": (1.2, 1.7),
    "dequant_gemm int4": (2.0, 3.0),
    "attention full": (1.2, 1.4),
    "attention causal": (1.5, 1.9),
    "rows in cache": (2.0, 3.0),
    "rows from DRAM / copy": (0.9, 1.0),
}
"""Geometric means that a family must reach and that it aims for; the others have no bar."""


@dataclass(frozen=True)
class Case:
    """One operator on one shape, ours and torch's, checked against float64."""

    family: str
    operator: str
    shape: str
    ours: Run
    theirs: tuple[Run, ...]
    """Ways of doing it in torch, of which the fastest counts."""
    error: float
    """Greatest deviation of ours from a float64 result."""
    work: float
    """Operations of one run, or bytes read and written."""
    unit: str = "GFLOP/s"
    peer: str = ""
    """Whose `theirs` are, where they are not torch's."""
    kernel: septran.Kernel = field(kw_only=True)
    """Ours, whose time is predicted, too."""


class Machine:
    """The machine that kernels are compiled for and predicted on."""

    name = "cpu-x86"
    """Or its file, such as `septran machines --measure` writes."""
    predicted = ""
    """The one whose figures predict, where it is another one."""


def compiled(operator: str, **options: Any) -> septran.Kernel:
    """The kernel of an operator or a logic file with the machine's own mapping."""
    return septran.compile(operator, machine=Machine.name, **options)


def predicted_seconds(kernel: septran.Kernel, threads: int) -> float:
    """What the performance model says of the latest shapes, on so many cores."""
    from septran.tuning.model import predict

    program = kernel.stages.tile_program
    machine = load_machine(Machine.predicted) if Machine.predicted else program.machine
    host, *inner = machine.processors
    inner = [replace(inner[0], count=threads), *inner[1:]]
    machine = replace(machine, processors=(host, *inner))
    return predict(replace(program, machine=machine)).seconds


NEAR = 1.5
"""Times by which a prediction may miss to either side."""


def near(ratio: float) -> bool:
    """Whether predicted over measured time is about one."""
    return 1 / NEAR <= ratio <= NEAR


def deviation(ours: torch.Tensor, exact: torch.Tensor) -> float:
    """Greatest distance of an element from its float64 value."""
    return (ours.double() - exact.double()).abs().max().item()


def by(*extents: int) -> str:
    """A shape as text."""
    return "x".join(map(str, extents))
