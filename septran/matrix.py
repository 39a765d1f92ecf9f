"""Every operator on every machine: compiled, run, and compared with the exact result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from septran import operators
from septran.compiler import compile as compile_kernel
from septran.errors import SepTranError
from septran.format_units import time_text
from septran.operators import Case
from septran.runtime.checks import Check
from septran.runtime.kernel import Kernel
from septran.runtime.profile import Profile
from septran.targets.base import Untimed

MACHINES = ("cpu-x86", "cpu-arm", "dsa-sim", "npu-cube")
"""The machines that run here: this processor, one that QEMU emulates, and the simulated ones."""
EMULATED = ("nvidia-h200", "nvidia-a100")
"""The machines whose generated code an emulator runs."""
SAMPLES = 5
"""The number of timed calls; cycles need one, as a simulator always counts the same."""
_WIDTH = 28


@dataclass(frozen=True)
class Cell:
    """One case of an operator on one machine."""

    case: Case
    machine: str
    right: bool
    worst: float
    """The greatest error of all outputs, as a fraction of the error bound."""
    unknown: int
    """The number of elements without a finite error bound; they do not make a cell wrong."""
    seconds: float | None
    """Seconds of the fastest call; None on simulated and emulated machines."""
    cycles: int | None
    """Simulated cycles of a call; None on real machines, and on emulated ones, without time."""
    message: str
    """The mistake, or the reason why it was not run; empty when right."""
    ran: bool = True
    """Whether the kernel was executed; what was only compiled is neither right nor wrong."""

    @property
    def cost(self) -> str:
        """The cell's time or cycles as text: ``12.3 us`` or ``4,688 cycles``."""
        if self.cycles is not None:
            return f"{self.cycles:,} cycles"
        return "" if self.seconds is None else time_text(self.seconds, 3)

    def to_dict(self) -> dict[str, Any]:
        """Return the cell's figures by name."""
        return {
            "operator": self.case.operator, "machine": self.machine,
            "sizes": dict(self.case.sizes), "static": dict(self.case.static),
            "dtype": self.case.dtype, "right": self.right, "worst": self.worst,
            "unknown": self.unknown, "seconds": self.seconds, "cycles": self.cycles,
            "message": self.message, "ran": self.ran,
        }  # fmt: skip


@dataclass(frozen=True)
class Matrix:
    """The whole table, by operator, case and machine."""

    cells: tuple[Cell, ...]

    @property
    def right(self) -> bool:
        """Whether every cell is right."""
        return all(cell.right for cell in self.cells)

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines in the order of the columns."""
        return tuple(dict.fromkeys(cell.machine for cell in self.cells))

    def to_markdown(self) -> str:
        """Return a Markdown table with a row per operator.

        A column has the cases that are right, the worst share of the error bound, and the cost of
        the middle case.
        """
        lines = [
            f"| operator | {' | '.join(self.machines)} |",
            f"| --- |{' --- |' * len(self.machines)}",
        ]
        for name, cells in groupby(self.cells, lambda c: c.case.operator):
            row = list(cells)
            columns = (self._summary([c for c in row if c.machine == m]) for m in self.machines)
            lines.append(f"| `{name}` | {' | '.join(columns)} |")
        return "\n".join(lines)

    @staticmethod
    def _summary(cells: list[Cell]) -> str:
        if not any(cell.ran for cell in cells):
            return "compiled only"
        right = sum(cell.right for cell in cells)
        worst = max(cell.worst for cell in cells)
        words = (f"{right}/{len(cells)}", f"{worst:.2g}", cells[len(cells) // 2].cost)
        return ", ".join(filter(None, words))

    def __str__(self) -> str:
        cases = dict.fromkeys(f"{c.case.operator}  {c.case}" for c in self.cells)
        width = max(map(len, cases), default=0)
        lines = [f"{'':{width}}" + "".join(f"  {machine:>{_WIDTH}}" for machine in self.machines)]
        for case, cells in groupby(self.cells, lambda c: c.case):
            row = list(cells)
            head = f"{f'{case.operator}  {case}':{width}}"
            lines.append(head + "".join(f"  {_text(cell):>{_WIDTH}}" for cell in row))
            lines += [f"  {c.machine}: {c.message}" for c in row if not c.right]
        ran = [cell for cell in self.cells if cell.ran]
        note = "shares are of the error that rounding allows"
        lines.append(f"{sum(cell.right for cell in ran)} of {len(ran)} right; {note}")
        why = {cell.message for cell in self.cells if not cell.ran}
        lines += [f"{len(self.cells) - len(ran)} only compiled: {text}" for text in sorted(why)]
        return "\n".join(lines)


def measure_matrix(
    names: Iterable[str] | None = None,
    machines: Iterable[str] = MACHINES,
    *,
    jobs: int = 1,
    first: bool = False,
    emulate: bool = False,
    show: Callable[[Cell], None] = lambda _: None,
) -> Matrix:
    """Run the cases of operators (all where None) on machines.

    Args:
        names: Operators of the library.
        machines: By name; each needs a backend that runs here.
        jobs: Processes side by side, whose times then disturb each other.
        first: Only the first case of each operator.
        emulate: Run generated GPU code on the CPU, in every order of its asynchronous copies.
        show: Called with each cell when it is there.

    Raises:
        SepTranError: for an operator that there is not. A cell's own mistakes are in it.
    """
    columns = tuple(machines)
    cases = [
        case
        for name in (operators.names() if names is None else names)
        for case in operators.cases(name)[: 1 if first else None]
    ]
    asked = [(case, machine) for case in cases for machine in columns]
    cells: list[Cell] = []
    if jobs == 1:
        for case, machine in asked:
            cells.append(measure_cell(case, machine, emulate))
            show(cells[-1])
        return Matrix(tuple(cells))
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        how = [emulate] * len(asked)
        for cell in pool.map(measure_cell, *zip(*asked, strict=True), how):
            cells.append(cell)
            show(cell)
    return Matrix(tuple(cells))


def measure_cell(case: Case, machine: str, emulate: bool = False) -> Cell:
    """Check one case on one machine with random inputs, then time it; or only emulate it."""
    try:
        kernel = compile_kernel(
            case.operator, machine, shapes=case.sizes, dtypes=case.dtype, static=case.static,
            emulate=emulate,
        )  # fmt: skip
        inputs = kernel.sample()
        if emulate:
            return _cell(case, machine, _emulated(kernel, inputs), None, None)
        executable = kernel.stages.executable
        if isinstance(executable, Untimed):
            lacks = executable.missing()
            if lacks:
                why = f"this host has no {' and no '.join(lacks)}"
                return Cell(
                    case, machine, right=True, worst=0.0, unknown=0, seconds=None, cycles=None,
                    message=why, ran=False,
                )  # fmt: skip
            return _cell(case, machine, [kernel.check(**inputs)], None, None)
        check = kernel.check(**inputs)
        profile = kernel.profile(**inputs, repeat=SAMPLES)
    except SepTranError as error:
        return Cell(
            case, machine, right=False, worst=float("inf"), unknown=0, seconds=None, cycles=None,
            message=str(error),
        )  # fmt: skip
    if isinstance(profile, Profile):
        return _cell(case, machine, [check], profile.best, None)
    return _cell(case, machine, [check], None, int(profile.cycles))


def _emulated(kernel: Kernel, inputs: dict[str, Any]) -> list[Check]:
    """Return a check for each order in which asynchronous operations may take effect."""
    from septran.emulator import MODES, emulation

    checks: list[Check] = []
    for mode in MODES:
        with emulation(mode):
            checks.append(kernel.check(**inputs))
    return checks


def _cell(
    case: Case, machine: str, checks: list[Check], seconds: float | None, cycles: int | None
) -> Cell:
    outputs = [output for check in checks for output in check.outputs]
    wrong = [str(check) for check in checks if not check.right]
    return Cell(
        case,
        machine,
        not wrong,
        max((output.worst for output in outputs), default=0.0),
        max((output.unknown for output in outputs), default=0),
        seconds,
        cycles,
        wrong[0] if wrong else "",
    )


def _text(cell: Cell) -> str:
    if not cell.ran:
        return "compiled only"
    return f"right {cell.worst:7.2g} {cell.cost:>14}" if cell.right else "WRONG"
